import { floorTo, NANOS_PER_SECOND } from "../order/instant.ts";
import type { Instant } from "../order/instant.ts";
import { addSeen, NOTHING_SEEN } from "./seenKeys.ts";
import type { SeenKeys } from "./seenKeys.ts";
import { receiveTies, startTies } from "./ties.ts";
import type { TieReading } from "./ties.ts";
import { BOUND_GRANULE, halve, widen } from "./window.ts";
import type { Window } from "./window.ts";

/**
 * Reading all orders of a window page by page (spec, "GET /v1/orders"), as data: ask with `nextRequest`, answer with
 * `receivePage`, until there is an `outcome`.
 *
 * Orders leave the window while it is read, since an update gives them a new `updatedAt`; each one that leaves moves
 * those behind it one place down, past the seam between two pages. So offsets lose orders, and this walk uses them
 * only where nothing else is left:
 * - a page that is not full shows the whole window as it was at one instant: done;
 * - a full page that is sorted by `updatedAt`, in either direction: go on from its last timestamp, at offset 0;
 * - a full page that is not: cut the window in two until pages are not full;
 * - a full page within one timestamp: domain/window/ties.ts.
 * That pages look sorted does not prove that the whole is, so in the end one request asks for anything beyond the
 * number of orders read; if there is, the window is read again by cutting it.
 *
 * The window must lie in the provider's past by more than a second. Orders that appear in it only while it is being
 * read may be missed: later windows overlap it for them.
 */
export interface Walk {
  readonly window: Window;
  readonly limit: number;
  readonly pagesMax: number;
  /** `seek` goes on from the last timestamp of a sorted page; `cut` trusts nothing but pages that are not full. */
  readonly method: "seek" | "cut";
  readonly direction: Direction | undefined;
  /** Still to be done, the next one last. */
  readonly tasks: readonly Task[];
  /** The coarsest unit that every timestamp so far is a multiple of: how finely bounds may be set. */
  readonly granule: bigint;
  readonly seen: SeenKeys;
  /** Indexes of the rows of the last page that no earlier page of this walk had. */
  readonly fresh: readonly number[];
  readonly pages: number;
  readonly emptyPages: number;
  readonly proved: boolean;
  readonly outcome: WalkOutcome | undefined;
}

/**
 * - `read`: every order of the window was on a page. Not `proved` when more orders than fit on a page share one
 *   timestamp and come in another order each time, until the patience ran out;
 * - `too_large`: more than `pagesMax` pages; try a shorter window;
 * - `stalled`: the provider promises more and does not give it, or gives the same again and again.
 */
type WalkOutcome =
  | { readonly kind: "read"; readonly proved: boolean }
  | { readonly kind: "too_large" }
  | { readonly kind: "stalled" };

type Direction = "ascending" | "descending";

type Task =
  | { readonly kind: "range"; readonly range: Window }
  | { readonly kind: "ties"; readonly reading: TieReading }
  | { readonly kind: "confirm" };

export interface WalkRow {
  /** Names the order and this state of it: the same text for the same content. */
  readonly key: string;
  /** Undefined for an element that could not be read as an order. */
  readonly version: Instant | undefined;
}

export interface WalkPage {
  /** Every element as served, whether it can be read or not. */
  readonly rows: readonly WalkRow[];
  readonly hasMore: boolean;
  /** The limit that the provider says it used. */
  readonly limit: number;
}

/** What to ask for; the sense of the bounds (inclusive or exclusive) does not matter. */
export interface WalkRequest extends Window {
  readonly offset: number;
  readonly limit: number;
}

/** A contradiction (nothing on the page, but more to come) may be a passing fault. */
const EMPTY_PAGES_MAX = 3;
const GRANULES = [NANOS_PER_SECOND, 1_000_000n, 1_000n, 1n] as const;

