import { formatInstant, NANOS_PER_SECOND } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import { TAIL_NEAR_SHARE } from "../domain/window/lateness.ts";
import { describeCount, perSource } from "./condition.ts";
import type { Condition, SourceFacts } from "./condition.ts";

const HOUR_SECONDS = 3_600;
const DAY_NANOS = 86_400n * NANOS_PER_SECOND;
/** Fewer may only mean that the provider once counted a window differently from us. */
const RATE_REFUSALS_MIN = 5;

/** Whole seconds are precise enough: the start rounds down and the end up, so that a re-read covers the whole gap. */
const showStart = (instant: Instant) => formatInstant(instant, 0);
const showEnd = (instant: Instant) => formatInstant(instant + NANOS_PER_SECOND - 1n, 0);
const later = (one: Instant, other: Instant) => (one > other ? one : other);

/** Polls that fail for one kind of reason; the last error follows the sentence. */
function failing(
  trouble: PollTrouble,
  condition: Pick<
    Condition,
    "name" | "severity" | "measures" | "forSeconds" | "noticedAfterSeconds" | "remedy"
  > & {
    readonly sentence: (source: SourceFacts) => string;
  },
): Condition {
  const { sentence, ...rest } = condition;
  return perSource({
    ...rest,
    area: "poller",
    page: "/ops/sources",
    judge: (source) =>
      source.trouble === trouble && source.pausedAt === null
        ? { since: source.failingSince, cause: `${sentence(source)} ${source.lastError ?? ""}`.trim() }
        : undefined,
  });
}

