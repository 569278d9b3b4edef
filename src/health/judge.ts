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
  begun.sort(byUrgency);
  const hasHeldFor = ({ since }: Holding, seconds: number) =>
    Number(facts.now - since) / Number(NANOS_PER_SECOND) >= seconds;
  const isDue = (each: Holding) => hasHeldFor(each, each.condition.forSeconds);
  const isNoticed = (each: Holding) => hasHeldFor(each, each.condition.noticedAfterSeconds ?? Infinity);
  return {
    holding: begun.filter(isDue),
    beginning: begun.filter((each) => !isDue(each) && isNoticed(each)),
    unjudged,
  };
}

function byUrgency(one: Holding, other: Holding): number {
  if (one.condition.severity !== other.condition.severity)
    return one.condition.severity === "critical" ? -1 : 1;
  return one.since < other.since ? -1 : one.since > other.since ? 1 : 0;
}