export function startWalk(options: { window: Window; limit: number; pagesMax: number }): Walk {
  return {
    ...options,
    method: "seek",
    direction: undefined,
    tasks: [rangeTask(widen(options.window, BOUND_GRANULE))],
    granule: BOUND_GRANULE,
    seen: NOTHING_SEEN,
    fresh: [],
    pages: 0,
    emptyPages: 0,
    proved: true,
    outcome: undefined,
  };
}

/** The next page to ask for; undefined when the walk has its outcome. */
export function nextRequest(walk: Walk): WalkRequest | undefined {
  const task = walk.tasks.at(-1);
  if (walk.outcome !== undefined || task === undefined) return undefined;
  const { limit } = walk;
  if (task.kind === "range") return { ...task.range, offset: 0, limit };
  if (task.kind === "ties") return { ...task.reading.window, offset: task.reading.offset, limit };
  return { ...widen(walk.window, BOUND_GRANULE), offset: walk.seen.count, limit };
}

/** The walk after the page that answered `nextRequest(walk)`; `fresh` then says which of its rows are new. */
export function receivePage(walk: Walk, page: WalkPage): Walk {
  const task = walk.tasks.at(-1);
  if (task === undefined) throw new TypeError("the walk is over: it asked for no page");
  const keys = page.rows.map((row) => row.key);
  const { seen, fresh } = addSeen(walk.seen, keys);
  const noted = { ...walk, seen, fresh, pages: walk.pages + 1, granule: finest(walk.granule, page.rows) };
  const next = advance(noted, task, page);
  const outcome = next.outcome ?? settleOutcome(next);
  return outcome === undefined ? next : { ...next, tasks: [], outcome };
}

function settleOutcome(walk: Walk): WalkOutcome | undefined {
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
  // A provider may lower the limit, and one that says "no more" on a full page is asked once more.
  const full = page.hasMore || page.rows.length >= Math.min(page.limit, walk.limit);
  const patient = { ...walk, emptyPages: 0 };
  switch (task.kind) {
    case "range":
      return advanceRange(patient, task.range, { rows: page.rows, full });
    case "ties":
      return advanceTies(patient, task.reading, { rows: page.rows, full });
    case "confirm":
      return page.rows.length === 0 ? replaceTask(patient) : startOverByCutting(patient);
    default: {
      const never: never = task;
      return never;
    }
  }
}

interface Received {
  readonly rows: readonly WalkRow[];
  /** There may be orders behind this page. */
  readonly full: boolean;
}

function advanceRange(walk: Walk, range: Window, { rows, full }: Received): Walk {
  const shape = readShape(rows);
  if (walk.method === "seek" && contradicts(shape, walk.direction)) return startOverByCutting(walk);
  if (!full) return finishRange(walk);
  if (shape.kind === "tied") return readAround(walk, range, { at: shape.at, sides: "both" });
  if (walk.method === "seek" && (shape.kind === "ascending" || shape.kind === "descending")) {
    return seek(walk, range, shape);
  }
  const halves = halve(range, walk.granule);
  const parts = halves === undefined ? [tiesTask(range)] : [rangeTask(halves[1]), rangeTask(halves[0])];
  return replaceTask({ ...walk, method: "cut" }, ...parts);
}

function finishRange(walk: Walk): Walk {
  const last = walk.tasks.length === 1;
  // A window that came on one page is one snapshot, whatever its order.
  const confirms = last && walk.method === "seek" && walk.pages > 1 && walk.proved && walk.seen.complete;
  return confirms ? replaceTask(walk, { kind: "confirm" }) : replaceTask(walk);
}

function advanceTies(walk: Walk, reading: TieReading, { rows, full }: Received): Walk {
  const progress = receiveTies(reading, {
    keys: rows.map((row) => row.key),
    freshRows: walk.fresh.length,
    full,
    seenRows: walk.seen.complete ? walk.seen.count : undefined,
  });
  switch (progress.kind) {
    case "more":
      return replaceTask(walk, { kind: "ties", reading: progress.reading });
    case "read":
      return finishRange({ ...walk, proved: walk.proved && progress.proved });
    case "stalled":
      return { ...walk, outcome: { kind: "stalled" } };
    default: {
      const never: never = progress;
      return never;
    }
  }
}

