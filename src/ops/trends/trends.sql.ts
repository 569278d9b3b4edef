import type { Pool } from "../../database/database.ts";

/** Buckets of equal length, the first of which starts at `since`, seconds since 1970. */
export interface Buckets {
  readonly since: number;
  readonly bucketSeconds: number;
}

interface InBucket {
  readonly sourceId: string;
  /** Number of the bucket, from 0. */
  readonly bucket: number;
}

/** Events that announced a change of status; percentiles of the time from the change to the decision, in seconds. */
export interface EventsInBucket extends InBucket {
  readonly onTime: number;
  /** After a read had found the change. */
  readonly late: number;
  /** Null: longer than the longest that is distinguished. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/** More rows are not counted, separately for each source: they have one cause, and the exact number does not matter. */
const ROWS_COUNTED_MAX = 100_000;

const bucketOf = (at: string) => `floor((extract(epoch from ${at}) - $1::float8) / $2::float8)::int`;
const values = ({ since, bucketSeconds }: Buckets) => [since, bucketSeconds];

/** Exact to the second, from the changes themselves: for periods of about an hour. */
export async function readEventsExactly(pool: Pool, buckets: Buckets): Promise<EventsInBucket[]> {
  const { rows } = await pool.query<Omit<EventsInBucket, "p50" | "p95" | "p99"> & { lags: number[] }>(
    `with came as (
       select s.source_id, changed_at as at, false as late, version
       from mirror.sources s cross join lateral (
         select changed_at, version from mirror.changes c
         where c.source_id = s.source_id and changed_at >= to_timestamp($1::float8) and via = 'webhook'
           and event_type is not null and status is distinct from previous_status
         limit ${ROWS_COUNTED_MAX}
       ) announced
       union all
       select source_id, announced_at, true, version from mirror.unannounced_changes
       where state = 'late' and announced_at >= to_timestamp($1::float8)
         and found_at > to_timestamp($1::float8) - interval '3 days'
     )
     select source_id as "sourceId", ${bucketOf("at")} as bucket, count(*) filter (where not late)::int as "onTime",
       count(*) filter (where late)::int as late,
       percentile_cont(array[0.5, 0.95, 0.99]) within group (
         order by greatest(0, extract(epoch from at) - version / 1000000000.0)::float8) as lags
     from came group by 1, 2`,
    values(buckets),
  );
  return rows.map(({ lags: [p50 = null, p95 = null, p99 = null], ...row }) => ({ ...row, p50, p95, p99 }));
}

/** From counts by the hour, whose percentiles are the next greater delay that is distinguished. */
export async function readEventsByHour(pool: Pool, buckets: Buckets): Promise<EventsInBucket[]> {
  const within = (share: number) =>
    `nullif(min(up_to_seconds) filter (where until_here >= ${share} * total), 2147483647)`;
  const { rows } = await pool.query<EventsInBucket>(
    `with delays as (
       select source_id, ${bucketOf("hour")} as bucket, late, up_to_seconds, sum(events) as events
       from mirror.event_delays where hour >= to_timestamp($1::float8) group by 1, 2, 3, 4
     ), ranked as (
       select *, sum(events) over (partition by source_id, bucket) as total,
         sum(events) over (partition by source_id, bucket order by up_to_seconds) as until_here
       from delays
     )
     select source_id as "sourceId", bucket, coalesce(sum(events) filter (where not late), 0)::float8 as "onTime",
       coalesce(sum(events) filter (where late), 0)::float8 as late,
       ${within(0.5)} as p50, ${within(0.95)} as p95, ${within(0.99)} as p99
     from ranked group by 1, 2`,
    values(buckets),
  );
  return rows;
}

/** Changes that no event announced, by the time at which a read found them. */
export async function readLosses(pool: Pool, buckets: Buckets): Promise<(InBucket & { lost: number })[]> {
  const { rows } = await pool.query<InBucket & { lost: number }>(
    `select s.source_id as "sourceId", ${bucketOf("found_at")} as bucket, count(*)::int as lost
     from mirror.sources s cross join lateral (
       select found_at from mirror.unannounced_changes u
       where u.source_id = s.source_id and state = 'lost' and found_at >= to_timestamp($1::float8)
       limit ${ROWS_COUNTED_MAX}
     ) found group by 1, 2`,
    values(buckets),
  );
  return rows;
}

/** Requests for order lists, and those of any kind that were answered with 429. */
export async function readListRequests(
  pool: Pool,
  buckets: Buckets,
): Promise<(InBucket & { lists: number; refused: number })[]> {
  const { rows } = await pool.query<InBucket & { lists: number; refused: number }>(
    `select source_id as "sourceId", ${bucketOf("minute")} as bucket,
       coalesce(sum(requests) filter (where policy = 'order-list'), 0)::float8 as lists, sum(refused)::float8 as refused
     from mirror.provider_requests where minute >= to_timestamp($1::float8) group by 1, 2`,
    values(buckets),
  );
  return rows;
}
