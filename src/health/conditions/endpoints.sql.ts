import type { Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { RuleOfEach } from "./condition.ts";

/** The state of one endpoint of outgoing webhooks. Times are seconds since 1970, by the database's clock. */
export interface OutgoingEndpoint {
  readonly endpointId: string;
  /** Sources whose changes it is notified of. */
  readonly sourceIds: readonly string[];
  readonly pending: number;
  readonly dead: number;
  readonly oldestPendingAt: number | null;
  /** The last attempt of the first message that was given up. */
  readonly oldestDeadAt: number | null;
  readonly newestDeliveredAt: number | null;
  readonly failuresInRow: number;
  /** When a person paused it; null: not paused. */
  readonly pausedAt: number | null;
}

/** The state of an endpoint in a few words. */
export function describeEndpoint(endpoint: OutgoingEndpoint): string {
  const { pausedAt, failuresInRow } = endpoint;
  if (pausedAt !== null) return "paused by a person";
  if (failuresInRow > 0) return `failed ${failuresInRow} ${failuresInRow === 1 ? "time" : "times"} in a row`;
  return "ok";
}

/** Every configured endpoint, by name. */
export async function readOutgoingEndpoints(pool: Pool): Promise<OutgoingEndpoint[]> {
  const { rows } = await pool.query<OutgoingEndpoint>({
    // Planning it takes many times as long as running it.
    name: "read-outgoing-endpoints",
    text: `select w.endpoint_id as "endpointId", w.pending_count::int as pending, w.dead_count::int as dead,
       e.source_ids as "sourceIds",
       extract(epoch from w.oldest_pending_at)::float8 as "oldestPendingAt",
       (select extract(epoch from min(d.last_attempt_at))::float8 from mirror.outgoing_deliveries d
        where d.endpoint_id = w.endpoint_id and d.state = 'dead') as "oldestDeadAt",
       extract(epoch from w.newest_delivered_at)::float8 as "newestDeliveredAt",
       w.failures_in_row as "failuresInRow",
       extract(epoch from e.paused_at)::float8 as "pausedAt"
     from reporting.outgoing_webhooks w join mirror.outgoing_endpoints e using (endpoint_id) order by w.endpoint_id`,
  });
  return rows;
}

const toInstant = (seconds: number | null): Instant | null =>
  seconds === null ? null : BigInt(Math.round(seconds * 1_000)) * 1_000_000n;

/** Conditions of the business's own systems. */
export const ENDPOINT_CONDITIONS: readonly RuleOfEach<OutgoingEndpoint>[] = [
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
    holds: ({ failuresInRow, oldestPendingAt }) => failuresInRow > 0 && oldestPendingAt !== null,
    since: ({ oldestPendingAt }) => toInstant(oldestPendingAt),
    cause: ({ endpointId, failuresInRow, pending }) =>
      `Webhooks to ${endpointId} fail: ${pending} are waiting after ${failuresInRow} failed attempts in a row.`,
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
      `${dead} ${dead === 1 ? "webhook" : "webhooks"} to ${endpointId} ${dead === 1 ? "was" : "were"} given up.`,
  },
];
