import { addSeen, NOTHING_SEEN, type SeenKeys } from "./seenKeys.ts";
import type { Window } from "./window.ts";

/**
 * Reads orders whose timestamps are so close that no bound can separate them and that do not fit on a page.
 *
 * Only offsets are left then. Each page starts some rows before the end of the previous one and must begin with rows
 * already read, in the same order (the anchor): so a row that left the window cannot have moved an unread one past the
 * seam. If rows of one timestamp change their order each time, no anchor holds; then the rows are read again until the
 * readings agree or the rows have been counted.
 */
export interface TieReading {
  readonly window: Window;
  readonly offset: number;
  /** The position after the last row of the contiguous pages. */
  readonly end: number;
  /** Keys of the last of those pages. */
  readonly tail: readonly string[];
  readonly stepBack: number;
  /** False once an anchor was missing: the order of the rows changes from one request to the next. */
  readonly anchored: boolean;
  readonly pass: number;
  readonly passFreshRows: number;
  readonly census: Census | undefined;
}

/**
 * A count from the end of the rows: how many there were at that instant. In a past window rows only leave, so once that
 * many different rows have been seen since, all have been seen.
 */
interface Census {
  readonly total: number;
  readonly seen: SeenKeys;
}

/** Rows that a page shares with the previous one; doubled while no anchor is found. */
const STEP_BACK_ROWS = 20;
/** With rows in random order each pass leaves a fifth unseen: after 24 passes practically none is left. */
const PASSES_MAX = 24;
/** Served rows per different row; beyond it the provider is repeating itself. */
const REPEATS_MAX = 3;

export interface TiePage {
  readonly keys: readonly string[];
  /** Number of them that are new in this walk. */
  readonly freshRows: number;
  /** There may be rows after this page. */
  readonly full: boolean;
  /** The number of different rows seen in this walk; undefined if it has lost count. */
  readonly seenRows: number | undefined;
}

export type TieProgress =
  | { readonly kind: "more"; readonly reading: TieReading }
  /** `proved` is false if the passes were used up before the rows agreed. */
  | { readonly kind: "read"; readonly proved: boolean }
  | { readonly kind: "stalled" };

export function startTies(window: Window): TieReading {
  return { ...firstPage, window, anchored: true, pass: 1, passFreshRows: 0, census: undefined };
}

const firstPage = { offset: 0, end: 0, tail: [], stepBack: STEP_BACK_ROWS } as const;

export function receiveTies(reading: TieReading, page: TiePage): TieProgress {
  const { keys, freshRows, full, seenRows } = page;
  const census = reading.census && {
    total: reading.census.total,
    seen: addSeen(reading.census.seen, keys).seen,
  };
  const noted = { ...reading, census, passFreshRows: reading.passFreshRows + freshRows };
  const anchored = reading.anchored && (reading.offset === 0 || holdsAnchor(reading.tail, keys));
  if (reading.anchored && !anchored) {
    const further = stepFurtherBack(noted);
    if (further) return { kind: "more", reading: further };
  }
  const end = reading.offset + keys.length;
  const chained = { ...noted, anchored, end, tail: keys, stepBack: STEP_BACK_ROWS };
  if (!full) return endPass(chained, seenRows !== undefined);
  if (seenRows !== undefined && end > REPEATS_MAX * (seenRows + keys.length)) return { kind: "stalled" };
  const stepBack = Math.min(STEP_BACK_ROWS, Math.floor(keys.length / 2));
  return { kind: "more", reading: { ...chained, offset: end - stepBack, stepBack } };
}

/** Asks for the page again, sharing twice as many rows; undefined if it already shares all but one. */
function stepFurtherBack(reading: TieReading): TieReading | undefined {
  const stepBackMax = reading.tail.length - 1;
  if (reading.stepBack >= stepBackMax) return undefined;
  const stepBack = Math.min(reading.stepBack * 2, stepBackMax);
  return { ...reading, stepBack, offset: reading.end - stepBack };
}

/**
 * True if `keys` begins inside `tail` and continues in its order until unread rows begin. Some rows of the tail may
 * have left the window since, but not most: two rows in the same order prove little.
 */
function holdsAnchor(tail: readonly string[], keys: readonly string[]): boolean {
  const places = new Map(tail.map((key, index) => [key, index]));
  const start = places.get(keys[0] ?? "");
  if (start === undefined) return false;
  let last = start - 1;
  let shared = 0;
  for (const key of keys) {
    const place = places.get(key);
    if (place === undefined) continue;
    const unreadBefore = keys[shared] !== key;
    if (place <= last || unreadBefore) return false;
    last = place;
    shared += 1;
  }
  return shared * 2 >= tail.length - start;
}

function endPass(reading: TieReading, countable: boolean): TieProgress {
  const { census, end, pass, passFreshRows, anchored, tail } = reading;
  // If there are more than the census counted, some arrived since, and the count is useless.
  const counted = census !== undefined && census.seen.complete && census.seen.count === census.total;
  // If there are too many to remember, one pass with every anchor in place must suffice.
  const agreed = anchored && (!countable || (pass > 1 && passFreshRows === 0));
  if (counted || agreed) return { kind: "read", proved: true };
  if (pass >= PASSES_MAX) return { kind: "read", proved: false };
  const nextCensus = census?.total === end ? census : { total: end, seen: addSeen(NOTHING_SEEN, tail).seen };
  const next = { ...reading, ...firstPage, pass: pass + 1, passFreshRows: 0, census: nextCensus };
  return { kind: "more", reading: next };
}
