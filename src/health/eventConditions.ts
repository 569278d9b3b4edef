import { lossRate, STOPPED_AFTER_LOST } from "../domain/order/lostEvents.ts";
import { describeCount, perSource } from "./condition.ts";
import type { Condition } from "./condition.ts";

/** Fewer forged calls than this, at an address that misses nothing, are not worth an alert. */
const REFUSED_MIN = 3;
const WRONG_SIGNATURES_MAX = 20;
const LOSS_RATE_MAX = 0.01;
const SLOW_RATE_MAX = 0.01;
const SLOW_MIN = 3;
const LATE_RATE_MAX = 0.1;
const LATE_MIN = 5;
/** One or two may be events of a change that the provider took back. */
const REFUTED_MIN = 3;

/** Conditions of webhooks and of the events they deliver. */
export const EVENT_CONDITIONS: readonly Condition[] = [
  perSource({
    name: "OrderMirrorEventsWait",
    severity: "critical",
    area: "worker",
    measures: "an event has waited for 6 minutes: no worker applies it",
    forSeconds: 360,
    noticedAfterSeconds: 30,
    remedy: "Start `order-mirror worker`, or restart the one that hangs; nothing is lost.",
    page: "/ops/waiting",
    judge: ({ sourceId, pending, oldestPendingAt }) =>
      oldestPendingAt === null
        ? undefined
        : {
            since: oldestPendingAt,
            cause: `${describeCount(pending, "event")} of ${sourceId} ${pending === 1 ? "waits" : "wait"}: no worker applies them.`,
          },
  }),
  perSource({
    name: "OrderMirrorQuarantine",
    severity: "warning",
    area: "quarantine",
    measures: "events could not be processed",
    forSeconds: 0,
    remedy: "Inspect them on /ops, fix the cause, then run `order-mirror replay --quarantine --dry-run`.",
    page: "/ops/quarantine",
    judge: ({ sourceId, quarantined, oldestQuarantinedAt }) =>
      quarantined === 0
        ? undefined
        : {
            since: oldestQuarantinedAt,
            cause: `${describeCount(quarantined, "event")} of ${sourceId} could not be processed.`,
          },
  }),
  perSource({
    name: "OrderMirrorWebhooksRefused",
    severity: "critical",
    area: "events",
    measures: "every signed webhook call is refused",
    forSeconds: 0,
    remedy:
      "Copy the endpoint's secret from the provider again. If it is right, set CAPTURE_REFUSED=10 for web and run `order-mirror identify-signature` after the next refused event.",
    page: "/ops/lost",
    judge: ({ sourceId, refusedSinceLastEvent, firstRefusedAt, foundSinceRefused, lastEventAt }) => {
      // Anybody can send forged calls in a quiet period. Changes that only polling has found since then show that
      // genuine events are refused.
      const isDeaf = refusedSinceLastEvent >= REFUSED_MIN && foundSinceRefused > 0;
      const neverHeard = refusedSinceLastEvent > 0 && lastEventAt === null;
      if (!isDeaf && !neverHeard) return undefined;
      const calls = describeCount(refusedSinceLastEvent, "call");
      return {
        since: firstRefusedAt,
        cause: `Every webhook of ${sourceId} is refused (${calls}): the secret or WEBHOOK_SCHEME is wrong.`,
      };
    },
  }),
  perSource({
    name: "OrderMirrorBadSignatures",
    severity: "warning",
    area: "events",
    measures: "more than 20 webhook calls within 10 minutes had a wrong signature",
    forSeconds: 0,
    remedy:
      "After a rotation, copy the new secret. Otherwise somebody is sending forged calls; none of them is stored.",
    page: "/ops/lost",
    judge: ({ sourceId, wrongSignatures, firstWrongSignatureAt }) =>
      wrongSignatures <= WRONG_SIGNATURES_MAX
        ? undefined
        : {
            since: firstWrongSignatureAt,
            cause: `${describeCount(wrongSignatures, "webhook call")} of ${sourceId} within 10 minutes had a wrong signature.`,
          },
  }),
  perSource({
    name: "OrderMirrorClaimsRefuted",
    severity: "warning",
    area: "events",
    measures: "reads contradicted 3 or more signed events within a day",
    forSeconds: 0,
    remedy:
      "Rotate the webhook secret, unless the provider confirms that its clock was wrong or that it was restored from a backup.",
    page: "/ops/lost",
    judge: ({ sourceId, refutedClaims, firstRefutedClaimAt, refutedReference }) =>
      refutedClaims < REFUTED_MIN
        ? undefined
        : {
            since: firstRefutedClaimAt,
            cause: `Reads contradict ${describeCount(refutedClaims, "signed event")} of ${sourceId}; \`order-mirror order ${refutedReference ?? ""}\` shows one.`,
          },
  }),
  perSource({
    name: "OrderMirrorEventsRefused",
    severity: "critical",
    area: "events",
    measures: "webhook calls could not be stored and were answered 5xx, for two minutes",
    forSeconds: 120,
    noticedAfterSeconds: 0,
    remedy:
      "`/readyz?verbose` and the log of the web process give the reason. Polling repairs events that are not sent again.",
    page: "/ops/lost",
    judge: ({ sourceId, notStored, firstNotStoredAt }) =>
      notStored === 0
        ? undefined
        : {
            since: firstNotStoredAt,
            cause: `${describeCount(notStored, "webhook call")} of ${sourceId} could not be stored.`,
          },
  }),
  perSource({
    name: "OrderMirrorSlowAnswers",
    severity: "warning",
    area: "events",
    measures: "one webhook call in a hundred takes longer than a second to answer",
    forSeconds: 0,
    remedy: "Commits to Postgres are slow: check its disk and its other load.",
    page: "/ops/slow",
    judge: ({ sourceId, calls, slowCalls }) =>
      slowCalls < SLOW_MIN || slowCalls <= SLOW_RATE_MAX * calls
        ? undefined
        : {
            since: null,
            cause: `${slowCalls} of ${describeCount(calls, "webhook call")} of ${sourceId} took longer than a second to answer.`,
          },
  }),
  perSource({
    name: "OrderMirrorEventsStopped",
    severity: "critical",
    area: "events",
    measures: "events have stopped; changes are found by polling only",
    forSeconds: 0,
    remedy:
      "Check the endpoint, its secret and the plan at the provider, then run `order-mirror doctor --url https://your-host`.",
    page: "/ops/lost",
    judge: ({ sourceId, configured, lostSinceLastEvent, firstLostSinceLastEventAt }) =>
      !configured || lostSinceLastEvent < STOPPED_AFTER_LOST
        ? undefined
        : {
            since: firstLostSinceLastEventAt,
            cause: `Webhooks of ${sourceId} have stopped: polling alone found the last ${describeCount(lostSinceLastEvent, "change")}.`,
          },
  }),
  perSource({
    name: "OrderMirrorEventsLost",
    severity: "warning",
    area: "events",
    measures: "more than one event in a hundred was lost within a day",
    forSeconds: 900,
    noticedAfterSeconds: 0,
    remedy: "Polling has repaired the affected orders. Compare with the provider's delivery log.",
    page: "/ops/lost",
    judge: ({ sourceId, configured, lost, announced, firstLostAt }) => {
      const rate = lossRate({ lost, announced });
      if (!configured || rate === null || rate <= LOSS_RATE_MAX) return undefined;
      const share = `${(rate * 100).toFixed(1)} %`;
      return {
        since: firstLostAt,
        cause: `${share} of the events of ${sourceId} were lost within a day (${lost} of ${lost + announced}); polling repaired the orders.`,
      };
    },
  }),
  perSource({
    name: "OrderMirrorEventsLate",
    severity: "warning",
    area: "events",
    measures: "more than one event in ten arrives after a poll has found its change",
    forSeconds: 0,
    remedy: "Check /ops/slow: the provider sends late, or webhooks are answered or applied slowly.",
    page: "/ops/slow",
    judge: ({ sourceId, announcedLately, lateLately, firstLateHour }) =>
      lateLately < LATE_MIN || lateLately <= LATE_RATE_MAX * announcedLately
        ? undefined
        : {
            since: firstLateHour,
            cause: `${lateLately} of ${describeCount(announcedLately, "event")} of ${sourceId} arrived after polling had found their change.`,
          },
  }),
];
