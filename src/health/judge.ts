import { NANOS_PER_SECOND } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Condition, Facts } from "./condition.ts";
import { CONDITIONS } from "./conditions.ts";

/** A condition that has held long enough to be reported. */
export interface Holding {
  readonly condition: Condition;
  /** Name of the source, endpoint or queue; empty if there is only one. */
  readonly subject: string;
  readonly since: Instant;
  readonly cause: string;
  readonly remedy: string;
}

export interface Judgement {
  /** Critical ones first, then the longest first. */
  readonly holding: readonly Holding[];
  /** Those that have not held long enough to be reported, but long enough to be noticed, in the same order. */
  readonly beginning: readonly Holding[];
  /** Names of the conditions whose facts are unknown here; nothing is reported about them. */
  readonly unjudged: readonly string[];
}

/** When an occurrence without a known start was first seen, by name and subject. */
export type FirstSeen = Map<string, Instant>;

/**
 * Judges all conditions. A caller that judges repeatedly passes the same `firstSeen` each time. Without it, an occurrence
 * without a known start is reported at once: a single look cannot see how long it has held.
 */
export function judge(facts: Facts, firstSeen?: FirstSeen): Judgement {
  const begun: { readonly holding: Holding; readonly heldSeconds: number }[] = [];
  const unjudged: string[] = [];
  const seen = new Set<string>();
  for (const condition of CONDITIONS) {
    const findings = condition.find(facts);
    if (findings === undefined) unjudged.push(condition.name);
    for (const { subject, since, cause, remedy = condition.remedy } of findings ?? []) {
      const key = `${condition.name} ${subject}`;
      seen.add(key);
      const known = since ?? firstSeen?.get(key);
      const isSingleLook = known === undefined && firstSeen === undefined;
      const beginning = known ?? facts.now;
      firstSeen?.set(key, beginning);
      begun.push({
        holding: { condition, subject, since: beginning, cause, remedy },
        heldSeconds: isSingleLook ? Infinity : Number(facts.now - beginning) / Number(NANOS_PER_SECOND),
      });
    }
  }
  for (const key of firstSeen?.keys() ?? []) if (!seen.has(key)) firstSeen?.delete(key);
  const select = (isChosen: (condition: Condition, heldSeconds: number) => boolean) =>
    begun
      .filter(({ holding, heldSeconds }) => isChosen(holding.condition, heldSeconds))
      .map(({ holding }) => holding)
      .sort(byUrgency);
  return {
    holding: select(({ forSeconds }, held) => held >= forSeconds),
    beginning: select(
      ({ forSeconds, noticedAfterSeconds = Infinity }, held) =>
        held < forSeconds && held >= noticedAfterSeconds,
    ),
    unjudged,
  };
}

function byUrgency(one: Holding, other: Holding): number {
  if (one.condition.severity !== other.condition.severity)
    return one.condition.severity === "critical" ? -1 : 1;
  return one.since < other.since ? -1 : one.since > other.since ? 1 : 0;
}
