import { addSeconds, formatInstant, NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import {
  describeCount,
  perSource,
  SOURCE_PAGE,
  type Condition,
  type JudgedCondition,
  type Judging,
} from "./condition.ts";
import { provedWithinSeconds, secondsOfPolls } from "./freshness.ts";
import type { Standing } from "./standing.sql.ts";

const HOUR_SECONDS = 3_600;
const DAY_NANOS = 86_400n * NANOS_PER_SECOND;
/** Fewer may only mean that the provider once counted a window differently from us. */
const RATE_REFUSALS_MIN = 5;

/** Whole seconds are precise enough: the start rounds down and the end up, so that a re-read covers the whole gap. */
const showStart = (instant: Instant) => formatInstant(instant, 0);
const showEnd = (instant: Instant) => formatInstant(instant + NANOS_PER_SECOND - 1n, 0);
const showOldestGap = ({ oldestGap }: Standing) =>
  oldestGap === null ? [] : [showStart(oldestGap.since), showEnd(oldestGap.until)];
const later = (one: Instant, other: Instant) => (one > other ? one : other);

const PROOF_REMEDY =
  "The period is read again automatically; reporting.coverage_breaches lists it, for reports that were based on it. If the change appeared late in the provider's list, raise POLL_MARGIN_SECONDS.";
/** Half as much again, in whole minutes. */
const enough = (lateSeconds: number) => Math.ceil((lateSeconds * 1.5) / 60) * 60;

const endSentence = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`);

function describeOffset(seconds: number): string {
  const [size, place] = [Math.abs(seconds), seconds > 0 ? "ahead of" : "behind"];
  if (size < 600) return `${Math.round(size)} s ${place}`;
  return size < 48 * HOUR_SECONDS
    ? `${Math.round(size / 60)} min ${place}`
    : `${Math.round(size / 86_400)} days ${place}`;
}

/** Polls that fail for one kind of reason; the last error follows the sentence. */
function failing(
  troubles: readonly PollTrouble[],
  condition: Omit<JudgedCondition<Standing>, "area" | "page" | keyof Judging<Standing>> & {
    readonly sentence: (source: Standing) => string;
  },
): Condition {
  const { sentence, ...rest } = condition;
  return perSource({
    ...rest,
    area: "poller",
    page: SOURCE_PAGE,
    holds: ({ trouble, pausedAt }) => trouble !== null && troubles.includes(trouble) && pausedAt === null,
    since: ({ failingSince }) => failingSince,
    cause: (source) =>
      source.lastError === null ? sentence(source) : `${sentence(source)} ${endSentence(source.lastError)}`,
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
    page: SOURCE_PAGE,
    holds: ({ leaderlessSince, pausedAt }) => leaderlessSince !== null && pausedAt === null,
    since: ({ leaderlessSince }) => leaderlessSince,
    cause: ({ sourceId }) => `No poller runs for ${sourceId}.`,
  }),
  perSource({
    name: "OrderMirrorNotPolled",
    severity: "critical",
    area: "poller",
    measures: "no poll has ended for 5 minutes after one was due, although a poller leads",
    forSeconds: 300,
    noticedAfterSeconds: 150,
    remedy: "Restart the poller; its log says what it waits for.",
    page: SOURCE_PAGE,
    holds: ({ leader, pausedAt }) => leader !== null && pausedAt === null,
    since: (source) => addSeconds(source.lastCycleEndedAt ?? source.createdAt, secondsOfPolls(1, source)),
    cause: ({ sourceId, leader }) => `No poll of ${sourceId} has ended recently, although ${leader} leads.`,
  }),
  perSource({
    name: "OrderMirrorPaused",
    severity: "warning",
    area: "poller",
    measures: "a person paused polling",
    remedy: "Resume with `order-mirror source resume SOURCE`; events are received meanwhile.",
    page: SOURCE_PAGE,
    holds: ({ pausedAt }) => pausedAt !== null,
    since: ({ pausedAt }) => pausedAt,
    cause: ({ sourceId }) => `Polling of ${sourceId} is paused.`,
    fix: ({ sourceId }) =>
      `Resume with \`order-mirror source resume ${sourceId}\`; events are received meanwhile.`,
  }),
  failing(["key_refused"], {
    name: "OrderMirrorKeyRefused",
    severity: "critical",
    measures: "the provider refuses the API key",
    forSeconds: 60,
    noticedAfterSeconds: 0,
    remedy: "Put the key from the provider's dashboard into the configuration and restart the poller.",
    sentence: ({ sourceId }) => `The provider refuses the API key of ${sourceId}.`,
  }),
  failing(["away", "slow"], {
    name: "OrderMirrorProviderAway",
    severity: "warning",
    measures: "the provider cannot be reached, or answers 5xx, unreadably, or not in time",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "Check the provider's status page and wait; polling resumes where it left off.",
    sentence: ({ sourceId, baseUrl }) =>
      `Polls of ${sourceId} get no usable answer from the provider (${baseUrl}).`,
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
    page: "/ops/calls?kind=request",
    holds: ({ trouble, rateRefusals, pausedAt }) =>
      pausedAt === null && (trouble === "rate_limited" || rateRefusals >= RATE_REFUSALS_MIN),
    since: ({ trouble, failingSince, firstRateRefusalAt }) =>
      trouble === "rate_limited" ? failingSince : firstRateRefusalAt,
    // The last error names what is waited for, and until when.
    cause: ({ sourceId, trouble, lastError }) => {
      const sentence = `The provider keeps answering 429 for ${sourceId}: another program uses up its rate, or the limit is lower than documented.`;
      const waits = trouble === "rate_limited" && lastError !== null;
      return waits ? `${sentence} Last: ${endSentence(lastError)}` : sentence;
    },
  }),
  failing(["other"], {
    name: "OrderMirrorPollFailing",
    severity: "warning",
    measures: "polls fail",
    forSeconds: 600,
    noticedAfterSeconds: 0,
    remedy: "`order-mirror doctor` tests the key and the provider; the poller's log has the whole error.",
    sentence: ({ sourceId }) => `Polls of ${sourceId} fail.`,
  }),
  perSource({
    name: "OrderMirrorClocksDisagree",
    severity: "critical",
    area: "coverage",
    measures: "the provider's clock and the database's differ by more than a minute, so nothing is proved",
    noticedAfterSeconds: 0,
    remedy:
      "Compare both with a third clock: run a time service on the database's machine, or tell the provider that its Date header is wrong. Nothing is lost, and proofs go on when the clocks agree.",
    page: SOURCE_PAGE,
    holds: ({ clockErrorSeconds, pausedAt }) => clockErrorSeconds !== null && pausedAt === null,
    since: ({ clockWrongSince }) => clockWrongSince,
    cause: ({ sourceId, clockErrorSeconds }) =>
      `The provider's clock of ${sourceId} is ${describeOffset(clockErrorSeconds ?? 0)} the database's; nothing is verified meanwhile.`,
  }),
  perSource({
    name: "OrderMirrorIncomplete",
    severity: "warning",
    area: "coverage",
    measures: "no progress in completeness for more than an hour",
    forSeconds: HOUR_SECONDS,
    noticedAfterSeconds: 900,
    remedy: "`order-mirror doctor` lists the gaps and what keeps the poller from closing them.",
    page: "/ops/gaps",
    holds: () => true,
    // The history of a new source is read after its configuration; it was not missed.
    since: (source) => {
      const { safeThrough, createdAt } = source;
      const dueAt = safeThrough === null ? createdAt : addSeconds(safeThrough, provedWithinSeconds(source));
      return later(dueAt, createdAt);
    },
    cause: ({ sourceId, safeThrough }) =>
      safeThrough === null
        ? `Nothing of ${sourceId} has been verified as complete yet.`
        : `Data of ${sourceId} may be missing since ${showStart(safeThrough)}.`,
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
    holds: ({ oldestGap }) => oldestGap !== null,
    since: ({ gapFoundAt }) => gapFoundAt,
    cause: (source) => {
      const more = source.gaps > 1 ? ` and ${source.gaps - 1} more` : "";
      return `Changes of ${source.sourceId} may be missing between ${showOldestGap(source).join(" and ")}${more}.`;
    },
    fix: (source) => {
      const [since, until] = showOldestGap(source);
      return `\`order-mirror backfill --source ${source.sourceId} --from ${since} --to ${until}\` reads it now.`;
    },
  }),
  perSource({
    name: "OrderMirrorProofTakenBack",
    severity: "warning",
    area: "coverage",
    measures: "a change was found within the last day that a proof had missed",
    remedy: PROOF_REMEDY,
    page: "/ops/breaches",
    holds: ({ lastBreachAt, now }) => lastBreachAt !== null && now - lastBreachAt <= DAY_NANOS,
    since: ({ lastBreachAt }) => lastBreachAt,
    cause: ({ sourceId }) =>
      `A change of ${sourceId} was found that a proof had missed; the proof was withdrawn.`,
    fix: ({ lateSeconds, marginSeconds }) =>
      lateSeconds === null || marginSeconds === null || lateSeconds <= marginSeconds
        ? PROOF_REMEDY
        : `It appeared ${Math.ceil(lateSeconds)} s after its time, and POLL_MARGIN_SECONDS is ${marginSeconds}: set POLL_MARGIN_SECONDS=${enough(lateSeconds)} and restart the poller.`,
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
    holds: ({ exceptions }) => exceptions > 0,
    since: ({ oldestExceptionAt }) => oldestExceptionAt,
    cause: ({ sourceId, exceptions }) =>
      `"Complete up to" excludes ${describeCount(exceptions, "order")} of ${sourceId} that could not be read or confirmed.`,
  }),
  perSource({
    name: "OrderMirrorListIncomplete",
    severity: "warning",
    area: "coverage",
    measures: "the provider's list omits orders that the mirror has",
    forSeconds: 300,
    noticedAfterSeconds: 60,
    remedy: "Ask the provider why its list omits them; the poller reads them one by one, and compares again.",
    page: "/ops/refetches",
    holds: ({ listDoubtedAt }) => listDoubtedAt !== null,
    since: ({ listDoubtedAt }) => listDoubtedAt,
    cause: ({ sourceId }) =>
      `The provider's list omits orders of ${sourceId} that the mirror has; nothing is proved until that is explained.`,
  }),
];
