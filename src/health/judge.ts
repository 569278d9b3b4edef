import { NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import type { Condition } from "./conditions/condition.ts";
import { CONDITIONS, type Facts } from "./conditions/conditions.ts";

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
  /** Critical ones first, then the newest first: what has just begun is the news. */
  readonly holding: readonly Holding[];
  /** Those that have not held long enough to be reported, but long enough to be noticed, in the same order. */
  readonly beginning: readonly Holding[];
  /**
   * Those whose start is unknown and that this process has not seen for long enough to report them. Another process, or
   * this one before a restart, may have seen them for longer: an alert about one goes on.
   */
  readonly doubtful: readonly Holding[];
  /** Names of the conditions whose facts are unknown here; nothing is reported about them. */
  readonly unjudged: readonly string[];
}

interface Begun {
  readonly holding: Holding;
  readonly heldSeconds: number;
  readonly hasKnownStart: boolean;
}

/** When an occurrence without a known start was first seen, by name and subject. */
export type FirstSeen = Map<string, Instant>;

/**
 * Judges all conditions. A caller that judges repeatedly passes the same `firstSeen` each time. Without it, an occurrence
 * without a known start is reported at once: a single look cannot see how long it has held.
 */
export function judge(facts: Facts, firstSeen?: FirstSeen): Judgement {
  const begun: Begun[] = [];
  const unjudged: string[] = [];
  const seen = new Set<string>();
  for (const { find, ...condition } of CONDITIONS) {
    const findings = find(facts);
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
        hasKnownStart: since !== null,
      });
    }
  }
  for (const key of firstSeen?.keys() ?? []) if (!seen.has(key)) firstSeen?.delete(key);
  const select = (isChosen: (condition: Condition, begun: Begun) => boolean) =>
    begun
      .filter((each) => isChosen(each.holding.condition, each))
      .map(({ holding }) => holding)
      .sort(byUrgency);
  return {
    holding: select(({ forSeconds }, { heldSeconds }) => heldSeconds >= forSeconds),
    beginning: select(
      ({ forSeconds, noticedAfterSeconds = Infinity }, { heldSeconds }) =>
        heldSeconds < forSeconds && heldSeconds >= noticedAfterSeconds,
    ),
    doubtful: select(
      ({ forSeconds }, { heldSeconds, hasKnownStart }) => heldSeconds < forSeconds && !hasKnownStart,
    ),
    unjudged,
  };
}

function byUrgency(one: Holding, other: Holding): number {
  if (one.condition.severity !== other.condition.severity)
    return one.condition.severity === "critical" ? -1 : 1;
  return one.since > other.since ? -1 : one.since < other.since ? 1 : 0;
}
