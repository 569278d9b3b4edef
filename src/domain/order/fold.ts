import { compareKeys } from "./observation.ts";
import type { Observation } from "./observation.ts";

/**
 * The greatest observation of each order, sorted by source and reference. It stands for all of them: whatever refutes it
 * refutes every claim that it beats.
 *
 * Two rows of one order in a batch would break `INSERT … ON CONFLICT`, and batches that lock rows in different
 * sequences deadlock each other; the sorting is by code unit, the same in every process.
 */
export function fold<Seen extends Observation>(observations: readonly Seen[]): Seen[] {
  const greatest = new Map<string, Seen>();
  for (const observation of observations) {
    const order = orderIdentity(observation);
    const known = greatest.get(order);
    if (known === undefined || compareKeys(observation.key, known.key) > 0) greatest.set(order, observation);
  }
  return [...greatest]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .map(([, observation]) => observation);
}

/** Names the order of an observation, over all sources. */
export function orderIdentity({ sourceId, snapshot }: Observation): string {
  // JSON keeps the two parts apart whatever characters they hold.
  return JSON.stringify([sourceId, snapshot.fields.reference]);
}
