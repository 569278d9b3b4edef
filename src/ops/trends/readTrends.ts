import type { Pool } from "../../database/database.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { readBreaches } from "../../poll/ledger/breaches.sql.ts";
import { readGaps } from "../../poll/ledger/coverage.sql.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import type { OverviewReaderDeps } from "../overview/readOverview.ts";
import { divideCoverage } from "./coverage.ts";
import type { Coverage } from "./coverage.ts";
import { RANGES, startOf } from "./range.ts";
import type { Range } from "./range.ts";
import { readEventsByHour, readEventsExactly, readListRequests, readLosses } from "./trends.sql.ts";
import type { Buckets, EventsInBucket } from "./trends.sql.ts";

/** One bucket of one source. */
export interface Bucket extends Omit<EventsInBucket, "sourceId" | "bucket"> {
  /** Seconds since 1970. */
  readonly since: number;
  readonly lost: number;
  readonly lists: number;
  readonly refused: number;
  /** How many order lists our rate allows in its time. */
  readonly allowed: number;
}

export interface Trend {
  readonly sourceId: string;
  readonly buckets: readonly Bucket[];
  readonly coverage: Coverage;
}

export type ReadTrends = (range: Range) => Promise<readonly Trend[]>;

interface TrendDeps extends Pick<OverviewReaderDeps, "pool" | "clock" | "listRate"> {
  readonly readStandings: () => Promise<readonly Standing[]>;
}

/** The database is queried at most this often for each range, however many tabs are open. */
const HOLD_MS = 4_000;
/** Where one bucket is hours. */
const LONG_HOLD_MS = 30_000;
const GAPS_MAX = 50;
const BREACHES_MAX = 20;
const HOUR_SECONDS = 3_600;

/** Makes the one reader for all pages of a process. */
export function makeTrendReader(deps: TrendDeps): ReadTrends {
  const readers = new Map(
    RANGES.map((range) => {
      const holdMs = range.bucketSeconds > HOUR_SECONDS ? LONG_HOLD_MS : HOLD_MS;
      return [range, shareReading(() => readTrends(deps, range), { clock: deps.clock, holdMs })];
    }),
  );
  return (range) => readers.get(range)?.() ?? readTrends(deps, range);
}

/** One statement after another, so that a page does not take all connections of the pool. */
async function readTrends({ pool, listRate, readStandings }: TrendDeps, range: Range): Promise<Trend[]> {
  const standings = await readStandings();
  const { bucketSeconds } = range;
  const nowSeconds = Number((standings[0]?.now ?? 0n) / NANOS_PER_SECOND);
  const buckets: Buckets = { since: startOf(range, nowSeconds), bucketSeconds };
  const readEvents = bucketSeconds < HOUR_SECONDS ? readEventsExactly : readEventsByHour;
  const events = await readEvents(pool, buckets);
  const losses = await readLosses(pool, buckets);
  const requests = await readListRequests(pool, buckets);
  const allowed = Math.floor((listRate.requestsMax * bucketSeconds * 1_000) / listRate.windowMs);
  const trends: Trend[] = [];
  for (const standing of standings) {
    const { sourceId } = standing;
    const find = <Row extends { sourceId: string; bucket: number }>(rows: readonly Row[], bucket: number) =>
      rows.find((row) => row.sourceId === sourceId && row.bucket === bucket);
    trends.push({
      sourceId,
      buckets: Array.from({ length: range.buckets }, (_, bucket) => ({
        since: buckets.since + bucket * bucketSeconds,
        ...(find(events, bucket) ?? NO_EVENTS),
        lost: find(losses, bucket)?.lost ?? 0,
        lists: find(requests, bucket)?.lists ?? 0,
        refused: find(requests, bucket)?.refused ?? 0,
        allowed,
      })),
      coverage: await readCoverage(pool, standing, {
        since: BigInt(buckets.since) * NANOS_PER_SECOND,
        until: BigInt(buckets.since + range.buckets * bucketSeconds) * NANOS_PER_SECOND,
      }),
    });
  }
  return trends;
}

const NO_EVENTS = { onTime: 0, late: 0, p50: null, p95: null, p99: null };

async function readCoverage(
  pool: Pool,
  { sourceId, now, historySince, provedUntil }: Standing,
  within: { since: Instant; until: Instant },
): Promise<Coverage> {
  const missing = await readGaps(pool, {
    sourceId,
    within: { since: within.since, until: now },
    limit: GAPS_MAX,
  });
  const recent = await readBreaches(pool, { sourceId, after: 0n, limit: BREACHES_MAX });
  const breaches = recent.filter(({ foundAt }) => foundAt > within.since);
  return divideCoverage({ within, historySince, provedUntil, missing, breaches });
}
