import type { RateRule } from "../../domain/window/rate.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Pool } from "../../database/database.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { readBreaches } from "../../poll/ledger/breaches.sql.ts";
import { readGaps } from "../../poll/ledger/coverage.sql.ts";

/** A period of charts up to now, in buckets of equal length. */
export interface Range {
  readonly name: string;
  readonly title: string;
  /** Length of a bucket as people say it. */
  readonly unit: string;
  readonly bucketSeconds: number;
  readonly buckets: number;
}

const HOUR = 3_600;

/** The choices, the shortest first. Buckets begin at whole multiples of their length, in UTC. */
export const RANGES: readonly Range[] = [
  { name: "1h", title: "1 h", buckets: 30, bucketSeconds: 120, unit: "2 min" },
  { name: "24h", title: "24 h", buckets: 24, bucketSeconds: HOUR, unit: "hour" },
  { name: "7d", title: "7 d", buckets: 28, bucketSeconds: 6 * HOUR, unit: "6 h" },
  { name: "30d", title: "30 d", buckets: 30, bucketSeconds: 24 * HOUR, unit: "day" },
];

/** The range that an address names; 24 h without a known one. */
export function parseRange(name: unknown): Range {
  const range = RANGES.find((each) => each.name === name) ?? RANGES[1];
  if (range === undefined) throw new TypeError("there are ranges");
  return range;
}

/**
 * What is known of a bucket's time:
 * - `before`: before the start of the history.
 * - `proved`: the mirror has every change of this time.
 * - `open`: too recent to be proved.
 * - `gap`: unproved, but later time is proved, so changes may be missing.
 * - `breach`: a proof of this time was withdrawn, whether or not it has been proved again.
 */
export type CoverageKind = "before" | "proved" | "open" | "gap" | "breach";

/** One bucket of a source. Delays are percentiles of the time from the change to the decision, in seconds. */
export interface Bucket {
  /** Seconds since 1970. */
  readonly since: number;
  readonly coverage: CoverageKind;
  /** Changes of status that an event announced. */
  readonly onTime: number;
  /** After a read had found the change. */
  readonly late: number;
  readonly lost: number;
  /** Null: no event, or longer than the longest that is distinguished. */
  readonly p50: number | null;
  readonly p95: number | null;
  /** Requests for order lists, and how many our rate allows in the bucket's time. */
  readonly lists: number;
  readonly allowed: number;
  /** Requests of any kind that were answered with 429. */
  readonly refused: number;
}

const GAPS_MAX = 50;
const BREACHES_MAX = 20;
/** More rows are not counted: they have one cause, and the exact number does not matter. */
const ROWS_COUNTED_MAX = 100_000;

/** The buckets of a range up to now, oldest first; those without anything are there, too. */
export async function readTrend(
  pool: Pool,
  { standing, range, listRate }: { standing: Standing; range: Range; listRate: RateRule },
): Promise<Bucket[]> {
  const { sourceId, now } = standing;
  const { bucketSeconds, buckets } = range;
  const end = (Math.floor(Number(now / NANOS_PER_SECOND) / bucketSeconds) + 1) * bucketSeconds;
  const since = end - buckets * bucketSeconds;
  const period = [sourceId, since, bucketSeconds];
  const events = await readEvents(pool, period, bucketSeconds < HOUR);
  const losses = await readLosses(pool, period);
  const requests = await readListRequests(pool, period);
  const kindOf = await readCoverage(pool, standing, BigInt(since) * NANOS_PER_SECOND);
  const allowed = Math.floor((listRate.requestsMax * bucketSeconds * 1_000) / listRate.windowMs);
  return Array.from({ length: buckets }, (_, bucket) => {
    const begin = since + bucket * bucketSeconds;
    const { onTime = 0, late = 0, p50 = null, p95 = null } = events.get(bucket) ?? {};
    const { lists = 0, refused = 0 } = requests.get(bucket) ?? {};
    return {
      since: begin,
      coverage: kindOf({
        since: BigInt(begin) * NANOS_PER_SECOND,
        until: BigInt(begin + bucketSeconds) * NANOS_PER_SECOND,
      }),
      onTime,
      late,
      lost: losses.get(bucket)?.lost ?? 0,
      p50,
      p95,
      lists,
      allowed,
      refused,
    };
  });
}

