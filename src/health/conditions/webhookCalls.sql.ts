import { queryInstants, type Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { judgeWebhooks, STOPPED_AFTER_LOST, type WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Arrivals } from "./arrivals.sql.ts";
import { describeCount, ENDS_WITH_A_CALL, type Rule } from "./condition.ts";

/** The calls to a source's webhook address that were not accepted. */
export interface WebhookCalls {
  readonly sourceId: string;
  /**
   * Calls to the webhook address since the last event whose signature did not verify, within two days. Unsigned ones
   * count before the first event alone: later, they come from strangers.
   */
  readonly refusedSinceLastEvent: number;
  /** Signed calls among them, whose time was too long before or after the web process's clock. */
  readonly wrongTimesSinceLastEvent: number;
  /** Calls among them that came without the header that the scheme signs with. */
  readonly unsignedSinceLastEvent: number;
  readonly firstRefusedAt: Instant | null;
  /**
   * Changes that reads found after the first of these calls, at least a minute ago: their events should have arrived by
   * now.
   */
  readonly foundSinceRefused: number;
  /**
   * Calls of the last 10 minutes whose signature did not verify; `wrongTimes` of them because of the time of signing.
   */
  readonly wrongSignatures: number;
  readonly wrongTimes: number;
  readonly firstWrongSignatureAt: Instant | null;
  /** Calls of the last 5 minutes that were answered 5xx; 0 if none was within the last minute. */
  readonly notStored: number;
  readonly firstNotStoredAt: Instant | null;
  /** Calls of the last 10 minutes that were answered 404, because the source had no webhook secret. */
  readonly withoutSecret: number;
  readonly firstWithoutSecretAt: Instant | null;
}

const RECENT_MINUTES = 10;
/** Counting what only reads found since the first refused call stops here: more digits would not help anybody. */
const FOUND_MAX = 1_000;

const CALLS = `
with s as (select source_id, mirror.instant_at(last_at) as last_at from unnest($1::text[], $2::bigint[]) as s (source_id, last_at))
select s.source_id as "sourceId",
  refused.calls as "refusedSinceLastEvent", refused.wrong_times as "wrongTimesSinceLastEvent",
  refused.unsigned as "unsignedSinceLastEvent", mirror.nanos_of(refused.first_at) as "firstRefusedAt",
  (select count(*)::int from (select from mirror.unannounced_changes u where u.source_id = s.source_id
    and u.found_at between refused.first_at and clock_timestamp() - interval '1 minute' and u.state <> 'late' limit ${FOUND_MAX}) found) as "foundSinceRefused",
  recent.refused as "wrongSignatures", recent.wrong_times as "wrongTimes",
  mirror.nanos_of(recent.first_refused) as "firstWrongSignatureAt",
  recent.not_stored as "notStored", mirror.nanos_of(recent.first_not_stored) as "firstNotStoredAt",
  recent.no_secret as "withoutSecret", mirror.nanos_of(recent.first_no_secret) as "firstWithoutSecretAt"
from s
cross join lateral (
  select coalesce(sum(calls), 0)::int as calls, min(minute) as first_at,
    coalesce(sum(calls) filter (where outcome = 'wrong_time'), 0)::int as wrong_times,
    coalesce(sum(calls) filter (where outcome = 'unsigned'), 0)::int as unsigned
  from mirror.calls w
  where w.source_id = s.source_id and w.kind = 'webhook'
    and w.outcome in ('wrong_signature', 'wrong_time', case when s.last_at is null then 'unsigned' end)
    and w.minute >= greatest(date_trunc('minute', s.last_at), clock_timestamp() - interval '2 days')
    and w.last_at > coalesce(s.last_at, '-infinity')
) refused
cross join lateral (
  select coalesce(sum(calls) filter (where outcome in ('wrong_signature', 'wrong_time')), 0)::int as refused,
    coalesce(sum(calls) filter (where outcome = 'wrong_time'), 0)::int as wrong_times,
    min(minute) filter (where outcome in ('wrong_signature', 'wrong_time')) as first_refused,
    case when max(last_at) filter (where outcome = 'not_stored') > clock_timestamp() - interval '1 minute'
      then sum(calls) filter (where outcome = 'not_stored' and last_at > clock_timestamp() - interval '5 minutes') else 0 end::int as not_stored,
    min(minute) filter (where outcome = 'not_stored' and last_at > clock_timestamp() - interval '5 minutes') as first_not_stored,
    coalesce(sum(calls) filter (where outcome = 'no_secret'), 0)::int as no_secret,
    min(minute) filter (where outcome = 'no_secret') as first_no_secret
  from mirror.calls w
  where w.source_id = s.source_id and w.kind = 'webhook' and w.minute > clock_timestamp() - interval '${RECENT_MINUTES} minutes'
) recent`;

/** The calls since the last event of each source, and lately. */
export function readWebhookCalls(pool: Pool, arrivals: readonly Arrivals[]): Promise<WebhookCalls[]> {
  const ids = arrivals.map(({ sourceId }) => sourceId);
  const lastEvents = arrivals.map(({ lastEventAt }) => lastEventAt);
  return queryInstants<WebhookCalls>(pool, { name: "read-webhook-calls", text: CALLS }, [ids, lastEvents]);
}

type Called = WebhookCalls & Arrivals;

/** Fewer forged calls than this, at an address that misses nothing, are not worth an alert. */
const REFUSED_MIN = 3;
const WRONG_SIGNATURES_MAX = 20;

const SECRET_REMEDY =
  "Copy the endpoint's secret from the provider again. If it is right, run `order-mirror identify-signature` where web runs: it finds the scheme from the refused events that web keeps with CAPTURE_REFUSED=10.";

const SCHEME_REMEDY =
  "The provider signs by another scheme: run `order-mirror identify-signature` where web runs, which finds it from the refused events that web keeps with CAPTURE_REFUSED=10.";

const CLOCK_REMEDY =
  "Run a time service (chrony, systemd-timesyncd) on the machine of the web process; `order-mirror doctor`, run there, compares its clock with the provider's.";
const FORGED_REMEDY =
  "After a rotation, copy the new secret. Otherwise check the clock with `order-mirror doctor`, or somebody is sending forged calls; none of them is stored.";

/**
 * A wrong secret or scheme cannot explain that; a wrong clock can, or old calls. Anybody can send those: the time is
 * checked before the signature.
 */
const isRefusedForTime = ({ refusedSinceLastEvent, wrongTimesSinceLastEvent }: WebhookCalls) =>
  refusedSinceLastEvent === wrongTimesSinceLastEvent;

/** No secret can explain that: the provider does not use the names of the configured scheme. */
const isUnsigned = ({ refusedSinceLastEvent, unsignedSinceLastEvent }: WebhookCalls) =>
  refusedSinceLastEvent === unsignedSinceLastEvent;

/**
 * Anybody can send forged calls in a quiet period. Changes that only polling has found since then show that genuine
 * events are refused.
 */
const isEveryCallRefused = ({ refusedSinceLastEvent, foundSinceRefused, lastEventAt }: Called) =>
  refusedSinceLastEvent >= REFUSED_MIN && (foundSinceRefused > 0 || lastEventAt === null);

/** Without a secret every call is answered 404. One or two may be a stranger's. */
const isCalledWithoutSecret = ({ configured, withoutSecret }: Called) =>
  configured === false && withoutSecret >= REFUSED_MIN;

/**
 * The state of a source's webhooks, for everything that says so:
 * - `refused`: every call is refused.
 * - `without-secret`: calls come, and the source has no secret to verify them with.
 */
export function describeWebhooks(source: Called): WebhookHealth | "refused" | "without-secret" {
  if (isCalledWithoutSecret(source)) return "without-secret";
  return isEveryCallRefused(source) ? "refused" : judgeWebhooks(source);
}

/** Says what was wrong with the calls, of which `wrongTimes` were signed too long ago or ahead. */
function describeRefusals({ wrongSignatures, wrongTimes }: WebhookCalls): string {
  const calls = describeCount(wrongSignatures, "webhook call");
  if (wrongTimes === 0) return `${calls} within 10 minutes had a wrong signature`;
  if (wrongTimes === wrongSignatures)
    return `${calls} within 10 minutes had a signing time too far from the web process's clock`;
  return `${calls} within 10 minutes had a wrong signature or signing time`;
}

/** Conditions of calls to the webhook address that were not accepted. */
export const WEBHOOK_CONDITIONS: readonly Rule<Called>[] = [
  {
    name: "OrderMirrorWebhooksRefused",
    severity: "critical",
    area: "events",
    place: "Between us and the provider",
    answer: "Webhooks refused",
    measures: "every webhook call is refused",
    remedy: SECRET_REMEDY,
    endsBy: ENDS_WITH_A_CALL,
    page: "/ops/events/refused",
    holds: isEveryCallRefused,
    since: ({ firstRefusedAt }) => firstRefusedAt,
    cause: (source) => {
      const { sourceId, refusedSinceLastEvent: calls } = source;
      const why = isRefusedForTime(source)
        ? "their signing times are too far from the web process's clock"
        : isUnsigned(source)
          ? "they come without the header that WEBHOOK_SCHEME signs with (webhook-signature, if it is not set)"
          : "the secret or WEBHOOK_SCHEME is wrong";
      return `Every webhook of ${sourceId} is refused (${describeCount(calls, "call")}): ${why}.`;
    },
    fix: (source) =>
      isRefusedForTime(source) ? CLOCK_REMEDY : isUnsigned(source) ? SCHEME_REMEDY : SECRET_REMEDY,
  },
  {
    name: "OrderMirrorEventsNeverCame",
    severity: "critical",
    area: "events",
    place: "Between us and the provider",
    answer: "No webhooks yet",
    measures: "a webhook secret is set and no call has ever come; changes are found by polling only",
    remedy:
      "Enter https://your-host/webhooks/SOURCE at the provider, then run `order-mirror doctor --url https://your-host`. Without webhooks, remove the secret, and list the source in the SOURCES_FILE of a web without its key: it is then polled only.",
    endsBy: "with the first accepted event",
    page: "/ops/calls?kind=webhook",
    holds: ({ configured, lastEventAt, lostSinceLastEvent, refusedSinceLastEvent }) =>
      configured === true &&
      lastEventAt === null &&
      lostSinceLastEvent >= STOPPED_AFTER_LOST &&
      refusedSinceLastEvent < REFUSED_MIN,
    since: ({ firstLostSinceLastEventAt }) => firstLostSinceLastEventAt,
    cause: ({ sourceId, lostSinceLastEvent }) =>
      `No webhook of ${sourceId} has ever come: polling alone found ${describeCount(lostSinceLastEvent, "change")}.`,
    fix: ({ sourceId }) =>
      `Enter https://your-host/webhooks/${sourceId} at the provider, then run \`order-mirror doctor --url https://your-host\`. Without webhooks, remove the secret, and list the source in the SOURCES_FILE of a web without its key: it is then polled only.`,
  },
  {
    name: "OrderMirrorNoSecret",
    severity: "critical",
    area: "events",
    place: "On our side",
    answer: "No secret",
    measures: "webhooks come, and every one is answered 404, because no secret is set",
    remedy:
      "Copy the endpoint's secret from the provider into DELIVERY_LIVE_WEBHOOK_SECRETS, DELIVERY_TEST_WEBHOOK_SECRETS or SOURCES_FILE, and restart `order-mirror web`.",
    endsBy: "10 minutes after the last such call",
    page: "/ops/calls?kind=webhook",
    holds: isCalledWithoutSecret,
    since: ({ firstWithoutSecretAt }) => firstWithoutSecretAt,
    cause: ({ sourceId, withoutSecret }) =>
      `Every webhook of ${sourceId} is answered 404 (${describeCount(withoutSecret, "call")}): it has no webhook secret.`,
  },
  {
    name: "OrderMirrorBadSignatures",
    severity: "warning",
    area: "events",
    place: "Between us and the provider",
    answer: "Some refused",
    measures: "more than 20 webhook calls within 10 minutes had a wrong signature or signing time",
    remedy: FORGED_REMEDY,
    endsBy: "10 minutes after the last such call",
    page: "/ops/calls?kind=webhook",
    // If every call is refused, OrderMirrorWebhooksRefused is about the same calls.
    holds: (source) => source.wrongSignatures > WRONG_SIGNATURES_MAX && !isEveryCallRefused(source),
    since: ({ firstWrongSignatureAt }) => firstWrongSignatureAt,
    cause: (source) => `${source.sourceId}: ${describeRefusals(source)}.`,
    fix: ({ wrongSignatures, wrongTimes }) => (wrongSignatures === wrongTimes ? CLOCK_REMEDY : FORGED_REMEDY),
  },
  {
    name: "OrderMirrorEventsRefused",
    severity: "critical",
    area: "events",
    place: "On our side",
    answer: "Webhooks fail",
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
  },
];
