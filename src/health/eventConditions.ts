import {
  judgeWebhooks,
  lossRate,
  STOPPED_AFTER_LOST,
  type WebhookHealth,
} from "../domain/order/lostEvents.ts";
import { describeCount, perSource, SOURCE_PAGE, type Condition } from "./condition.ts";
import type { Standing } from "./standing.sql.ts";
import { commandOn } from "../domain/shellWord.ts";

/** Fewer forged calls than this, at an address that misses nothing, are not worth an alert. */
const REFUSED_MIN = 3;
const WRONG_SIGNATURES_MAX = 20;
const LOSS_RATE_MAX = 0.01;
const LATE_RATE_MAX = 0.1;
const LATE_MIN = 5;
/** One or two may be events of a change that the provider took back. */
const REFUTED_MIN = 3;

const SECRET_REMEDY =
  "Copy the endpoint's secret from the provider again. If it is right, set CAPTURE_REFUSED=10 for web and run `order-mirror identify-signature` after the next refused event.";

const CLOCK_REMEDY =
  "Run a time service (chrony, systemd-timesyncd) on the machine of the web process; `order-mirror doctor`, run there, compares its clock with the provider's.";
const FORGED_REMEDY =
  "After a rotation, copy the new secret. Otherwise check the clock with `order-mirror doctor`, or somebody is sending forged calls; none of them is stored.";

/**
 * A wrong secret or scheme cannot explain that; a wrong clock can, or old calls. Anybody can send those: the time is
 * checked before the signature.
 */
const isRefusedForTime = ({ refusedSinceLastEvent, wrongTimesSinceLastEvent }: Standing) =>
  refusedSinceLastEvent === wrongTimesSinceLastEvent;

/**
 * Anybody can send forged calls in a quiet period. Changes that only polling has found since then show that genuine
 * events are refused.
 */
const isEveryCallRefused = ({ refusedSinceLastEvent, foundSinceRefused, lastEventAt }: Standing) =>
  refusedSinceLastEvent >= REFUSED_MIN && (foundSinceRefused > 0 || lastEventAt === null);

/** Without a secret every call is answered 404. One or two may be a stranger's. */
const isCalledWithoutSecret = ({ configured, withoutSecret }: Standing) =>
  configured === false && withoutSecret >= REFUSED_MIN;

/**
 * How a source's webhooks are, for everything that says so:
 * - `refused`: every signed call is refused.
 * - `without-secret`: calls come, and the source has no secret to verify them with.
 */
export function describeWebhooks(source: Standing): WebhookHealth | "refused" | "without-secret" {
  if (isCalledWithoutSecret(source)) return "without-secret";
  return isEveryCallRefused(source) ? "refused" : judgeWebhooks(source);
}

/** What was wrong with that many calls, of which `wrongTimes` were signed too long ago or ahead. */
function describeRefusals({ wrongSignatures, wrongTimes }: Standing): string {
  const calls = describeCount(wrongSignatures, "webhook call");
  if (wrongTimes === 0) return `${calls} within 10 minutes had a wrong signature`;
  if (wrongTimes === wrongSignatures)
    return `${calls} within 10 minutes had a signing time too far from the web process's clock`;
  return `${calls} within 10 minutes had a wrong signature or signing time`;
}