async function readCoverage(pool: Pool, standing: Standing, since: Instant) {
  const { sourceId, now, historySince, provedUntil } = standing;
  const missing = await readGaps(pool, { sourceId, within: { since, until: now }, limit: GAPS_MAX });
  const breaches = await readBreaches(pool, { sourceId, after: 0n, limit: BREACHES_MAX });
  const recent = breaches.filter(({ foundAt }) => foundAt > since);
  const begin = historySince ?? now;
  const end = provedUntil ?? begin;
  const gaps = missing.filter((gap) => gap.since < end && gap.until > begin);
  return (bucket: Window): CoverageKind => {
    const overlaps = (other: Window) => other.since < bucket.until && bucket.since < other.until;
    if (recent.some(overlaps)) return "breach";
    if (gaps.some((gap) => overlaps(gap) && gap.until <= end)) return "gap";
    if (bucket.until <= begin) return "before";
    return bucket.until <= end ? "proved" : "open";
  };
}

const BUCKET_OF = (at: string) =>
  `floor((extract(epoch from ${at}) - $2::float8) / $3::float8)::int as bucket`;

async function readBuckets<Row extends { bucket: number }>(
  pool: Pool,
  statement: string,
  period: readonly unknown[],
): Promise<ReadonlyMap<number, Row>> {
  const { rows } = await pool.query<Row>(statement, [...period]);
  return new Map(rows.map((row) => [row.bucket, row]));
}

type Events = Pick<Bucket, "onTime" | "late" | "p50" | "p95"> & { bucket: number };

/** Of about an hour to the second, from the changes themselves; otherwise from what is counted by the hour. */
async function readEvents(pool: Pool, period: readonly unknown[], isExact: boolean) {
  return readBuckets<Events>(pool, isExact ? EVENTS_EXACTLY : EVENTS_BY_HOUR, period);
}

const EVENTS_EXACTLY = `
  with came as (
    (select changed_at as at, false as late, version from mirror.changes
     where source_id = $1 and changed_at >= to_timestamp($2::float8) and via = 'webhook'
       and event_type is not null and status is distinct from previous_status
     limit ${ROWS_COUNTED_MAX})
    union all
    select announced_at, true, version from mirror.unannounced_changes
    where source_id = $1 and state = 'late' and announced_at >= to_timestamp($2::float8)
      and found_at > to_timestamp($2::float8) - interval '3 days'
  ), delayed as (
    select ${BUCKET_OF("at")}, late, greatest(0, extract(epoch from at) - version / 1000000000.0)::float8 as delay
    from came
  )
  select bucket, (count(*) filter (where not late))::int as "onTime", (count(*) filter (where late))::int as late,
    percentile_cont(0.5) within group (order by delay) as p50,
    percentile_cont(0.95) within group (order by delay) as p95
  from delayed group by bucket`;

const within = (share: number) =>
  `nullif(min(up_to_seconds) filter (where until_here >= ${share} * total), 2147483647)`;
/** Its percentiles are the next greater delay that is distinguished. */
const EVENTS_BY_HOUR = `
  with delays as (
    select ${BUCKET_OF("hour")}, outcome = 'late' as late, up_to_seconds, sum(changes) as events
    from mirror.webhook_hours
    where source_id = $1 and hour >= to_timestamp($2::float8) and outcome <> 'lost' group by 1, 2, 3
  ), ranked as (
    select *, sum(events) over (partition by bucket) as total,
      sum(events) over (partition by bucket order by up_to_seconds) as until_here
    from delays
  )
  select bucket, coalesce(sum(events) filter (where not late), 0)::float8 as "onTime",
    coalesce(sum(events) filter (where late), 0)::float8 as late, ${within(0.5)} as p50, ${within(0.95)} as p95
  from ranked group by bucket`;

/** Changes that no event announced, by the time at which a read found them. */
async function readLosses(pool: Pool, period: readonly unknown[]) {
  return readBuckets<{ bucket: number; lost: number }>(
    pool,
    `select ${BUCKET_OF("found_at")}, count(*)::int as lost from (
       select found_at from mirror.unannounced_changes
       where source_id = $1 and state = 'lost' and found_at >= to_timestamp($2::float8) limit ${ROWS_COUNTED_MAX}
     ) found group by 1`,
    period,
  );
}

async function readListRequests(pool: Pool, period: readonly unknown[]) {
  return readBuckets<{ bucket: number; lists: number; refused: number }>(
    pool,
    `select ${BUCKET_OF("minute")}, sum(refused)::float8 as refused,
       coalesce(sum(requests) filter (where policy = 'order-list'), 0)::float8 as lists
     from mirror.provider_requests where source_id = $1 and minute >= to_timestamp($2::float8) group by 1`,
    period,
  );
}
