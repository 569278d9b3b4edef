import { floorTo, type Instant } from "../order/instant.ts";
import { FIRST_SCAN, readDirection, receiveScan, type Scan, type WalkRow } from "./scan.ts";
import { addSeen, NOTHING_SEEN, type SeenKeys } from "./seenKeys.ts";
import { receiveTies, startTies, type TieReading } from "./ties.ts";
import { BOUND_GRANULE, cutAt, halve, widen, type Window } from "./window.ts";

/**
 * Reads all orders of a window page by page (spec, "GET /v1/orders"), as data: call `nextRequest`, pass the answer to
 * `receivePage`, until there is an `outcome`.
 *
 * Orders leave the window while it is read, because an update gives them a new `updatedAt`; each one that leaves shifts
 * the orders behind it one place, past the seam between two pages. Plain offsets would lose orders, so:
 * - a page that is not full shows the whole window at one instant: done;
 * - full pages sorted by `updatedAt`, in either direction: domain/window/scan.ts;
 * - if pages are not sorted or do not overlap: cut the window into ranges that fit on a page, the oldest first;
 * - a full page within one timestamp, or within two seconds: domain/window/ties.ts. Bounds are always whole seconds,
 *   because providers may truncate finer ones.
 *
 * Orders that enter the window while it is being read may be missed: later windows overlap it to find them. Only an
 * `open` window, which reaches beyond the provider's present, shows every order that was in it when its walk began: an
 * order that changes meanwhile moves on to its end, and is read there. So a list sorted newest first is cut as well:
 * down to the oldest page, and up again.
 */
export interface Walk {
  readonly window: Window;
  readonly limit: number;
  readonly pagesMax: number;
  /** The window has no end: orders move towards its end while it is read, so it must be read in that direction. */
  readonly open?: boolean | undefined;
  /** Remaining tasks, the next one last. */
  readonly tasks: readonly Task[];
  readonly seen: SeenKeys;
  /** The length of a range that has nearly a page of orders, by the last one read of an unsorted list. */
  readonly pageNanos: bigint | undefined;
  /** The greatest timestamp seen. */
  readonly newest: Instant;
  /** Indexes of the rows of the last page that are new in this walk. */
  readonly fresh: readonly number[];
  readonly pages: number;
  readonly emptyPages: number;
  readonly proved: boolean;
  readonly outcome: WalkOutcome | undefined;
}

/**
 * - `read`: every order of the window was on a page. Not `proved` when more orders than fit on a page lie within two
 *   seconds and come in another order each time, until the patience ran out;
 * - `too_large`: more than `pagesMax` pages; try a shorter window;
 * - `stalled`: the provider promises more and does not give it, or gives the same again and again.
 */
type WalkOutcome =
  | { readonly kind: "read"; readonly proved: boolean }
  | { readonly kind: "too_large" }
  | { readonly kind: "stalled" };

type Task =
  | ScanTask
  | { readonly kind: "range"; readonly range: Window }
  | { readonly kind: "ties"; readonly reading: TieReading };

interface ScanTask {
  readonly kind: "scan";
  readonly range: Window;
  readonly scan: Scan;
}

export interface WalkPage {
  /** Every element as served, readable or not. */
  readonly rows: readonly WalkRow[];
  readonly hasMore: boolean;
  readonly limit: number;
}

/** A request to send; whether the bounds are inclusive or exclusive does not matter. */
export interface WalkRequest extends Window {
  readonly offset: number;
  readonly limit: number;
}

/** A contradiction (an empty page with more to come) may be a passing fault. */
const EMPTY_PAGES_MAX = 3;

export function startWalk(options: {
  window: Window;
  limit: number;
  pagesMax: number;
  open?: boolean | undefined;
}): Walk {
  return {
    ...options,
    tasks: [scanTask(widen(options.window, BOUND_GRANULE))],
    seen: NOTHING_SEEN,
    pageNanos: undefined,
    newest: options.window.since,
    fresh: [],
    pages: 0,
    emptyPages: 0,
    proved: true,
    outcome: undefined,
  };
}