/** Conditions of webhooks and of the events they deliver. */
export const EVENT_CONDITIONS: readonly Condition[] = [
  perSource({
    name: "OrderMirrorEventsWait",
    severity: "critical",
    area: "worker",
    measures: "an event has waited for 6 minutes: no worker applies it, or not fast enough",
    forSeconds: 360,
    noticedAfterSeconds: 30,
    remedy: "Start `order-mirror worker`, or restart the one that hangs, or start another; nothing is lost.",
    page: "/ops/waiting",
    holds: ({ oldestPendingAt }) => oldestPendingAt !== null,
    since: ({ oldestPendingAt }) => oldestPendingAt,
    cause: ({ sourceId, pending }) =>
      `${describeCount(pending, "event")} of ${sourceId} waiting. No worker is keeping up.`,
  }),
  perSource({
    name: "OrderMirrorQuarantine",
    severity: "warning",
    area: "quarantine",
    measures: "events or reads could not be processed",
    remedy: "Review them on /ops/quarantine, fix the cause, then run `order-mirror replay --dry-run`.",
    page: "/ops/quarantine",
    holds: ({ quarantined }) => quarantined > 0,
    since: ({ oldestQuarantinedAt }) => oldestQuarantinedAt,
    cause: ({ sourceId, quarantined }) =>
      `${describeCount(quarantined, "event or read", "events or reads")} of ${sourceId} could not be processed.`,
  }),
  perSource({
    name: "OrderMirrorWebhooksRefused",
    severity: "critical",
    area: "events",
    measures: "every signed webhook call is refused",
    remedy: SECRET_REMEDY,
    page: "/ops/events/refused",
    holds: isEveryCallRefused,
    since: ({ firstRefusedAt }) => firstRefusedAt,
    cause: (source) => {
      const { sourceId, refusedSinceLastEvent: calls } = source;
      const why = isRefusedForTime(source)
        ? "their signing times are too far from the web process's clock"
        : "the secret or WEBHOOK_SCHEME is wrong";
      return `Every webhook of ${sourceId} is refused (${describeCount(calls, "call")}): ${why}.`;
    },
    fix: (source) => (isRefusedForTime(source) ? CLOCK_REMEDY : SECRET_REMEDY),
  }),
  perSource({
    name: "OrderMirrorNoSecret",
    severity: "critical",
    area: "events",
    measures: "webhooks come, and every one is answered 404, because no secret is set",
    remedy:
      "Copy the endpoint's secret from the provider into DELIVERY_LIVE_WEBHOOK_SECRETS, DELIVERY_TEST_WEBHOOK_SECRETS or SOURCES_FILE, and restart `order-mirror web`.",
    page: "/ops/calls?kind=webhook",
    holds: isCalledWithoutSecret,
    since: ({ firstWithoutSecretAt }) => firstWithoutSecretAt,
    cause: ({ sourceId, withoutSecret }) =>
      `Every webhook of ${sourceId} is answered 404 (${describeCount(withoutSecret, "call")}): it has no webhook secret.`,
  }),
  perSource({
    name: "OrderMirrorBadSignatures",
    severity: "warning",
    area: "events",
    measures: "more than 20 webhook calls within 10 minutes had a wrong signature or signing time",
    remedy: FORGED_REMEDY,
    page: "/ops/calls?kind=webhook",
    // If every call is refused, OrderMirrorWebhooksRefused is about the same calls.
    holds: (source) => source.wrongSignatures > WRONG_SIGNATURES_MAX && !isEveryCallRefused(source),
    since: ({ firstWrongSignatureAt }) => firstWrongSignatureAt,
    cause: (source) => `${source.sourceId}: ${describeRefusals(source)}.`,
    fix: ({ wrongSignatures, wrongTimes }) => (wrongSignatures === wrongTimes ? CLOCK_REMEDY : FORGED_REMEDY),
  }),
  perSource({
    name: "OrderMirrorClaimsRefuted",
    severity: "warning",
    area: "events",
    measures: "reads contradicted 3 or more signed events within a day",
    remedy:
      "Rotate the webhook secret, unless the provider confirms that its clock was wrong or that it was restored from a backup.",
    page: "/ops/lost",
    holds: ({ refutedClaims }) => refutedClaims >= REFUTED_MIN,
    since: ({ firstRefutedClaimAt }) => firstRefutedClaimAt,
    cause: ({ sourceId, refutedClaims, refutedReference }) =>
      `Reads contradict ${describeCount(refutedClaims, "signed event")} of ${sourceId}; \`${commandOn("order", refutedReference ?? "")}\` shows one.`,
  }),
  perSource({
    name: "OrderMirrorEventsRefused",
    severity: "critical",
    area: "events",
    measures: "webhook calls cannot be stored and are answered 5xx, for two minutes",
    forSeconds: 120,
    noticedAfterSeconds: 0,
    remedy:
      "`/readyz?verbose` and the log of the web process give the reason. Polling repairs events that are not sent again.",
    page: "/ops/calls?kind=webhook",
    holds: ({ notStored }) => notStored > 0,
    since: ({ firstNotStoredAt }) => firstNotStoredAt,
    cause: ({ sourceId, notStored }) =>
      `${describeCount(notStored, "webhook call")} of ${sourceId} could not be stored.`,
  }),
  perSource({
    name: "OrderMirrorEventsStopped",
    severity: "critical",
    area: "events",
    measures: "events have stopped; changes are found by polling only",
    remedy:
      "Check the endpoint, its secret and the plan at the provider, then run `order-mirror doctor --url https://your-host`.",
    page: "/ops/lost",
    // Although every call is refused, too: a stranger may have sent the refused ones.
    holds: ({ configured, lostSinceLastEvent }) =>
      configured === true && lostSinceLastEvent >= STOPPED_AFTER_LOST,
    since: ({ firstLostSinceLastEventAt }) => firstLostSinceLastEventAt,
    cause: ({ sourceId, lostSinceLastEvent }) =>
      `Webhooks of ${sourceId} have stopped: polling alone found the last ${describeCount(lostSinceLastEvent, "change")}.`,
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
    holds: (source) => source.configured === true && (lossRate(source) ?? 0) > LOSS_RATE_MAX,
    since: ({ firstLostAt }) => firstLostAt,
    cause: (source) => {
      const { sourceId, lost, announced } = source;
      const share = `${((lossRate(source) ?? 0) * 100).toFixed(1)} %`;
      return `${share} of the events of ${sourceId} were lost within a day (${lost} of ${lost + announced}).`;
    },
  }),
  perSource({
    name: "OrderMirrorEventsLate",
    severity: "warning",
    area: "events",
    measures: "more than one event in ten arrives after a poll has found its change",
    remedy:
      "See the trends of the source: the provider sends late, webhooks were refused at first, or they are answered or applied slowly.",
    page: SOURCE_PAGE,
    holds: ({ announcedLately, lateLately }) =>
      lateLately >= LATE_MIN && lateLately > LATE_RATE_MAX * announcedLately,
    since: ({ firstLateHour }) => firstLateHour,
    cause: ({ sourceId, announcedLately, lateLately }) =>
      `${lateLately} of ${describeCount(announcedLately, "event")} of ${sourceId} arrived after polling had found their change.`,
  }),
];
