import { addSeconds, ceilTo, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { chance } from "./chance.ts";
import type { Coordinates } from "./places.ts";

/** A period of the local day in which a zone's couriers work, as minutes since midnight; `until` exclusive. */
export interface Shift {
  readonly fromMinute: number;
  readonly untilMinute: number;
}

export interface ResolvedTimes {
  readonly pickupTime: Instant;
  readonly deliveryTime: Instant;
  readonly basis: "asap" | "busy_hours";
}

/** Lunch and dinner, local time. */
const BUSY_HOURS: readonly Shift[] = [
  { fromMinute: 11 * 60 + 30, untilMinute: 13 * 60 + 30 },
  { fromMinute: 17 * 60 + 30, untilMinute: 20 * 60 + 30 },
];
const PREPARATION_MINUTES = 10;
const PREPARATION_SPREAD_MINUTES = 10;
const BUSY_EXTRA_MINUTES = 15;
const HANDOVER_MINUTES = 5;
const MINUTES_PER_KILOMETRE = 4;
/** Coarse, so that a quote and the order that follows it agree. */
const ROUNDING_SECONDS = 300;
const MINUTES_PER_DAY = 1_440;

const EARTH_RADIUS_KM = 6_371;
/** Roads are longer than the straight line. */
const DETOUR = 1.3;

/**
 * The times that the service promises in mode `asap`. Assumed, because the spec leaves `basis` open: `busy_hours` at
 * lunch and dinner time, which takes longer, and `asap` at all other times.
 *
 * Depends on the branch, the distance and the time rounded to five minutes, so that a quote gives the order's times
 * (spec, "POST /v1/orders/quote", rule 2).
 *
 * @internal
 */
export function resolveTimes(options: {
  seed: number;
  branchId: string;
  distanceKm: number;
  now: Instant;
  utcOffsetMinutes: number;
  fleetSpeed: number;
}): ResolvedTimes {
  const { seed, branchId, distanceKm, now, utcOffsetMinutes } = options;
  // A fleet that works faster than real time also promises faster; otherwise every order would be absurdly early.
  const pace = Math.max(1, options.fleetSpeed);
  const roundingNanos = BigInt(Math.max(1, Math.round(ROUNDING_SECONDS / pace))) * NANOS_PER_SECOND;
  const start = ceilTo(now, roundingNanos);
  const busy = covers(BUSY_HOURS, minuteOfDay(start, utcOffsetMinutes));
  const spread = Math.floor(chance(seed, "preparation", branchId) * PREPARATION_SPREAD_MINUTES);
  const preparation = PREPARATION_MINUTES + spread + (busy ? BUSY_EXTRA_MINUTES : 0);
  const pickupTime = addSeconds(start, Math.round((preparation * 60) / pace));
  const travel = HANDOVER_MINUTES + Math.ceil(distanceKm * MINUTES_PER_KILOMETRE);
  const deliveryTime = addSeconds(pickupTime, Math.round((travel * 60) / pace));
  return { pickupTime, deliveryTime, basis: busy ? "busy_hours" : "asap" };
}

/** Whether couriers work at `instant`. A shift may extend past midnight. */
export function isCovered(shifts: readonly Shift[], instant: Instant, utcOffsetMinutes: number): boolean {
  return covers(shifts, minuteOfDay(instant, utcOffsetMinutes));
}

/** Kilometres with two decimals (spec, "POST /v1/orders/quote"). */
export function measureDistance(from: Coordinates, to: Coordinates): number {
  const radians = (degrees: number) => (degrees * Math.PI) / 180;
  const height = Math.sin(radians(to.latitude - from.latitude) / 2) ** 2;
  const width = Math.sin(radians(to.longitude - from.longitude) / 2) ** 2;
  const shrink = Math.cos(radians(from.latitude)) * Math.cos(radians(to.latitude));
  const straight = 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(height + shrink * width));
  return Number((straight * DETOUR).toFixed(2));
}

function covers(shifts: readonly Shift[], minute: number): boolean {
  return shifts.some(({ fromMinute, untilMinute }) =>
    fromMinute <= untilMinute
      ? minute >= fromMinute && minute < untilMinute
      : minute >= fromMinute || minute < untilMinute,
  );
}

function minuteOfDay(instant: Instant, utcOffsetMinutes: number): number {
  const minutes = Number(instant / (60n * NANOS_PER_SECOND)) + utcOffsetMinutes;
  return ((minutes % MINUTES_PER_DAY) + MINUTES_PER_DAY) % MINUTES_PER_DAY;
}

/** How long a creation gets the times of the last quote of the same trip. */
const KEPT_NANOS = 300n * NANOS_PER_SECOND;
/** How long further quotes get them. */
const REPEATED_NANOS = 60n * NANOS_PER_SECOND;
const TRIPS_MAX = 10_000;

type Trip = Parameters<typeof resolveTimes>[0];

export type Promises = ReturnType<typeof makePromises>;

/** What quotes have promised; kept in memory only, because a quote stores nothing. */
export function makePromises() {
  const promised = new Map<string, { readonly at: Instant; readonly times: ResolvedTimes }>();
  return {
    /**
     * The times of a trip: those of its last quote for five minutes, so that an order gets what was quoted (spec, "POST
     * /v1/orders/quote", rule 2), however fast the fleet works; otherwise new ones.
     */
    resolve(trip: Trip, { quoted }: { quoted: boolean }): ResolvedTimes {
      const { now, ...rest } = trip;
      const key = JSON.stringify(rest);
      const known = promised.get(key);
      const age = known === undefined ? -1n : now - known.at;
      if (known !== undefined && age >= 0n && age < (quoted ? REPEATED_NANOS : KEPT_NANOS))
        return known.times;
      const times = resolveTimes(trip);
      if (!quoted) return times;
      if (promised.size >= TRIPS_MAX) promised.clear();
      promised.set(key, { at: now, times });
      return times;
    },
  };
}
