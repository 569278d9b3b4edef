/** The distance of windows from the present, and how far they reach back. */
export interface Margins {
  readonly settleSeconds: number;
  readonly overlapSeconds: number;
}

/** Changes of a provider's list, counted by how late they appeared. */
export interface ArrivalCount {
  /** The maximum age at which a read that should have shown the change did not; 0: no read missed it. */
  readonly missedSeconds: number;
  /** The maximum age at which a read showed it. Both are bounds of ARRIVAL_BOUNDS. */
  readonly seenSeconds: number;
  readonly changes: number;
}

/** Changes older than this are no longer tracked. */
export const ARRIVAL_AGE_MAX_SECONDS = 21_600;
/** The ages that are distinguished, in seconds; each includes the ages down to the previous one. */
const ARRIVAL_BOUNDS = [
  0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400,
];

/** The bound under which an age is counted; the last one for any greater age. */
export function boundOf(ageSeconds: number): number {
  return ARRIVAL_BOUNDS.find((bound) => ageSeconds <= bound) ?? ARRIVAL_AGE_MAX_SECONDS;
}

/** Each second of settle time is a second that the mirror is behind. @internal */
export const SETTLE_MAX_SECONDS = 15;
/** Each second of overlap is read again in each cycle; later changes are left to the delayed sweep. @internal */
export const OVERLAP_MAX_SECONDS = 600;
/** This share of changes must appear within the settle time; the overlap catches the rest. */
const SETTLED_SHARE = 0.99;
/** This share of changes must appear within half the overlap. */
const OVERLAPPED_SHARE = 0.999;

/**
 * The margins for the observed lateness: never below the configured ones, and never above the bounds (or the configured
 * values, if those are greater). Late changes are rare and only cost a wider overlap, so the overlap is twice as long
 * as nearly all of them need.
 */
export function tuneMargins(counts: readonly ArrivalCount[], configured: Margins): Margins {
  const missed = quantile(counts, SETTLED_SHARE, ({ missedSeconds }) => missedSeconds);
  const seen = quantile(counts, OVERLAPPED_SHARE, lateSeenSeconds);
  const within = (wanted: number, least: number, most: number) =>
    Math.min(Math.max(wanted, least), Math.max(most, least));
  return {
    settleSeconds: within(missed, configured.settleSeconds, SETTLE_MAX_SECONDS),
    overlapSeconds: within(2 * seen, configured.overlapSeconds, OVERLAP_MAX_SECONDS),
  };
}

/** The age at which the latest of all changes was seen, in seconds; 0 if none was late. */
export function lateTailSeconds(counts: readonly ArrivalCount[]): number {
  return counts.reduce((longest, count) => Math.max(longest, lateSeenSeconds(count)), 0);
}

/** The delayed sweep always reads at least this far back. */
export const LOOKBACK_MIN_SECONDS = 900;
const LOOKBACK_MAX_SECONDS = 14_400;

/** How far the delayed sweep looks back occasionally: twice the age of the latest change, within bounds. */
export function lookbackFor(tailSeconds: number): number {
  return Math.min(Math.max(LOOKBACK_MIN_SECONDS, 2 * tailSeconds), LOOKBACK_MAX_SECONDS);
}

/** The share of the overlap at which an alert is raised: a change later than the overlap may be missed for minutes. */
export const TAIL_NEAR_SHARE = 0.75;

function lateSeenSeconds({ missedSeconds, seenSeconds }: ArrivalCount): number {
  return missedSeconds === 0 ? 0 : seenSeconds;
}

/** The smallest age such that at least `share` of all changes have it or a lower one; 0 if there are none. */
function quantile<Count extends { readonly changes: number }>(
  counts: readonly Count[],
  share: number,
  ageOf: (count: Count) => number,
): number {
  const total = counts.reduce((sum, { changes }) => sum + changes, 0);
  let reached = 0;
  for (const count of counts.toSorted((left, right) => ageOf(left) - ageOf(right))) {
    reached += count.changes;
    if (reached >= share * total) return ageOf(count);
  }
  return 0;
}
