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
  /** Names of the conditions whose facts are unknown here; nothing is reported about them. */
  readonly unjudged: readonly string[];
}

/** When an occurrence without a known start was first seen, by name and subject. */
export type FirstSeen = Map<string, Instant>;

/**
 * Judges all conditions. The caller passes the same `firstSeen` each time; without it, an occurrence without a known
 * start begins now.
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