/** The next page to request; undefined if the walk has its outcome. */
export function nextRequest(walk: Walk): WalkRequest | undefined {
  const task = walk.tasks.at(-1);
  if (walk.outcome !== undefined || task === undefined) return undefined;
  const { limit } = walk;
  if (task.kind === "range") return { ...task.range, offset: 0, limit };
  if (task.kind === "ties") return { ...task.reading.window, offset: task.reading.offset, limit };
  return { ...task.range, offset: task.scan.offset, limit };
}

/** The walk with at most `limit` orders on its next pages; offsets stay what they are. */
export function limitTo(walk: Walk, limit: number): Walk {
  return walk.limit <= limit ? walk : { ...walk, limit };
}

/** The walk after the page that answered `nextRequest(walk)`; `fresh` then lists its new rows. */
export function receivePage(walk: Walk, page: WalkPage): Walk {
  const task = walk.tasks.at(-1);
  if (task === undefined) throw new TypeError("the walk is over: it requested no page");
  const keys = page.rows.map((row) => row.key);
  const { seen, fresh } = addSeen(walk.seen, keys);
  const newest = page.rows.reduce(
    (most, { version = most }) => (version > most ? version : most),
    walk.newest,
  );
  const next = advance({ ...walk, seen, fresh, newest, pages: walk.pages + 1 }, task, page);
  const outcome = next.outcome ?? concludeWalk(next);
  return outcome === undefined ? next : { ...next, tasks: [], outcome };
}

function concludeWalk(walk: Walk): WalkOutcome | undefined {
  if (walk.tasks.length === 0) return { kind: "read", proved: walk.proved };
  if (walk.pages >= walk.pagesMax) return { kind: "too_large" };
  return undefined;
}

function advance(walk: Walk, task: Task, page: WalkPage): Walk {
  if (page.rows.length === 0 && page.hasMore) {
    const emptyPages = walk.emptyPages + 1;
    const stalled = emptyPages >= EMPTY_PAGES_MAX;
    return { ...walk, emptyPages, outcome: stalled ? { kind: "stalled" } : undefined };
  }
  // A provider may lower the limit; if it says "no more" on a full page, it is asked once more.
  const full = page.hasMore || page.rows.length >= Math.min(page.limit, walk.limit);
  const patient = { ...walk, emptyPages: 0 };
  switch (task.kind) {
    case "scan":
      return advanceScan(patient, task, { rows: page.rows, full });
    case "range":
      return full ? cut(patient, task.range, page.rows) : fitNext(patient, task.range, page.rows.length);
    case "ties":
      return advanceTies(patient, task.reading, { rows: page.rows, full });
    default: {
      const never: never = task;
      return never;
    }
  }
}

interface Received {
  readonly rows: readonly WalkRow[];
  /** There may be orders after this page. */
  readonly full: boolean;
}

function advanceScan(walk: Walk, { range, scan }: ScanTask, { rows, full }: Received): Walk {
  const progress = receiveScan(scan, { rows, full, seenRows: countSeen(walk) });
  switch (progress.kind) {
    case "more":
      if (walk.open === true && progress.scan.direction === "descending") return cut(walk, range, rows);
      return replaceTask(walk, { kind: "scan", range, scan: progress.scan });
    case "read":
      return replaceTask(walk);
    case "lost":
      return cut(walk, range, rows);
    case "tied":
      return readAround(walk, range, progress.at);
    case "stalled":
      return { ...walk, outcome: { kind: "stalled" } };
    default: {
      const never: never = progress;
      return never;
    }
  }
}

function advanceTies(walk: Walk, reading: TieReading, { rows, full }: Received): Walk {
  const progress = receiveTies(reading, {
    keys: rows.map((row) => row.key),
    freshRows: walk.fresh.length,
    full,
    seenRows: countSeen(walk),
  });
  switch (progress.kind) {
    case "more":
      return replaceTask(walk, { kind: "ties", reading: progress.reading });
    case "read":
      return replaceTask({ ...walk, proved: walk.proved && progress.proved });
    case "stalled":
      return { ...walk, outcome: { kind: "stalled" } };
    default: {
      const never: never = progress;
      return never;
    }
  }
}

/**
 * Replaces a range with too many orders in one timestamp by that second and, separately, the parts before and after.
 * They overlap by a second; if bounds were exclusive on both sides, the orders at a bound would otherwise be in
 * neither.
 */
