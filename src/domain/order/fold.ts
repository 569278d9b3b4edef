import { compareKeys } from "./observation.ts";
import type { Observation } from "./observation.ts";

/**
 * The greatest observation of each order, sorted by source and reference. It represents all of them: whatever refutes
 * it refutes every claim that it beats.
 *
 * Two rows of one order in a batch would break `INSERT … ON CONFLICT`, and batches that lock rows in different
 * sequences deadlock; the sort is by code unit, the same in every process.
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

/** Identifies the order of an observation across all sources. */
export function orderIdentity({ sourceId, snapshot }: Observation): string {
  // JSON separates the two parts whatever characters they contain.
  return JSON.stringify([sourceId, snapshot.fields.reference]);
}