/** Conditions of polling and of completeness. */
export const POLL_CONDITIONS: readonly Condition[] = [
  perSource({
    name: "OrderMirrorNoLeader",
    severity: "critical",
    area: "poller",
    measures: "no poller leads, so nothing is polled",
    forSeconds: 120,
    noticedAfterSeconds: 15,
    remedy: "Start `order-mirror poller`. Until then lost events are not repaired.",
    page: "/ops/sources",
    judge: ({ sourceId, leaderlessSince, pausedAt }) =>
      leaderlessSince === null || pausedAt !== null
        ? undefined
        : { since: leaderlessSince, cause: `No poller runs for ${sourceId}.` },
  }),
  perSource({
    name: "OrderMirrorNotPolled",
    severity: "critical",
    area: "poller",
    measures: "no poll has ended for 5 minutes, although a poller leads",
    forSeconds: 300,
    noticedAfterSeconds: 150,
    remedy: "Restart the poller; its log says what it waits for.",
    page: "/ops/sources",
    judge: ({ sourceId, leader, lastCycleEndedAt, createdAt, pausedAt }) =>
      leader === null || pausedAt !== null
        ? undefined
        : {
            since: lastCycleEndedAt ?? createdAt,
            cause: `No poll of ${sourceId} has ended recently, although ${leader} leads.`,
          },
  }),
  perSource({
    name: "OrderMirrorPaused",
    severity: "warning",
    area: "poller",
    measures: "a person paused polling",
    forSeconds: 0,
    remedy: "Resume with `order-mirror source resume SOURCE`; events are received meanwhile.",
    page: "/ops/sources",
    judge: ({ sourceId, pausedAt }) =>
      pausedAt === null
        ? undefined
        : {
            since: pausedAt,
            cause: `Polling of ${sourceId} is paused.`,
            remedy: `Resume with \`order-mirror source resume ${sourceId}\`; events are received meanwhile.`,
          },
  }),
  failing("key_refused", {
    name: "OrderMirrorKeyRefused",
    severity: "critical",
    measures: "the provider refuses the API key",
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Put the key from the provider's dashboard into the configuration and restart the poller.",
    sentence: ({ sourceId }) => `The provider refuses the API key of ${sourceId}.`,
  }),
  failing("away", {
    name: "OrderMirrorProviderAway",
    severity: "warning",
    measures: "the provider cannot be reached or answers 5xx",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "Check the provider's status page and wait; polling resumes where it left off.",
    sentence: ({ sourceId, baseUrl }) => `The provider of ${sourceId} does not work (${baseUrl}).`,
  }),
  failing("slow", {
    name: "OrderMirrorProviderSlow",
    severity: "warning",
    measures: "the provider does not answer in time",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "Check the provider's status page and wait; polling resumes where it left off.",
    sentence: ({ sourceId }) => `The provider of ${sourceId} is too slow.`,
  }),
  perSource({
    name: "OrderMirrorRateLimited",
    severity: "warning",
    area: "poller",
    measures: "the provider keeps answering 429",
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy:
      "Find the other program that uses the organization's keys, which share the limit. Or lower RATE_SHARE_PERCENT.",
    page: "/ops/requests",
    judge: ({ sourceId, trouble, failingSince, rateRefusals, firstRateRefusalAt, pausedAt }) => {
      const cause = `The provider has no rate left for ${sourceId}: another program uses it up.`;
      if (pausedAt !== null) return undefined;
      if (trouble === "rate_limited") return { since: failingSince, cause };
      return rateRefusals < RATE_REFUSALS_MIN ? undefined : { since: firstRateRefusalAt, cause };
    },
  }),
  failing("other", {
    name: "OrderMirrorPollFailing",
    severity: "warning",
    measures: "polls fail",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "`order-mirror doctor` tests the key and the provider; the poller's log has the whole error.",
    sentence: ({ sourceId }) => `Polls of ${sourceId} fail.`,
  }),
  perSource({
    name: "OrderMirrorIncomplete",
    severity: "warning",
    area: "coverage",
    measures: "no progress in completeness for more than an hour",
    forSeconds: HOUR_SECONDS + 300,
    noticedAfterSeconds: 900,
    remedy: "`order-mirror doctor` lists the gaps and what keeps the poller from closing them.",
    page: "/ops/gaps",
    judge: ({ sourceId, safeThrough, createdAt }) =>
      safeThrough === null
        ? { since: createdAt, cause: `Nothing of ${sourceId} has been verified as complete yet.` }
        : {
            // The history of a new source is read after its configuration; it was not missed.
            since: later(safeThrough, createdAt),
            cause: `Data of ${sourceId} may be missing since ${showStart(safeThrough)}.`,
          },
  }),
  perSource({
    name: "OrderMirrorGaps",
    severity: "warning",
    area: "coverage",
    measures: "a period could not be verified as read",
    forSeconds: 900,
    noticedAfterSeconds: 0,
    remedy:
      "The poller reads gaps automatically; `order-mirror doctor` prints the command that does so immediately.",
    page: "/ops/gaps",
    judge: ({ sourceId, gaps, oldestGap, gapFoundAt }) => {
      if (oldestGap === null) return undefined;
      const [since, until] = [showStart(oldestGap.since), showEnd(oldestGap.until)];
      const more = gaps > 1 ? ` and ${gaps - 1} more` : "";
      return {
        since: gapFoundAt,
        cause: `Changes of ${sourceId} may be missing between ${since} and ${until}${more}.`,
        remedy: `\`order-mirror backfill --source ${sourceId} --from ${since} --to ${until}\` reads it now.`,
      };
    },
  }),
  perSource({
    name: "OrderMirrorProofTakenBack",
    severity: "warning",
    area: "coverage",
    measures: "a change was found within the last day that a proof had missed",
    forSeconds: 0,
    remedy:
      "The period is read again automatically; reporting.coverage_breaches lists it, for reports that were based on it.",
    page: "/ops/breaches",
    judge: ({ sourceId, lastBreachAt, now }) =>
      lastBreachAt === null || now - lastBreachAt > DAY_NANOS
        ? undefined
        : {
            since: lastBreachAt,
            cause: `A change of ${sourceId} was found that a proof had missed; the proof was withdrawn.`,
          },
  }),
  perSource({
    name: "OrderMirrorExceptions",
    severity: "warning",
    area: "coverage",
    measures: "an order could not be read, or no read confirmed it, for 30 minutes",
    forSeconds: 1_800,
    noticedAfterSeconds: 300,
    remedy:
      "Check the orders in quarantine, and ask the provider why they cannot be read; they are retried automatically.",
    page: "/ops/quarantine",
    judge: ({ sourceId, exceptions, oldestExceptionAt }) =>
      exceptions === 0
        ? undefined
        : {
            since: oldestExceptionAt,
            cause: `"Complete up to" excludes ${describeCount(exceptions, "order")} of ${sourceId} that could not be read or confirmed.`,
          },
  }),
  perSource({
    name: "OrderMirrorDailyFiles",
    severity: "warning",
    area: "poller",
    measures: "a daily file could not be written for 10 minutes",
    forSeconds: 600,
    noticedAfterSeconds: 120,
    remedy:
      "Check DAILY_FILES, its access key, and the room at that place; the poller tries again every minute.",
    page: "/ops/certificates",
    judge: ({ sourceId, fileFailure, filesFailSince }) =>
      fileFailure === null
        ? undefined
        : { since: filesFailSince, cause: `A daily file of ${sourceId} cannot be written: ${fileFailure}` },
  }),
  perSource({
    name: "OrderMirrorProviderChanged",
    severity: "warning",
    area: "provider",
    measures: "the provider's behaviour has changed within the last day",
    forSeconds: 0,
    remedy:
      "`order-mirror doctor` shows what changed. Polling adapts to it; ask the provider whether the change was intended.",
    page: "/ops/sources",
    judge: ({ sourceId, behaviourChangedAt, now }) =>
      behaviourChangedAt === null || now - behaviourChangedAt > DAY_NANOS
        ? undefined
        : {
            since: behaviourChangedAt,
            cause: `The behaviour of the provider of ${sourceId} has changed.`,
          },
  }),
  perSource({
    name: "OrderMirrorLateArrivals",
    severity: "warning",
    area: "coverage",
    measures: "changes appear so late that polls nearly miss them",
    forSeconds: 0,
    remedy: "Set POLL_OVERLAP_SECONDS to twice that age; until then the delayed sweep finds what polls miss.",
    page: "/ops/sources",
    judge: ({ sourceId, lateTailSeconds, overlapSeconds }) =>
      lateTailSeconds === null ||
      overlapSeconds === null ||
      lateTailSeconds <= TAIL_NEAR_SHARE * overlapSeconds
        ? undefined
        : {
            since: null,
            cause: `Changes of ${sourceId} appear up to ${lateTailSeconds} s late; polls reach back ${overlapSeconds} s.`,
          },
  }),
];
