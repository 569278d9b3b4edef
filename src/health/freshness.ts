import { addSeconds, type Instant } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import { provedWithinSeconds } from "./conditions/completeness.sql.ts";
import { secondsOfPolls } from "./conditions/polling.sql.ts";
import type { Standing } from "./conditions/standing.ts";

/** Reach of a source's data, and why it is no further: one answer for pages, `status` and the times of orders. */
export interface Freshness {
  /** Everything up to here was read from the provider; null: nothing was read yet. */
  readonly upTo: Instant | null;
  /** Whether the data is older than polling explains. */
  readonly isOld: boolean;
  /** Why it is old, without an end; null: nothing explains it, or it is not old. */
  readonly why: string | null;
  /** Since when that is so. */
  readonly since: Instant | null;
}

const TROUBLES: Readonly<Record<PollTrouble, string>> = {
  key_refused: "The provider refuses the API key",
  away: "The provider does not answer",
  slow: "The provider does not answer in time",
  rate_limited: "The provider limits the requests",
  other: "Polls fail",
};

/** Judges how far the data of a source reaches. */
export function judgeFreshness(source: Standing): Freshness {
  const { now, polledThrough, createdAt, lastCycleEndedAt } = source;
  const readUntil = polledThrough ?? createdAt;
  const isOld = now > addSeconds(readUntil, secondsOfPolls(2, source));
  const [why, since] = isOld ? explainAge(source) : [null, null];
  return { upTo: polledThrough, isOld, why, since: why === null ? null : (since ?? lastCycleEndedAt) };
}

function explainAge(source: Standing): readonly [why: string | null, since: Instant | null] {
  const { now, pausedAt, leaderlessSince, trouble, failingSince, lastCycleEndedAt } = source;
  if (pausedAt !== null) return ["Polling is paused", pausedAt];
  if (leaderlessSince !== null) return ["No poller runs", leaderlessSince];
  if (trouble !== null) return [TROUBLES[trouble], failingSince];
  if (source.clockErrorSeconds !== null)
    return ["The provider's clock differs from the database's", source.clockWrongSince];
  const hasEnded =
    lastCycleEndedAt !== null && now <= addSeconds(lastCycleEndedAt, secondsOfPolls(2, source));
  return [hasEnded ? null : "No poll has ended", null];
}

/** Whether the source is read and proved as recently as it can be. */
export function isUpToDate(source: Standing): boolean {
  const { now, safeThrough } = source;
  const isProvedLately = safeThrough !== null && now <= addSeconds(safeThrough, provedWithinSeconds(source));
  return isProvedLately && !judgeFreshness(source).isOld;
}
