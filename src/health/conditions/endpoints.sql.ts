import type { Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { wordFor } from "../../domain/wordFor.ts";
import { describeCount, type Rule } from "./condition.ts";

/** The state of one endpoint of outgoing webhooks. Times are seconds since 1970, by the database's clock. */
export interface OutgoingEndpoint {
  readonly endpointId: string;
  /** Sources whose changes it is notified of. */
  readonly sourceIds: readonly string[];
  readonly pending: number;
  readonly dead: number;
  /**
   * The oldest change that it should have had and has not, planned or not; messages that were given up do not count.
   */
  readonly oldestPendingAt: number | null;
  /** Whether that is more than a minute old. */
  readonly late: boolean;
  /** Time at which the first of the waiting messages is due. */
  readonly nextAttemptAt: number | null;
  /** The last attempt of the first message that was given up. */
  readonly oldestDeadAt: number | null;
  readonly newestDeliveredAt: number | null;
  readonly failuresInRow: number;
  /** Time at which a person paused it; null: not paused. */
  readonly pausedAt: number | null;
  /** Time at which a person last ended a pause; null if there was none. */
  readonly resumedAt: number | null;
  /** Time at which a running worker last listed it; null: one does. */
  readonly unlistedSince: number | null;
  /** Whether a running worker lists it with another content than the one in force. */
  readonly disputed: boolean;
}

/** The state of an endpoint in a few words. */
export function describeEndpoint(endpoint: OutgoingEndpoint): string {
  const { pausedAt, failuresInRow, unlistedSince, disputed } = endpoint;
  if (pausedAt !== null) return "paused by a person";
  if (unlistedSince !== null) return "not listed by a running worker";
  if (disputed) return "listed differently by two workers";
  if (failuresInRow > 0)
    return failuresInRow === 1 ? "failed once" : `failed ${failuresInRow} times in a row`;
  return endpoint.late ? "late" : "ok";
}

/** Every endpoint that is known, by name. */
export async function readOutgoingEndpoints(pool: Pool): Promise<OutgoingEndpoint[]> {
  const { rows } = await pool.query<OutgoingEndpoint>({
    // Planning it takes many times as long as running it.
    name: "read-outgoing-endpoints",
    text: `select w.endpoint_id as "endpointId", w.pending_count::int as pending, w.dead_count::int as dead,
       e.source_ids as "sourceIds",
       extract(epoch from least(w.oldest_pending_at, unplanned.oldest_at))::float8 as "oldestPendingAt",
       coalesce(least(w.oldest_pending_at, unplanned.oldest_at) < clock_timestamp() - interval '1 minute', false) as late,
       (select extract(epoch from min(d.next_attempt_at))::float8 from mirror.outgoing_deliveries d
        where d.endpoint_id = w.endpoint_id and d.state = 'pending') as "nextAttemptAt",
       (select extract(epoch from min(d.last_attempt_at))::float8 from mirror.outgoing_deliveries d
        where d.endpoint_id = w.endpoint_id and d.state = 'dead' and d.event_type <> 'test') as "oldestDeadAt",
       extract(epoch from w.newest_delivered_at)::float8 as "newestDeliveredAt",
       w.failures_in_row as "failuresInRow",
       extract(epoch from e.paused_at)::float8 as "pausedAt",
       extract(epoch from e.resumed_at)::float8 as "resumedAt",
       case when e.listed_at < clock_timestamp() - interval '1 minute'
            then extract(epoch from e.listed_at)::float8 end as "unlistedSince",
       coalesce(e.disputed_at > clock_timestamp() - interval '30 seconds', false) as disputed
     from reporting.outgoing_webhooks w join mirror.outgoing_endpoints e using (endpoint_id)
     -- What is not planned yet is in the feed, behind the endpoint's place.
     cross join lateral (
       select min(changed_at) as oldest_at from unnest(e.source_ids) as source (source_id), lateral (
         select changed_at from mirror.changes c where c.source_id = source.source_id and c.position > e.position
         order by c.position limit 1) next
     ) unplanned
     order by w.endpoint_id`,
  });
  return rows;
}

const toInstant = (seconds: number | null): Instant | null =>
  seconds === null ? null : BigInt(Math.round(seconds * 1_000)) * 1_000_000n;

/** Since when a change is due that it has not: nothing is sent in a pause. */
const dueSince = ({ oldestPendingAt, resumedAt }: OutgoingEndpoint): Instant | null =>
  toInstant(oldestPendingAt && Math.max(oldestPendingAt, resumedAt ?? 0));

/** Attempts are made, and fail. */
const isFailing = ({ pausedAt, unlistedSince, failuresInRow, pending }: OutgoingEndpoint) =>
  pausedAt === null && unlistedSince === null && failuresInRow > 0 && pending > 0;

/** Conditions of the business's own systems. */
export const ENDPOINT_CONDITIONS: readonly Rule<OutgoingEndpoint>[] = [
  {
    name: "OrderMirrorOutgoingFailing",
    severity: "warning",
    area: "outgoing",
    place: "Between us and your endpoint",
    answer: "Outgoing fails",
    measures: "webhooks to one of your endpoints fail and wait",
    forSeconds: 600,
    noticedAfterSeconds: 60,
    remedy:
      "/ops/outgoing shows the last attempts and answers; fix the endpoint. Nothing is lost until messages are given up.",
    page: "/ops/outgoing",
    button: "outgoing-pause",
    holds: isFailing,
    since: dueSince,
    cause: ({ endpointId, failuresInRow, pending }) =>
      `Webhooks to ${endpointId} fail: ${describeCount(pending, "message waits", "messages wait")} after ${describeCount(failuresInRow, "failed attempt")}.`,
  },
  {
    name: "OrderMirrorOutgoingGivenUp",
    severity: "warning",
    area: "outgoing",
    place: "Between us and your endpoint",
    answer: "Outgoing given up",
    measures: "webhooks to one of your endpoints were given up",
    remedy: "/ops/outgoing shows the answers; fix the endpoint, then run `order-mirror outgoing retry`.",
    page: "/ops/outgoing",
    button: "outgoing-retry",
    holds: ({ dead }) => dead > 0,
    since: ({ oldestDeadAt }) => toInstant(oldestDeadAt),
    cause: ({ endpointId, dead }) =>
      `${describeCount(dead, "webhook")} to ${endpointId} ${wordFor(dead, "was", "were")} given up.`,
  },
  {
    name: "OrderMirrorOutgoingLate",
    severity: "warning",
    area: "outgoing",
    place: "On our side",
    answer: "Outgoing late",
    measures:
      "one of your endpoints has not got a change for ten minutes, for another reason than its answers",
    forSeconds: 600,
    noticedAfterSeconds: 120,
    remedy: "Is a worker running? /ops/outgoing shows what waits, with the last attempts of each message.",
    page: "/ops/outgoing",
    holds: (endpoint) =>
      endpoint.oldestPendingAt !== null && endpoint.pausedAt === null && !isFailing(endpoint),
    since: dueSince,
    cause: ({ endpointId, unlistedSince, pending }) =>
      unlistedSince === null
        ? `A change for ${endpointId} was not delivered yet, with ${describeCount(pending, "message")} waiting.`
        : `A change for ${endpointId} is not delivered: no running worker lists it.`,
    fix: ({ endpointId, unlistedSince }) =>
      unlistedSince === null
        ? "/ops/outgoing shows what waits, with the last attempts of each message."
        : `Start a worker whose OUTGOING_WEBHOOKS_FILE lists it, or have it forgotten: \`order-mirror outgoing remove ${endpointId}\`.`,
  },
  {
    name: "OrderMirrorOutgoingPaused",
    severity: "warning",
    area: "outgoing",
    place: "On our side",
    answer: "Outgoing paused",
    measures: "a person paused webhooks to one of your endpoints",
    remedy: "Resume it on /ops/outgoing. Its messages are kept until then, and hold up CHANGES_KEPT_FOR.",
    page: "/ops/outgoing",
    button: "outgoing-resume",
    holds: ({ pausedAt }) => pausedAt !== null,
    since: ({ pausedAt }) => toInstant(pausedAt),
    cause: ({ endpointId, pending }) =>
      `Webhooks to ${endpointId} are paused; ${describeCount(pending, "message waits", "messages wait")}.`,
  },
  {
    name: "OrderMirrorOutgoingNotListed",
    severity: "warning",
    area: "outgoing",
    place: "On our side",
    answer: "Endpoint not listed",
    measures: "no worker has listed one of your endpoints for a day",
    forSeconds: 86_400,
    noticedAfterSeconds: 600,
    remedy:
      "List it in OUTGOING_WEBHOOKS_FILE of a worker, or have it forgotten with `order-mirror outgoing remove`. Its place in the feed is kept until then, and holds up CHANGES_KEPT_FOR.",
    page: "/ops/outgoing",
    // With a change that waits, it is late; a paused one is shown as paused.
    holds: ({ unlistedSince, pausedAt, oldestPendingAt }) =>
      unlistedSince !== null && pausedAt === null && oldestPendingAt === null,
    since: ({ unlistedSince }) => toInstant(unlistedSince),
    cause: ({ endpointId }) => `No running worker lists ${endpointId}.`,
  },
  {
    name: "OrderMirrorOutgoingDisputed",
    severity: "warning",
    area: "outgoing",
    place: "On our side",
    answer: "Lists differ",
    measures: "running workers list one of your endpoints differently",
    forSeconds: 600,
    noticedAfterSeconds: 120,
    remedy:
      "Give all workers the same OUTGOING_WEBHOOKS_FILE and restart them. Until the last one with the former content has ended, that content is in force.",
    page: "/ops/outgoing",
    holds: ({ disputed }) => disputed,
    since: () => null,
    cause: ({ endpointId }) => `Running workers list ${endpointId} differently.`,
  },
];
