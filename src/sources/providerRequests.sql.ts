import type { Pool } from "../database/database.ts";

/** A source's requests by rate policy and purpose, and how many of them were answered with 429. */
export interface SpentRequests {
  readonly sourceId: string;
  readonly policy: string;
  readonly purpose: string;
  readonly requests: number;
  readonly refused: number;
}

/**
 * Adds what a process has sent. Of the sources in `counts`, counts older than two days are added up by the hour, and
 * those older than 31 days are removed.
 */
export async function recordRequests(pool: Pool, counts: readonly SpentRequests[]): Promise<void> {
  await pool.query(
    `with forgotten as (
       delete from mirror.provider_requests where source_id = any($1::text[]) and minute < clock_timestamp() - interval '31 days'
     ), old as (
       delete from mirror.provider_requests
       where source_id = any($1::text[]) and minute <> date_trunc('hour', minute)
         and minute between clock_timestamp() - interval '4 days' and clock_timestamp() - interval '2 days'
       returning *
     ), folded as (
       insert into mirror.provider_requests as sent (source_id, minute, policy, purpose, requests, refused)
       select source_id, date_trunc('hour', minute), policy, purpose, sum(requests), sum(refused) from old
       group by 1, 2, 3, 4 order by 1, 2, 3, 4
       on conflict (source_id, minute, policy, purpose) do update set
         requests = sent.requests + excluded.requests, refused = sent.refused + excluded.refused
     )
     insert into mirror.provider_requests as sent (source_id, minute, policy, purpose, requests, refused)
     select source_id, date_trunc('minute', statement_timestamp()), policy, purpose, requests, refused
     from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
       as c (source_id, policy, purpose, requests, refused)
     order by source_id, policy, purpose
     on conflict (source_id, minute, policy, purpose) do update set
       requests = sent.requests + excluded.requests, refused = sent.refused + excluded.refused`,
    [
      counts.map(({ sourceId }) => sourceId),
      counts.map(({ policy }) => policy),
      counts.map(({ purpose }) => purpose),
      counts.map(({ requests }) => requests),
      counts.map(({ refused }) => refused),
    ],
  );
}
