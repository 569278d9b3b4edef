import { NANOS_PER_SECOND } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Condition, Facts } from "./condition.ts";
import { CONDITIONS } from "./conditions.ts";

/** A condition that has held for long enough to be reported. */
export interface Holding {
  readonly condition: Condition;
  /** Name of the source, endpoint or queue; empty for what there is one of. */
  readonly subject: string;
  readonly since: Instant;
  readonly cause: string;
  readonly remedy: string;
}

export interface Judgement {
  /** Critical ones first, and the longest first among those. */
  readonly holding: readonly Holding[];
  /** Names of the conditions whose facts are not known here: of these nothing is said. */
  readonly unjudged: readonly string[];
}

/** When what has no beginning of its own was first seen, by name and subject. */
export type FirstSeen = Map<string, Instant>;

/**
 * The one judge of all conditions. `firstSeen` is kept by the caller from one judgement to the next; without it, what
 * has no beginning of its own began just now.
 */
export function judge(facts: Facts, firstSeen: FirstSeen = new Map()): Judgement {
  const begun: Holding[] = [];
  const unjudged: string[] = [];
  const seen = new Set<string>();
  for (const condition of CONDITIONS) {
    const findings = condition.find(facts);
    if (findings === undefined) unjudged.push(condition.name);
    for (const { subject, since, cause, remedy = condition.remedy } of findings ?? []) {
      const key = `${condition.name} ${subject}`;
      seen.add(key);
      const beginning = since ?? firstSeen.get(key) ?? facts.now;
      firstSeen.set(key, beginning);
      begun.push({ condition, subject, since: beginning, cause, remedy });
    }
  }
  for (const key of firstSeen.keys()) if (!seen.has(key)) firstSeen.delete(key);
  return { holding: begun.filter(isDue(facts.now)).toSorted(byUrgency), unjudged };
}

const isDue =
  (now: Instant) =>
  ({ condition, since }: Holding): boolean =>
    now - since >= BigInt(condition.forSeconds) * NANOS_PER_SECOND;

function byUrgency(one: Holding, other: Holding): number {
  if (one.condition.severity !== other.condition.severity)
    return one.condition.severity === "critical" ? -1 : 1;
  return one.since < other.since ? -1 : one.since > other.since ? 1 : 0;
}
