import type { Pool } from "../database/database.ts";

/** How a call ended, as far as it matters for whether webhooks work; see mirror.webhook_calls. */
export type CallOutcome =
  | "accepted"
  | "wrong_signature"
  | "wrong_time"
  | "not_stored"
  | "no_secret"
  | "other";

export interface CallCount {
  readonly sourceId: string;
  readonly outcome: CallOutcome;
  readonly calls: number;
}

/** Adds calls of the webhook addresses to those of this minute, and drops what is older than two days. */
export async function recordCalls(pool: Pool, counts: readonly CallCount[]): Promise<void> {
  await pool.query(
    `with counted as (
       select * from unnest($1::text[], $2::text[], $3::bigint[]) as c (source_id, outcome, calls)
     ), forgotten as (
       delete from mirror.webhook_calls w using counted
       where w.source_id = counted.source_id and w.minute < clock_timestamp() - interval '2 days'
     )
     insert into mirror.webhook_calls as w (source_id, minute, outcome, calls, last_at)
     select source_id, date_trunc('minute', clock_timestamp()), outcome, calls, clock_timestamp()
     from counted join mirror.sources using (source_id) order by source_id, outcome
     on conflict (source_id, minute, outcome) do update set
       calls = w.calls + excluded.calls, last_at = excluded.last_at`,
    [
      counts.map(({ sourceId }) => sourceId),
      counts.map(({ outcome }) => outcome),
      counts.map(({ calls }) => calls),
    ],
  );
}