/** Everything beyond the last timestamp is unread; of that timestamp itself a part may be, so it is read again. */
function seek(walk: Walk, range: Window, { kind, last }: { kind: Direction; last: Instant }): Walk {
  const { granule } = walk;
  const directed = { ...walk, direction: kind };
  const base = floorTo(last, granule);
  const rest =
    kind === "ascending"
      ? { since: base - granule, until: range.until }
      : { since: range.since, until: base + granule };
  const shorter = kind === "ascending" ? rest.since > range.since : rest.until < range.until;
  const sides = kind === "ascending" ? "after" : "before";
  if (!shorter) return readAround(directed, range, { at: base, sides });
  return rest.since < rest.until ? replaceTask(directed, rangeTask(rest)) : finishRange(directed);
}

/**
 * A page full of one timestamp: that timestamp by offsets, and apart from it what lies before and after.
 *
 * The ties take two granules on both sides, since neither side can be asked for right up to them: in one of the
 * senses of its bound the page would be full of the same orders again.
 */
function readAround(walk: Walk, range: Window, { at, sides }: { at: Instant; sides: Sides }): Walk {
  const { granule } = walk;
  const ties = clip({ since: at - 2n * granule, until: at + 2n * granule }, range);
  if (ties.since >= ties.until) return replaceTask(walk, tiesTask(range));
  const before = clip({ since: range.since, until: at - granule }, range);
  const after = clip({ since: at + granule, until: range.until }, range);
  const tasks = [tiesTask(ties)];
  if (sides !== "before" && after.since < after.until) tasks.unshift(rangeTask(after));
  if (sides !== "after" && before.since < before.until) tasks.unshift(rangeTask(before));
  return replaceTask(walk, ...tasks);
}

type Sides = "before" | "after" | "both";

function startOverByCutting(walk: Walk): Walk {
  const tasks = [rangeTask(widen(walk.window, BOUND_GRANULE))];
  return { ...walk, method: "cut", tasks, proved: true };
}

type Shape =
  | { readonly kind: Direction; readonly last: Instant }
  | { readonly kind: "tied"; readonly at: Instant }
  | { readonly kind: "unsorted" }
  /** No timestamp at all. */
  | { readonly kind: "unreadable" };

function readShape(rows: readonly WalkRow[]): Shape {
  const versions = rows.flatMap((row) => (row.version === undefined ? [] : [row.version]));
  const [first] = versions;
  const last = versions.at(-1);
  if (first === undefined || last === undefined) return { kind: "unreadable" };
  const ascends = versions.every((version, index) => version >= (versions[index - 1] ?? version));
  const descends = versions.every((version, index) => version <= (versions[index - 1] ?? version));
  if (ascends && descends) return { kind: "tied", at: first };
  if (ascends) return { kind: "ascending", last };
  return descends ? { kind: "descending", last } : { kind: "unsorted" };
}

/** A walk that went on from a sorted page cannot meet one sorted otherwise, unless the first was so by chance. */
function contradicts(shape: Shape, direction: Direction | undefined): boolean {
  if (direction === undefined || shape.kind === "tied" || shape.kind === "unreadable") return false;
  return shape.kind !== direction;
}

function finest(granule: bigint, rows: readonly WalkRow[]): bigint {
  const divides = (unit: bigint) =>
    rows.every(({ version }) => version === undefined || version % unit === 0n);
  return GRANULES.find((unit) => unit <= granule && divides(unit)) ?? 1n;
}

function replaceTask(walk: Walk, ...tasks: Task[]): Walk {
  return { ...walk, tasks: [...walk.tasks.slice(0, -1), ...tasks] };
}

function rangeTask(range: Window): Task {
  return { kind: "range", range };
}

function tiesTask(range: Window): Task {
  return { kind: "ties", reading: startTies(range) };
}

function clip(window: Window, within: Window): Window {
  const since = window.since > within.since ? window.since : within.since;
  const until = window.until < within.until ? window.until : within.until;
  return { since, until };
}