function readAround(walk: Walk, range: Window, at: Instant): Walk {
  const second = floorTo(at, BOUND_GRANULE);
  // Shown because of an inclusive bound: a range that ends there would show it again.
  if (second < range.since || second >= range.until) return cut(walk, range, []);
  const ties = clip(widen({ since: second, until: second + BOUND_GRANULE }, BOUND_GRANULE), range);
  const before = { since: range.since, until: second };
  const after = { since: second + BOUND_GRANULE, until: range.until };
  const around = [after, before].filter(({ since, until }) => since < until).map(scanTask);
  return replaceTask(walk, ...around, { kind: "ties", reading: startTies(ties) });
}

/**
 * The place where an unsorted range is cut, as a share of its page, which is a sample of it: two pages' worth take four
 * requests.
 */
const CUT_SHARE = 0.45;
/** The share of a page that a range is meant to fill. */
const PAGE_SHARE = 0.9;

/**
 * Replaces a range that does not fit on a page by two, the older one first, or by its ties if it is too short to cut.
 */
function cut(walk: Walk, range: Window, rows: readonly WalkRow[]): Walk {
  const versions = rows
    .flatMap(({ version }) => version ?? [])
    .toSorted((one, other) => (one < other ? -1 : 1));
  if (readDirection(rows, undefined) === "descending") {
    // The newest orders: all but those of the oldest second fit on a page, and what is older was not seen yet.
    const [older, newer] = cutAt(range, (versions[0] ?? 0n) + 2n * BOUND_GRANULE, BOUND_GRANULE) ?? [];
    if (older && newer) return replaceTask(walk, rangeTask(newer), rangeTask(older));
  }
  const sampled = versions[Math.floor(versions.length * CUT_SHARE)] ?? range.since;
  const parts = cutAt(range, sampled, BOUND_GRANULE) ?? halve(range, BOUND_GRANULE);
  if (parts === undefined) return replaceTask(walk, { kind: "ties", reading: startTies(range) });
  return cutNext(walk, parts);
}

/** Reads the first part next; the second one takes in the ranges behind it. */
function cutNext(walk: Walk, [first, second]: readonly [Window, Window]): Walk {
  const behind = walk.tasks.slice(0, -1);
  const last = behind.findLastIndex(({ kind }) => kind !== "range") + 1;
  const ranges = behind.slice(last).flatMap((task) => (task.kind === "range" ? [task.range.until] : []));
  const until = ranges.reduce((most, one) => (one > most ? one : most), second.until);
  const tasks = [...behind.slice(0, last), rangeTask({ ...second, until }), rangeTask(first)];
  return { ...walk, tasks, pageNanos: first.until - first.since };
}

/** Ends a range that fitted on a page, and cuts the next one to what will fit. */
function fitNext(walk: Walk, { since, until }: Window, rows: number): Walk {
  const ended = replaceTask(walk);
  const next = ended.tasks.at(-1);
  if (walk.pageNanos === undefined || next?.kind !== "range") return ended;
  const read = earlier(until, walk.newest) - since;
  const wanted = BigInt(Math.floor(walk.limit * PAGE_SHARE));
  const pageNanos = read > 0n ? (read * wanted) / BigInt(Math.max(1, rows)) : walk.pageNanos;
  const { range } = next;
  const isShort = earlier(range.until, walk.newest) - range.since <= pageNanos;
  const parts = isShort ? undefined : cutAt(range, range.since + pageNanos, BOUND_GRANULE);
  return parts === undefined ? { ...ended, pageNanos } : { ...cutNext(ended, parts), pageNanos };
}

const earlier = (one: Instant, other: Instant) => (one < other ? one : other);

const rangeTask = (range: Window): Task => ({ kind: "range", range });

function countSeen({ seen }: Walk): number | undefined {
  return seen.complete ? seen.count : undefined;
}

function scanTask(range: Window): Task {
  return { kind: "scan", range, scan: FIRST_SCAN };
}

function clip(window: Window, within: Window): Window {
  const since = window.since > within.since ? window.since : within.since;
  const until = window.until < within.until ? window.until : within.until;
  return { since, until };
}

function replaceTask(walk: Walk, ...tasks: Task[]): Walk {
  return { ...walk, tasks: [...walk.tasks.slice(0, -1), ...tasks] };
}
