import { describeSpan, secondsSince } from "../domain/duration.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Condition } from "./conditions/condition.ts";
import { CONDITIONS, type Facts, type RecordedCondition } from "./conditions/conditions.ts";

/** A condition that has held long enough to be reported. */
export interface Holding {
  readonly condition: Condition;
  /** Name of the source, endpoint or queue; empty if there is only one. */
  readonly subject: string;
  /** Beginning, as far as anybody knows. */
  readonly since: Instant;
  /** Nobody knows when it began: `since` is when it was first seen. */
  readonly isSeenSince: boolean;
  readonly cause: string;
  readonly remedy: string;
}

export interface Judgement {
  /** Critical ones first, then those that still happen, then the newest first: what has just begun is the news. */
  readonly holding: readonly Holding[];
  /** Conditions that have not held long enough to be reported, but long enough to be noticed, in the same order. */
  readonly beginning: readonly Holding[];
  /**
   * Problems whose start is unknown and that this process has not seen for long enough to report them. Another process,
   * or this one before a restart, may have seen them for longer: an alert about one goes on.
   */
  readonly doubtful: readonly Holding[];
  /** Names of the conditions whose facts are unknown here; nothing is reported about them. */
  readonly unjudged: readonly string[];
}

interface Begun {
  readonly holding: Holding;
  readonly heldSeconds: number;
}

/** First sight of each occurrence without a known start, by name and subject. */
export type FirstSeen = Map<string, Instant>;

/**
 * Judges all conditions. A caller that judges repeatedly passes the same `firstSeen` each time. Without it, an
 * occurrence without a known start is reported at once: a single look cannot see how long it has held.
 */
export function judge(facts: Facts, firstSeen?: FirstSeen): Judgement {
  const begun: Begun[] = [];
  const unjudged: string[] = [];
  const seen = new Set<string>();
  const recorded = readStarts(facts);
  for (const { find, ...condition } of CONDITIONS) {
    const findings = find(facts);
    if (findings === undefined) unjudged.push(condition.name);
    for (const { subject, since, cause, remedy } of findings ?? []) {
      const key = `${condition.name} ${subject}`;
      seen.add(key);
      const known = since ?? recorded.get(key) ?? firstSeen?.get(key);
      const isSingleLook = known === undefined && firstSeen === undefined;
      const beginning = known ?? facts.now;
      firstSeen?.set(key, beginning);
      begun.push({
        holding: { condition, subject, since: beginning, isSeenSince: since === null, cause, remedy },
        heldSeconds: isSingleLook ? Infinity : secondsSince(facts.now, beginning),
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
      ({ forSeconds }, { heldSeconds, holding }) => heldSeconds < forSeconds && holding.isSeenSince,
    ),
    unjudged,
  };
}

/** Reads when the conditions began that hold as far as recorded, by name and subject. */
function readStarts({ recorded }: Facts): ReadonlyMap<string, Instant> {
  const open = recorded.filter(({ endedAt }) => endedAt === null);
  return new Map(open.map(({ name, subject, since }) => [`${name} ${subject}`, since]));
}

function byUrgency(one: Holding, other: Holding): number {
  if (one.condition.severity !== other.condition.severity)
    return one.condition.severity === "critical" ? -1 : 1;
  const [isOver, isOtherOver] = [one, other].map(({ condition }) => condition.endsBy !== undefined);
  if (isOver !== isOtherOver) return isOver === true ? 1 : -1;
  return one.since > other.since ? -1 : one.since < other.since ? 1 : 0;
}

/** A condition with all that it is about: one cause makes the same problem for every source. */
export interface Problem extends Omit<Holding, "subject"> {
  readonly holdings: readonly Holding[];
}

/** Makes one problem of all occurrences of a condition, in the order of the first of them. */
export function groupProblems(holdings: readonly Holding[]): Problem[] {
  const groups = new Map<string, Holding[]>();
  for (const holding of holdings) {
    const { name } = holding.condition;
    groups.set(name, [...(groups.get(name) ?? []), holding]);
  }
  return [...groups.values()].flatMap((group) => {
    const [first, ...others] = group;
    if (first === undefined) return [];
    if (others.length === 0) return [{ ...first, holdings: group }];
    const { condition } = first;
    const since = group.reduce((least, each) => (each.since < least ? each.since : least), first.since);
    const cause = `${describeCondition(condition)}: ${group.length} ${condition.label ?? "subject"}s.`;
    return [{ ...first, since, cause, remedy: condition.remedy, holdings: group }];
  });
}

/** Writes the fact that a condition detects as the beginning of a sentence. */
export function describeCondition({ measures }: Condition): string {
  return measures.charAt(0).toUpperCase() + measures.slice(1);
}

/** Says what was wrong, and of what: "A period could not be verified as read (live)". */
export function describeRecorded({ name, subject }: RecordedCondition): string {
  const condition = CONDITIONS.find((each) => each.name === name);
  const what = condition === undefined ? name : describeCondition(condition);
  return subject === "" ? what : `${what} (${subject})`;
}

/** Says how long a condition held that is over. */
export function describeLasted({ since, endedAt }: RecordedCondition): string {
  return describeSpan(secondsSince(endedAt ?? since, since));
}
