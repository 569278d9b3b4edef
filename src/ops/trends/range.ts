import { readField } from "../html/requests.ts";

/** What the charts show: a period up to now, divided into equal buckets. */
export interface Range {
  readonly name: string;
  readonly title: string;
  readonly buckets: number;
  readonly bucketSeconds: number;
  /** Length of a bucket in words. */
  readonly unit: string;
  /** Between two marks on the time axis. */
  readonly tickSeconds: number;
}

const HOUR = 3_600;
const DAY = 86_400;

/** The choices, the shortest first. Buckets begin at whole multiples of their length, in UTC. */
export const RANGES: readonly Range[] = [
  { name: "1h", title: "1 h", buckets: 30, bucketSeconds: 120, unit: "2 min", tickSeconds: 900 },
  { name: "24h", title: "24 h", buckets: 24, bucketSeconds: HOUR, unit: "hour", tickSeconds: 3 * HOUR },
  { name: "7d", title: "7 d", buckets: 28, bucketSeconds: 6 * HOUR, unit: "6 h", tickSeconds: DAY },
  { name: "30d", title: "30 d", buckets: 30, bucketSeconds: DAY, unit: "day", tickSeconds: 5 * DAY },
];
const DEFAULT = RANGES[1] as Range;

/** The range that an address names; 24 h if it names none. */
export function parseRange(query: Readonly<Record<string, unknown>>): Range {
  const name = readField(query["range"]);
  return RANGES.find((range) => range.name === name) ?? DEFAULT;
}

/** Start of the first bucket, seconds since 1970; the last one has `nowSeconds` in it. */
export function startOf({ buckets, bucketSeconds }: Range, nowSeconds: number): number {
  return (Math.floor(nowSeconds / bucketSeconds) - buckets + 1) * bucketSeconds;
}
