import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { resolveTimes } from "./schedule.ts";
import type { ResolvedTimes } from "./schedule.ts";

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
