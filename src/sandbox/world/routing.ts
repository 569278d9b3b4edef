import { refuseBranch, refuseField, refused } from "../api/refusal.ts";
import { addSeconds, ceilTo, NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import type { QuoteBody } from "../api/bodies.ts";
import { chance } from "./chance.ts";
import type { Branch, Shift, Zone } from "./directory.ts";
import {
  geocode,
  searchKey,
  type Address,
  type AddressReason,
  type Coordinates,
  type Geocoded,
} from "./gazetteer.ts";
import { shownTime, type SandboxState } from "./state.ts";
import { insertSearch } from "./world.sql.ts";

/** The messages of the address check; creation and quote use the same texts. */
export const ADDRESS_MESSAGES: Readonly<Record<AddressReason, string>> = {
  address_not_found: "The address cannot be found.",
  address_ambiguous: "The address matches several places; the postcode would tell which.",
  address_low_confidence: "The address could only be found approximately; check street and house number.",
};

/**
 * Looks an address up for an organization. A search is charged and stored whatever its result: another spelling of the
 * same address is not charged again (spec, "POST /v1/orders"). Assumed: both modes share it.
 */
export async function searchAddress(
  state: SandboxState,
  organizationId: string,
  address: Address,
): Promise<Geocoded> {
  await insertSearch(state.pool, organizationId, searchKey(address));
  return geocode(address);
}

/** The fields of an order that its trip decides. */
export type Trip = ReturnType<typeof planTrip>;

/** Checks and routes an order; stores only a search's result. Throws Refusal. */
export async function routeOrder(
  state: SandboxState,
  organizationId: string,
  order: Omit<QuoteBody, "customer"> & { customer: Pick<QuoteBody["customer"], "address"> },
  purpose: "quote" | "order" = "order",
): Promise<Trip> {
  // Assumed: asap is the only mode.
  if (order.schedule.mode !== "asap") throw refuseField("schedule.mode must be asap.");
  const branch = state.directory.findBranch(organizationId, order.branch);
  // Assumed: both codes and the status; the spec only says that a closed branch is rejected.
  if (!branch) throw refuseBranch();
  if (branch.closed) throw refused(422, "branch_closed", "The branch is closed.");
  const zone = chooseZone(state, branch, order.zoneCode);
  const found = await locate(state, organizationId, order.customer.address);
  // Assumed: the code; the spec only lists coordinates among an organization's prerequisites.
  if (branch.coordinates === null)
    throw refused(422, "branch_not_located", "The branch's main address has no coordinates.");
  const now = shownTime(state.clock.now(), state.faults.current());
  const name = JSON.stringify([branch.branchId, zone.code, found.coordinates]);
  const from = state.quotes.startOf(name, now, purpose);
  const trip = planTrip(state, { branch, zoneCode: zone.code, ...found }, from);
  // Assumed: a courier must work at both times.
  const isServed = [trip.pickupTime, trip.deliveryTime].every((at) =>
    isCovered(zone.shifts, at, state.utcOffsetMinutes),
  );
  // Assumed: 422; the spec does not show the status.
  if (!isServed) throw refused(422, "no_shift_coverage", "No courier shift covers the order.");
  return trip;
}

/** Plans distance and times of a trip, as from `now`. */
export function planTrip(
  state: SandboxState,
  given: { branch: Branch; zoneCode: string; address: Address; coordinates: Coordinates },
  now = shownTime(state.clock.now(), state.faults.current()),
) {
  const { branch, zoneCode, address, coordinates } = given;
  const { branchId } = branch;
  const distanceKm = measureDistance(branch.coordinates ?? coordinates, coordinates);
  const times = resolveTimes(state, { branchId, distanceKm, now });
  return { branchId, zoneCode, ...address, ...coordinates, distanceKm, ...times };
}

/** The address's corrected form and place. Throws address_*. */
async function locate(
  state: SandboxState,
  organizationId: string,
  given: QuoteBody["customer"]["address"],
): Promise<{ address: Address; coordinates: Coordinates }> {
  const { coordinates, ...address } = given;
  if (coordinates) return { address, coordinates };
  const found = await searchAddress(state, organizationId, address);
  // Assumed: 422; the spec does not show the status of the address_* codes.
  if (!found.valid) throw refused(422, found.reason, ADDRESS_MESSAGES[found.reason]);
  return { address: found.normalized, coordinates: found.coordinates };
}

function chooseZone(state: SandboxState, branch: Branch, zoneCode: string | null | undefined): Zone {
  const primary = branch.connections.find((connection) => connection.isPrimary);
  // Assumed: also with a zoneCode. The spec's prerequisites require a primary connection of the branch.
  if (!primary) {
    throw refused(422, "branch_not_connected", "The branch has no primary connection.");
  }
  const code = zoneCode ?? primary.zoneCode;
  if (!branch.connections.some((connection) => connection.zoneCode === code)) {
    // Assumed: the code and the status; the spec only lists the accepted values.
    throw refused(422, "zone_not_connected", "The branch is not connected to this zone.");
  }
  return state.directory.zoneByCode(code);
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
const ROUNDING_SECONDS = 300;
const MINUTES_PER_DAY = 1_440;

const EARTH_RADIUS_KM = 6_371;
/** Roads are longer than the straight line. */
const DETOUR = 1.3;

/**
 * The times that the service promises in mode `asap`. Assumed, because the spec leaves `basis` open: `busy_hours` at
 * lunch and dinner time, which takes longer, and `asap` at all other times.
 *
 * The times depend on the branch, the distance and the time rounded to five minutes.
 */
function resolveTimes(
  { dials, utcOffsetMinutes }: SandboxState,
  { branchId, distanceKm, now }: { branchId: string; distanceKm: number; now: Instant },
) {
  // A fleet that works faster than real time also promises faster; otherwise every order would be absurdly early.
  const pace = Math.max(1, dials.fleetSpeed);
  const roundingNanos = BigInt(Math.max(1, Math.round(ROUNDING_SECONDS / pace))) * NANOS_PER_SECOND;
  const start = ceilTo(now, roundingNanos);
  const busy = isCovered(BUSY_HOURS, start, utcOffsetMinutes);
  const spread = Math.floor(chance(dials.seed, "preparation", branchId) * PREPARATION_SPREAD_MINUTES);
  const preparation = PREPARATION_MINUTES + spread + (busy ? BUSY_EXTRA_MINUTES : 0);
  const pickupTime = addSeconds(start, Math.round((preparation * 60) / pace));
  const travel = HANDOVER_MINUTES + Math.ceil(distanceKm * MINUTES_PER_KILOMETRE);
  const deliveryTime = addSeconds(pickupTime, Math.round((travel * 60) / pace));
  return { pickupTime, deliveryTime, basis: busy ? "busy_hours" : "asap" };
}

/** Tells whether one of the periods of the local day contains `instant`. */
function isCovered(shifts: readonly Shift[], instant: Instant, utcOffsetMinutes: number): boolean {
  const minute = (Number(instant / (60n * NANOS_PER_SECOND)) + utcOffsetMinutes) % MINUTES_PER_DAY;
  return shifts.some(({ fromMinute, untilMinute }) => minute >= fromMinute && minute < untilMinute);
}

/** Kilometres with two decimals (spec, "POST /v1/orders/quote"). */
function measureDistance(from: Coordinates, to: Coordinates): number {
  const radians = (degrees: number) => (degrees * Math.PI) / 180;
  const height = Math.sin(radians(to.latitude - from.latitude) / 2) ** 2;
  const width = Math.sin(radians(to.longitude - from.longitude) / 2) ** 2;
  const shrink = Math.cos(radians(from.latitude)) * Math.cos(radians(to.latitude));
  const straight = 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(height + shrink * width));
  return Number((straight * DETOUR).toFixed(2));
}
