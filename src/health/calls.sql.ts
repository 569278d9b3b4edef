import type { RateRule } from "../domain/window/rate.ts";
import type { Pool } from "../database/database.ts";
import type { PolicyName } from "../provider/budget.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import type { Shutdown } from "../process/shutdown.ts";
import type { Logger } from "../process/telemetry/logger.ts";

/** A call of either side, and how it ended; see mirror.calls. */
export interface Call {
  readonly sourceId: string;
  /** The narrowest rate policy of a request to the provider. */
  readonly kind: "webhook" | PolicyName;
  readonly outcome: WebhookOutcome | "answered" | "refused" | "unanswered";
}

/** Outcome of a webhook call, as far as it says whether webhooks work. */
export type WebhookOutcome =
  | "accepted"
  | "wrong_signature"
  | "unsigned"
  | "wrong_time"
  | "not_stored"
  | "no_secret"
  | "other";

export type CountCall = (call: Call) => void;

const FLUSH_EVERY_MS = 5_000;

/**
 * Makes the function that counts calls. The counts are recorded every few seconds, and at the end, for all processes to
 * read.
 */
export function openCallCounts(
  {
    clock,
    logger,
    shutdown,
  }: { readonly clock: Clock; readonly logger: Logger; readonly shutdown: Shutdown },
  pool: Pool,
): CountCall {
  const { count, flush } = makeCallCounts(pool);
  const onError = (error: unknown) => {
    logger.debug({ err: error }, "calls could not be written down; their counts are kept");
  };
  const loop = makeLoop({ run: flush, everyMs: FLUSH_EVERY_MS, onError, pausesFirst: true, clock });
  loop.start();
  shutdown.onShutdown("call counts", async () => {
    await loop.stop();
    await flush().catch(onError);
  });
  return count;
}

/** Counts that a process accumulates; what cannot be written is kept for the next time. @internal */
export function makeCallCounts(pool: Pool) {
  let counts = new Map<string, { readonly call: Call; calls: number }>();
  function count(call: Call, calls = 1): void {
    const key = `${call.sourceId} ${call.kind} ${call.outcome}`;
    const counted = counts.get(key);
    if (counted) counted.calls += calls;
    else counts.set(key, { call, calls });
  }
  async function flush(): Promise<void> {
    const written = [...counts.values()];
    if (written.length === 0) return;
    counts = new Map();
    try {
      await recordCalls(pool, written);
    } catch (error) {
      for (const { call, calls } of written) count(call, calls);
      throw error;
    }
  }
  return { count: (call: Call) => count(call), flush };
}

/** Adds calls to those of this minute, and drops those of their kind that are older than 31 days. */
async function recordCalls(
  pool: Pool,
  counts: readonly { readonly call: Call; readonly calls: number }[],
): Promise<void> {
  await pool.query(
    `with counted as (
       select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as c (source_id, kind, outcome, calls)
     ), forgotten as (
       delete from mirror.calls c using counted
       where c.source_id = counted.source_id and c.kind = counted.kind and c.minute < clock_timestamp() - interval '31 days'
     )
     insert into mirror.calls as c (source_id, kind, minute, outcome, calls, last_at)
     select source_id, kind, date_trunc('minute', clock_timestamp()), outcome, calls, clock_timestamp()
     from counted join mirror.sources using (source_id) order by source_id, kind, outcome
     on conflict (source_id, kind, minute, outcome) do update set
       calls = c.calls + excluded.calls, last_at = excluded.last_at`,
    [
      counts.map(({ call }) => call.sourceId),
      counts.map(({ call }) => call.kind),
      counts.map(({ call }) => call.outcome),
      counts.map(({ calls }) => calls),
    ],
  );
}

const RECENT_MINUTES = 10;

/** Reads each source's share of our rate of order lists that was used in the last ten minutes, 0 to 1. */
export async function readRateUsed(
  pool: Pool,
  { requestsMax, windowMs }: RateRule,
): Promise<ReadonlyMap<string, number>> {
  const allowed = (requestsMax * RECENT_MINUTES * 60_000) / windowMs;
  const { rows } = await pool.query<{ sourceId: string; used: number }>(
    `select source_id as "sourceId", sum(calls)::float8 / $2 as used from mirror.calls
     where kind = 'order-list' and minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => $1)
     group by source_id`,
    [RECENT_MINUTES, allowed],
  );
  return new Map(rows.map(({ sourceId, used }) => [sourceId, used]));
}
