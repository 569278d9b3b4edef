import { divideCoverage } from "../../../src/ops/trends/coverage.ts";
import { RANGES, startOf } from "../../../src/ops/trends/range.ts";
import type { Range } from "../../../src/ops/trends/range.ts";
import type { Bucket, Trend } from "../../../src/ops/trends/readTrends.ts";
import { LOOKED_AT } from "./facts.ts";

const DAY = RANGES[1] as Range;
const NANOS = 1_000_000_000n;

/** The charts of a source whose every hour is alike and proved; `bucket` replaces some figures of each hour. */
export function makeTrend(bucket: Partial<Bucket> = {}, coverage: Partial<Trend["coverage"]> = {}): Trend {
  const first = startOf(DAY, LOOKED_AT);
  const within = { since: BigInt(first) * NANOS, until: BigInt(LOOKED_AT) * NANOS };
  return {
    sourceId: "live",
    buckets: Array.from({ length: DAY.buckets }, (_, index) => ({
      since: first + index * DAY.bucketSeconds,
      onTime: 90,
      late: 6,
      lost: 4,
      p50: 1,
      p95: 5,
      p99: 30,
      lists: 720,
      allowed: 7_200,
      refused: 0,
      ...bucket,
    })),
    coverage: {
      ...divideCoverage({ within, historySince: 0n, provedUntil: within.until, missing: [], breaches: [] }),
      ...coverage,
    },
  };
}
