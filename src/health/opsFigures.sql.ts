import type { Instant } from "../domain/order/instant.ts";
import { queryInstants } from "../database/columns.ts";
import type { Pool } from "../database/database.ts";

/** The lag covers only this many of the latest decisions: it describes the present. */
const LAG_DECISIONS = 5_000;
const WORKS_MAX = 20;

/** The events among the latest decisions that changed an order within the last hour, with their lag. */
export const LATELY = `
  select history_id, source_id, reference, event_id, event_type, seen_at,
    greatest(0, extract(epoch from seen_at) - version / 1000000000.0)::float8 as lag
  from (select * from mirror.history order by history_id desc limit ${LAG_DECISIONS}) newest
  where via = 'webhook' and verdict = 'applied' and seen_at > clock_timestamp() - interval '1 hour'`;

/** The lag of events, from the provider's updatedAt to our decision. */
export interface WebhookLag {
  readonly sourceId: string;
  readonly events: number;
  readonly p50Seconds: number;
  readonly p95Seconds: number;
}

/** Leaves out sources whose events have changed no order recently. */
export async function readWebhookLag(pool: Pool): Promise<WebhookLag[]> {
  const { rows } = await pool.query<WebhookLag>(
    `select source_id as "sourceId", count(*)::int as events,
       percentile_cont(0.5) within group (order by lag) as "p50Seconds",
       percentile_cont(0.95) within group (order by lag) as "p95Seconds"
     from (${LATELY}) lately group by source_id`,
  );
  return rows;
}

/** The newest open quarantined input, grouped by reason. */
export interface QuarantinedReason {
  readonly sourceId: string;
  readonly reason: string;
  readonly count: number;
}

/** Considers the newest `newestMax` of each source. */
export async function readQuarantinedReasons(pool: Pool, newestMax: number): Promise<QuarantinedReason[]> {
  const { rows } = await pool.query<QuarantinedReason>(
    `select source_id as "sourceId", reason, count(*)::int as count
     from mirror.sources s cross join lateral (
       select reason from mirror.quarantine q
       where q.source_id = s.source_id and state = 'open' order by quarantined_at desc limit $1
     ) quarantined
     group by source_id, reason order by source_id, count desc, reason`,
    [newestMax],
  );
  return rows;
}

/** A task requested from the poller, by a person or by the nightly job, that has not ended. */
export interface OpenTask {
  readonly kind: "backfill" | "verification";
  readonly id: string;
  readonly sourceId: string;
  readonly since: Instant;
  readonly until: Instant;
  readonly running: boolean;
  /** The completed share, 0 to 1. */
  readonly share: number;
  readonly orders: number;
  /** Since its start; 0 before. */
  readonly elapsedSeconds: number;
  readonly lastError: string | null;
}

/** Oldest first, at most 20. */
export async function readOpenTasks(pool: Pool): Promise<OpenTask[]> {
  return queryInstants<OpenTask>(
    pool,
    `select kind, request_id::text as id, source_id as "sourceId", since, until, state = 'running' as running,
       (until - read_down_to)::float8 / (until - since) as share,
       orders::float8, coalesce(extract(epoch from clock_timestamp() - started_at), 0)::float8 as "elapsedSeconds",
       last_error as "lastError"
     from mirror.period_requests where state in ('requested', 'running')
     order by requested_at limit ${WORKS_MAX}`,
  );
}
