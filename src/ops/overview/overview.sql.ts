import type { RateRule } from "../../domain/window/rate.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { queryInstants } from "../../database/database.ts";
import type { Pool } from "../../database/database.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { describeWebhooks } from "../../health/eventConditions.ts";
import type { HealthReader } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";

export interface SourceView {
  readonly standing: Standing;
  readonly webhooks: ReturnType<typeof describeWebhooks>;
  /** Order lists of the last 10 minutes, and how many our rate allows in that time. */
  readonly listReads: { readonly sent: number; readonly allowed: number };
  readonly tasks: readonly OpenTask[];
}

export interface Overview {
  /** The database's clock at the time of the reading. */
  readonly now: Instant;
  readonly sources: readonly SourceView[];
  /** The conditions that hold, the most urgent first. */
  readonly holding: readonly Holding[];
  /** Those that begin to hold. */
  readonly beginning: readonly Holding[];
}

export interface OverviewReaderDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly health: HealthReader;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
}

/** The database is queried at most this often, however many tabs are open. */
const HOLD_MS = 4_000;
const RECENT_MINUTES = 10;
const TASKS_MAX = 20;

/**
 * Makes the one reader for all pages of a process; it rejects with the database's error. Each figure takes one
 * statement, however many sources there are, and one after another, so that a page does not take all connections.
 */
export function makeOverviewReader({
  pool,
  clock,
  health,
  listRate,
}: OverviewReaderDeps): () => Promise<Overview> {
  const allowed = Math.floor((listRate.requestsMax * RECENT_MINUTES * 60_000) / listRate.windowMs);
  async function read(): Promise<Overview> {
    const { facts, holding, beginning } = await health.read();
    const tasks = await readOpenTasks(pool);
    const sent = await readListReads(pool);
    const sources = facts.sources.map((standing) => ({
      standing,
      webhooks: describeWebhooks(standing),
      listReads: { sent: sent.get(standing.sourceId) ?? 0, allowed },
      tasks: tasks.filter(({ sourceId }) => sourceId === standing.sourceId),
    }));
    return { now: facts.now, sources, holding, beginning };
  }
  return shareReading(read, { clock, holdMs: HOLD_MS });
}

/** How many order lists were requested of each source lately. */
async function readListReads(pool: Pool): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ sourceId: string; sent: number }>(
    `select source_id as "sourceId", sum(calls)::float8 as sent from mirror.calls
     where kind = 'order-list' and minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => $1)
     group by source_id`,
    [RECENT_MINUTES],
  );
  return new Map(rows.map(({ sourceId, sent }) => [sourceId, sent]));
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
     order by requested_at limit ${TASKS_MAX}`,
  );
}
