import type { Pool } from "../../database/database.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Standing } from "../../health/conditions/standing.ts";

// Trends of a source: one statement reads a range in buckets, a table shows them (`trendCharts.ts`), and
// `assets/charts.js` draws the charts from the table. Start at `readTrend`.

/** A period of charts up to now, in buckets of equal length, which begin at whole multiples of it in UTC. */
export interface Range {
  readonly name: string;
  readonly title: string;
  /** Length of a bucket as people say it. */
  readonly unit: string;
  readonly bucketSeconds: number;
  readonly buckets: number;
}

const HOUR = 3_600;

/** The choices, the shortest first. Webhooks are counted by the hour, so no bucket is shorter. */
export const RANGES: readonly [Range, ...Range[]] = [
  { name: "24h", title: "24 h", buckets: 24, bucketSeconds: HOUR, unit: "hour" },
  { name: "7d", title: "7 d", buckets: 28, bucketSeconds: 6 * HOUR, unit: "6 h" },
  { name: "30d", title: "30 d", buckets: 30, bucketSeconds: 24 * HOUR, unit: "day" },
];

/** The range that an address names; 24 h without a known one. */
export function parseRange(name: unknown): Range {
  return RANGES.find((each) => each.name === name) ?? RANGES[0];
}

/** Knowledge of a bucket's time. */
export const KINDS = {
  before: "before the history",
  /** The mirror has every change of this time. */
  proved: "proved",
  /** Too recent to be proved. */
  open: "too recent",
  /** Unproved, but later time is proved, so changes may be missing. */
  gap: "gap",
  /** A proof of this time was withdrawn, whether or not it has been proved again. */
  breach: "proof withdrawn",
} as const;

/** Bucket of a source. Delays are percentiles of the time from the change to the decision, in seconds. */
export interface Bucket {
  /** Seconds since 1970. */
  readonly since: number;
  readonly coverage: keyof typeof KINDS;
  /** Changes of status that an event announced. */
  readonly onTime: number;
  /** After a read had found the change. */
  readonly late: number;
  readonly lost: number;
  /** Null: no event, or longer than the longest that is distinguished; else the next greater delay that is. */
  readonly p50: number | null;
  readonly p95: number | null;
}

const BUCKET_OF = (at: string) => `floor((extract(epoch from ${at}) - $2::float8) / $3::float8)::int`;

const within = (share: number) =>
  `nullif(min(up_to_seconds) filter (where until_here >= ${share} * total), 2147483647)`;

const TREND = `
  with times as (
    select n, ($2::float8 + n * $3)::bigint as since,
      int8range(($2::bigint + n * $3::bigint) * 1000000000, ($2::bigint + (n + 1) * $3::bigint) * 1000000000) as span
    from generate_series(0, $4::int - 1) n
  ), counted as (
    select ${BUCKET_OF("hour")} as n, outcome, up_to_seconds, sum(changes) as changes
    from mirror.webhook_hours where source_id = $1 and hour >= to_timestamp($2::float8) group by 1, 2, 3
  ), ranked as (
    select *, sum(changes) over (partition by n) as total,
      sum(changes) over (partition by n order by up_to_seconds) as until_here
    from counted where outcome <> 'lost'
  ), delays as (
    select n, ${within(0.5)} as p50, ${within(0.95)} as p95 from ranked group by n
  ), outcomes as (
    select n, sum(changes) filter (where outcome not in ('late', 'lost')) as on_time,
      sum(changes) filter (where outcome = 'late') as late, sum(changes) filter (where outcome = 'lost') as lost
    from counted group by n
  ), proved as (
    select coalesce(range_agg(int8range(since, until)), '{}') as spans from mirror.proved where source_id = $1
  )
  select since::float8 as since,
    case
      when exists (select from mirror.coverage_breaches b where b.source_id = $1
        and b.found_at > to_timestamp($2::float8) and int8range(b.since, b.until) && span) then 'breach'
      when not spans @> (span * int8range($5::bigint, $6::bigint)) then 'gap'
      when upper(span) <= $5::bigint then 'before'
      when upper(span) <= $6::bigint then 'proved'
      else 'open'
    end as coverage,
    coalesce(on_time, 0)::float8 as "onTime", coalesce(late, 0)::float8 as late, coalesce(lost, 0)::float8 as lost,
    p50, p95
  from times left join outcomes using (n) left join delays using (n), proved
  order by n`;

/** The buckets of a range up to now, oldest first; those without anything are there, too. */
export async function readTrend(
  pool: Pool,
  { standing, range }: { standing: Standing; range: Range },
): Promise<Bucket[]> {
  const { sourceId, now, historySince, provedUntil } = standing;
  const { bucketSeconds, buckets } = range;
  const end = (Math.floor(Number(now / NANOS_PER_SECOND) / bucketSeconds) + 1) * bucketSeconds;
  const begin = historySince ?? now;
  const history = [begin, provedUntil !== null && provedUntil > begin ? provedUntil : begin];
  const { rows } = await pool.query<Bucket>(TREND, [
    sourceId,
    end - buckets * bucketSeconds,
    bucketSeconds,
    buckets,
    ...history.map(String),
  ]);
  return rows;
}
