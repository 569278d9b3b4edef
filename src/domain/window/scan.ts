import type { Instant } from "../order/instant.ts";

/**
 * Reads a list that is sorted by `updatedAt`, in either direction, with offsets and overlapping pages.
 *
 * Rows leave the window while it is read, which shifts the rows behind them one place. So each page begins some rows
 * before the end of the previous one and must begin with rows already read: then no unread row can have moved before
 * it. That holds for any list whose order stays the same, even one that only looks sorted, as a list by creation mostly
 * does: the misplaced row is read eventually and shows that the list is not sorted.
 *
 * Bounds are never moved, so their precision at the provider does not matter. Rows of one timestamp may change their
 * order with each request: those of a page's last timestamp are read again with the next page.
 */
export interface Scan {
  readonly offset: number;
  /** The position after the last row of the contiguous pages. */
  readonly end: number;
  /** The last of those pages. */
  readonly tail: readonly WalkRow[];
  readonly stepBack: number;
  readonly direction: Direction | undefined;
}

export interface WalkRow {
  /** Identifies the order in this state: the same text for the same content. */
  readonly key: string;
  /** Undefined for an element that could not be read as an order. */
  readonly version: Instant | undefined;
}

type Direction = "ascending" | "descending";

export interface ScanPage {
  readonly rows: readonly WalkRow[];
  /** There may be rows after this page. */
  readonly full: boolean;
  /** The number of different rows seen in this walk; undefined if it has lost count. */
  readonly seenRows: number | undefined;
}

export type ScanProgress =
  | { readonly kind: "more"; readonly scan: Scan }
  | { readonly kind: "read" }
  /** The list is not sorted, or pages do not overlap: offsets prove nothing here. */
  | { readonly kind: "lost" }
  /** Nearly a page of rows, or more, share this timestamp, so the next page cannot begin before it. */
  | { readonly kind: "tied"; readonly at: Instant }
  /** The provider serves the same rows again and again. */
  | { readonly kind: "stalled" };

/** Rows that a page shares with the previous one (a quarter of a short page); doubled while pages do not overlap. */
const STEP_BACK_ROWS = 10;
/** Share of a page; beyond it there would be hardly any progress. */
const STEP_BACK_MAX = 0.75;
/** Served rows per different row; beyond it the provider is repeating itself. */
const REPEATS_MAX = 3;

export const FIRST_SCAN: Scan = {
  offset: 0,
  end: 0,
  tail: [],
  stepBack: 0,
  direction: undefined,
};

export function receiveScan(scan: Scan, { rows, full, seenRows }: ScanPage): ScanProgress {
  // One page with the whole window is a snapshot of it, in any order.
  if (scan.offset === 0 && !full) return { kind: "read" };
  const direction = readDirection(rows, scan.direction);
  if (direction === "unsorted") return { kind: "lost" };
  if (scan.offset > 0 && !overlapsPreviousPage(scan, rows)) return stepFurtherBack(scan);
  if (!full) return { kind: "read" };
  const end = scan.offset + rows.length;
  if (seenRows !== undefined && end > REPEATS_MAX * Math.max(seenRows, rows.length))
    return { kind: "stalled" };
  const last = lastVersion(rows);
  if (last === undefined) return { kind: "lost" };
  const stepBack = chooseStepBack(scan, rows, last);
  if (stepBack === undefined) return { kind: "tied", at: last };
  return { kind: "more", scan: { offset: end - stepBack, end, tail: rows, stepBack, direction } };
}

/** The direction of the list, if known; undefined while all rows share one timestamp. */
export function readDirection(
  rows: readonly WalkRow[],
  known: Direction | undefined,
): Direction | "unsorted" | undefined {
  const versions = rows.flatMap(({ version }) => (version === undefined ? [] : [version]));
  const ascends = versions.every((version, index) => version >= (versions[index - 1] ?? version));
  const descends = versions.every((version, index) => version <= (versions[index - 1] ?? version));
  if (ascends && descends) return known;
  if (!ascends && !descends) return "unsorted";
  const direction = ascends ? "ascending" : "descending";
  return known === undefined || known === direction ? direction : "unsorted";
}

/**
 * True if `rows` begin with rows of the tail from before its last timestamp, and with no others. Some rows of the tail
 * may have left the window since, but not most: a few common rows prove little. For the first timestamp the expected
 * number is unknown, because its rows may change their order.
 */
function overlapsPreviousPage({ tail, direction }: Scan, rows: readonly WalkRow[]): boolean {
  const last = lastVersion(tail);
  const first = rows.find(({ version }) => version !== undefined)?.version;
  if (last === undefined || first === undefined) return false;
  const precedes = (left: Instant, right: Instant) =>
    direction === "ascending" ? left < right : left > right;
  const end = rows.findIndex(({ version }) => version !== undefined && !precedes(version, last));
  const shared = end === -1 ? rows : rows.slice(0, end);
  const keys = new Set(tail.map(({ key }) => key));
  if (!precedes(first, last) || !shared.every(({ key }) => keys.has(key))) return false;
  const countBetween = (some: readonly WalkRow[]) =>
    some.filter(({ version }) => version !== undefined && precedes(first, version) && precedes(version, last))
      .length;
  return countBetween(shared) * 2 >= countBetween(tail);
}

/** Asks for the page again, sharing twice as many rows. */
function stepFurtherBack(scan: Scan): ScanProgress {
  const most = Math.floor(scan.tail.length * STEP_BACK_MAX);
  if (scan.stepBack >= most) return { kind: "lost" };
  const stepBack = Math.min(scan.stepBack * 2, most);
  return { kind: "more", scan: { ...scan, stepBack, offset: scan.end - stepBack } };
}

/** Far enough that the next page begins before the last timestamp; undefined if that leaves no progress. */
function chooseStepBack({ stepBack }: Scan, rows: readonly WalkRow[], last: Instant): number | undefined {
  const least = Math.min(STEP_BACK_ROWS, Math.floor(rows.length / 4));
  const before = rows.findLastIndex(({ version }) => version !== undefined && version !== last);
  const tied = rows.length - 1 - before;
  // A doubled step will be needed again, because rows keep leaving at the same rate.
  const chosen = Math.max(least, Math.floor(stepBack / 2), tied + Math.max(1, Math.ceil(least / 2)));
  const most = Math.floor(rows.length * STEP_BACK_MAX);
  return chosen <= most ? chosen : tied < most ? most : undefined;
}

function lastVersion(rows: readonly WalkRow[]): Instant | undefined {
  return rows.findLast(({ version }) => version !== undefined)?.version;
}
