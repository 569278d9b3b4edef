import type { Decision } from "../apply/applySubjects.ts";
import {
  addSeconds,
  floorTo,
  formatInstant,
  NANOS_PER_SECOND,
  type Instant,
} from "../domain/order/instant.ts";
import { gaps, PROOF_INTERVALS } from "../domain/window/coverage.ts";
import { BOUND_GRANULE, lastPart, provableUntil, type Window } from "../domain/window/window.ts";
import type { PollDeps } from "./pollDeps.ts";
import type { Job } from "./windows.ts";
import type { Term } from "./leadership.ts";
import {
  advanceRequest,
  noteRequestFailure,
  readOpenRequests,
  requestUnlisted,
  startRequest,
  type PeriodRequest,
} from "./periodRequests.sql.ts";
import { commitHead, readGaps, readKnownBefore, type Progress } from "./coverage.sql.ts";
import type { CycleState } from "./pollState.sql.ts";

/*
 * Two sweeps read the list, window by window:
 *
 *                history_since              safe_through    now - margin         now
 *                     │ proved                    │ to be proved  │ may be late   │
 *   proof sweep       ├───────────────────────────┼──────────────►│               │
 *   head sweep                                    └──────────────────── closing ──┼─► open end
 *                                                              short ─────────────┼─►
 *
 * The head sweep reads from the last head less a minute to now, for freshness. The proof sweep reads what is not proved
 * up to now less the margin: what is new, the history of a new source, what a breach withdrew. A walked window is a proof
 * only from the end of a head sweep that began after the walk and reaches back to the end of all that is walked without a
 * gap: an order that changed while its old window was being read has left that window, and is there.
 */

/** Makes up for the seconds between the request of the last head and its answer. */
const HEAD_OVERLAP_SECONDS = 60;
/** The longest window of the head sweep: after a day offline, catching up is committed hour by hour. */
const HEAD_SPAN_SECONDS = 3_600;
/** The head's last window ends so far ahead that no order moves beyond it while it is read. */
const OPEN_SECONDS = 3_600;
const DAY_SECONDS = 86_400;
const PERIOD_SPAN_MAX_SECONDS = 365 * DAY_SECONDS;
/** Each window costs a request or two more than its orders need, so those of the past should have many pages. */
const PAGES_WANTED = 12;
/** With the pace `request`: how long the head's first window is, and how full a page is before windows grow no more. */
const PAGE_SECONDS = 60;
const PAGE_SHARE = 0.4;
/** A shorter window cannot be cut any more. */
const SPAN_MIN_SECONDS = 2;
/** So far our bound of the provider's time may be behind it: as much as the clocks may differ. */
const CLOCKS_APART_SECONDS = 60;
/** A gap that could not be proved is skipped for this long, so that it does not block the others. */
const UNPROVED_REST_MS = 600_000;

/** A request that fails so often in a row ends: after five minutes at the default interval. */
const REQUEST_FAILURES_MAX = 10;
/** Where a claim is dated ahead of the present, only a read of the order tells. */
const AHEAD_SECONDS = 60;

/** What a sweep knows when it chooses a window. */
export interface SweepView {
  /** The provider's current time, a lower bound. */
  readonly providerNow: Instant;
  readonly nowMs: number;
  readonly state: CycleState;
}

/** How long the windows of a sweep may be: halved if they are too large, longer again if they are not. */
interface Span {
  seconds(): number;
  shorten(window: Window): void;
  /** For the next window, by what this one had. */
  fit(found: { requests: number; orders: number }): void;
}

/**
 * A page of a window overlaps the one before, and orders that leave meanwhile shift the seam. In half a minute so many
 * leave that pages hardly ever meet: with the pace `request` a window is to fit on one page, which has no seam.
 */
function makeSpan(
  { pace, client }: Pick<PollDeps, "pace" | "client">,
  { seconds: start, max }: { seconds: number; max: number },
): Span {
  let seconds = start;
  const limit = (length: number) => Math.min(max, Math.max(SPAN_MIN_SECONDS, Math.floor(length)));
  return {
    seconds: () => seconds,
    shorten: (window) => void (seconds = limit(Math.min(seconds, lengthOf(window)) / 2)),
    fit({ requests, orders }) {
      const share = orders / client.promises.pageRowsMax;
      const isSparse = pace === "cycle" ? requests < PAGES_WANTED : share < PAGE_SHARE;
      if (isSparse) seconds = limit(seconds * 2);
    },
  };
}

/** For windows of the past, which may be sparse. */
const makePastSpan = (deps: PollDeps): Span =>
  makeSpan(deps, { seconds: DAY_SECONDS, max: PERIOD_SPAN_MAX_SECONDS });

function lengthOf({ since, until }: Window): number {
  return Number((until - since) / NANOS_PER_SECOND);
}

export interface HeadSweep {
  /** The next window of the sweep that was begun; undefined after its last one. */
  next(view: SweepView, term: Term): Job | undefined;
  /**
   * Begins a sweep that reaches back to `reach`, if that is given, and closes what was walked before. One that was cut off
   * in this term goes on: nothing was walked since, and orders only move towards its end.
   */
  begin(view: SweepView, term: Term, closing: { closes: boolean; reach: Instant | undefined }): void;
  /** What the last commit brought. */
  progress(): Progress | undefined;
}

export function makeHeadSweep({
  source: { sourceId },
  client,
  pace,
  intervalSeconds,
}: Pick<PollDeps, "source" | "client" | "pace" | "intervalSeconds">): HeadSweep {
  const seconds = pace === "request" ? PAGE_SECONDS : HEAD_SPAN_SECONDS;
  const span = makeSpan({ client, pace }, { seconds, max: HEAD_SPAN_SECONDS });
  let sweep:
    | { readonly term: Term; readonly since: Instant; readonly closes: boolean; readonly from: Instant }
    | undefined;
  let progress: Progress | undefined;

  return {
    progress: () => progress,
    begin({ providerNow, state: { polledThrough } }, term, { closes, reach }) {
      if (sweep?.term === term && sweep.closes === closes) return;
      const last = polledThrough < providerNow ? polledThrough : providerNow;
      const fresh = floorTo(addSeconds(last, -HEAD_OVERLAP_SECONDS), BOUND_GRANULE);
      const since = reach !== undefined && reach < fresh ? reach : fresh;
      sweep = { term, since, closes, from: since };
    },
    next({ providerNow }, { lease }) {
      if (sweep === undefined) return undefined;
      const { since, closes, from } = sweep;
      const end = floorTo(addSeconds(from, span.seconds()), BOUND_GRANULE);
      const now = floorTo(providerNow, BOUND_GRANULE);
      // By the time it is read.
      const present = addSeconds(now, pace === "request" ? intervalSeconds : 0);
      const isLast = end >= present || from >= now;
      const until = isLast ? addSeconds(now, OPEN_SECONDS) : end < now ? end : now;
      const window = { since: from, until };
      const read = { since: from, until: isLast ? present : until };
      const openUntil = addSeconds(until, -CLOCKS_APART_SECONDS);
      return {
        window,
        sweep: "head",
        via: "poll",
        open: isLast,
        proves: false,
        async commit(database, { reading }) {
          const cursor = isLast ? floorTo(reading.begunAt ?? from, BOUND_GRANULE) : until;
          const { providerClock } = client;
          // By a clock that is behind, its end may not be open.
          const isOpen =
            providerClock.disagreementSeconds() === null && providerClock.providerNow() < openUntil;
          const isWhole = reading.walk.proved && isOpen;
          const head = { sourceId, since, cursor, closes: closes && isLast && isWhole };
          progress = await commitHead(database, lease, head);
        },
        noteRead(found) {
          span.fit(found);
          sweep = isLast || sweep === undefined ? undefined : { ...sweep, from: until };
        },
        shorten: () => span.shorten(read),
      };
    },
  };
}

/** Chooses what is to be proved next. */
export interface ProofSweep {
  next(view: SweepView, term: Term): Promise<Job | undefined>;
}

/** What is not proved: its newest part first, or its oldest while the provider's list is in doubt. */
export function makeProofSweep(deps: PollDeps): ProofSweep {
  const { client, pool, intervalSeconds, marginSeconds } = deps;
  const { sourceId } = deps.source;
  const span = makePastSpan(deps);
  let unproved: { window: Window; untilMs: number }[] = [];

  async function chooseGap({ providerNow, nowMs, state }: SweepView): Promise<Window | undefined> {
    const { historySince, safeThrough, isListDoubted } = state;
    const within = { since: safeThrough ?? historySince, until: provableUntil(providerNow, marginSeconds) };
    const newest = addSeconds(within.until, -PROOF_INTERVALS * intervalSeconds);
    // The history of a new source may be as short as it likes.
    const isLongEnough = ({ since }: Window) =>
      since <= newest || (safeThrough === undefined && since === historySince);
    if (within.since >= within.until || !isLongEnough(within)) return undefined;
    unproved = unproved.filter(({ untilMs }) => untilMs > nowMs);
    const resting = unproved.map(({ window }) => window);
    const query = { sourceId, within, limit: resting.length + 2, withoutWalked: true };
    const found = await readGaps(pool, { ...query, newestFirst: !isListDoubted });
    const left = found.flatMap((one) => gaps(one, resting)).filter(isLongEnough);
    if (isListDoubted) return left[0];
    // What borders on the present grows all the time: at a slow pace it would take every turn.
    const past = left.filter(({ until }) => until < within.until).toSorted(newestFirst);
    return past[0] ?? left[0];
  }

  /** What borders on the proved part begins within it: so a change that was later than the margin is found. */
  async function reachBack(window: Window, { historySince, safeThrough }: CycleState): Promise<Window> {
    if (window.since !== safeThrough) return window;
    const known = await readKnownBefore(pool, { sourceId, before: window.since });
    const late = addSeconds(window.since, -marginSeconds);
    const since = known !== undefined && known < late ? floorTo(known, BOUND_GRANULE) : late;
    return { since: since > historySince ? since : historySince, until: window.until };
  }

  return {
    async next(view) {
      // Nothing is proved while the clocks differ.
      if (client.providerClock.disagreementSeconds() !== null) return undefined;
      const gap = await chooseGap(view);
      if (gap === undefined) return undefined;
      const window = await reachBack(lastPart(gap, span.seconds()), view.state);
      const isPast = gap.until < provableUntil(view.providerNow, marginSeconds);
      return {
        window,
        sweep: "proof",
        via: view.state.safeThrough === undefined || isPast ? "backfill" : "poll",
        proves: true,
        noteRead({ whole, nowMs, ...found }) {
          if (!whole) unproved.push({ window, untilMs: nowMs + UNPROVED_REST_MS });
          span.fit(found);
          const [since, until] = [formatInstant(window.since), formatInstant(window.until)];
          if (isPast) deps.logger.info({ since, until }, "read a part of the history");
        },
        shorten: () => span.shorten(window),
      };
    },
  };
}

function newestFirst(left: Window, right: Window): number {
  return left.since < right.since ? 1 : -1;
}

/** The periods requested by people, newest part first: a request that fails gives way to the others. */
export function makePeriodSweep(deps: PollDeps): ProofSweep {
  const { pool, source } = deps;
  const span = makePastSpan(deps);
  return {
    async next(view, term) {
      if (!view.state.hasRequests || view.state.isListDoubted) return undefined;
      for (const request of await readOpenRequests(pool, source.sourceId)) {
        const left = await startPart(deps, { request, view, term });
        if (left === undefined) continue;
        const window = lastPart(left, span.seconds());
        return makeRequestJob(deps, { request, window, span, present: view.providerNow, term });
      }
      return undefined;
    },
  };
}

/** The next part of a request; undefined if it cannot be read now. */
async function startPart(
  { pool, marginSeconds }: PollDeps,
  { request, view, term }: { request: PeriodRequest; view: SweepView; term: Term },
): Promise<Window | undefined> {
  const { requestId, since, state } = request;
  const { providerNow } = view;
  const { lease } = term;
  if (state === "running") return { since, until: request.readDownTo };
  if (since > providerNow) {
    const error = "The period lies in the provider's future.";
    await noteRequestFailure(pool, lease, { requestId, error, failuresMax: 0 });
    return undefined;
  }
  const provable = provableUntil(providerNow, marginSeconds);
  const until = request.until < provable ? request.until : provable;
  // Too recent for a final read, or to join the history of a new source; a margin later it will not be.
  const { historySince } = view.state;
  if (until <= since || (until < historySince && request.until > historySince)) return undefined;
  await startRequest(pool, lease, { requestId, until });
  return { since, until };
}

function makeRequestJob(
  deps: PollDeps,
  part: { request: PeriodRequest; window: Window; span: Span; present: Instant; term: Term },
): Job {
  const { request, window, span } = part;
  const { requestId, kind } = request;
  const { lease } = part.term;
  const { sourceId } = deps.source;
  const isVerification = kind === "verification";
  const sweep = isVerification ? "verify" : "backfill";
  return {
    window,
    sweep,
    via: sweep,
    proves: true,
    async commit(database, { reading, decisions, proved }) {
      const { listed, orders, walk } = reading;
      const references = decisions.filter(differed).flatMap(({ reference }) => reference ?? []);
      const read = { requests: walk.pages, orders, references };
      await advanceRequest(database, lease, { requestId, readDownTo: window.since, proved, ...read });
      if (!isVerification || listed === null) return;
      const present = addSeconds(part.present, AHEAD_SECONDS);
      await requestUnlisted(database, { sourceId, requestId, window, listed, present });
      if (references.length === 0) return;
      const sentence = "the mirror differed from the provider; it was repaired";
      deps.logger.warn({ orders: references.length }, sentence);
    },
    noteFailure: (error) =>
      noteRequestFailure(deps.pool, lease, { requestId, error, failuresMax: REQUEST_FAILURES_MAX }),
    noteRead: (found) => span.fit(found),
    shorten: () => span.shorten(window),
  };
}

/** The mirror did not have what the provider shows; it may still not, where the key of the order did not allow the repair. */
function differed({ verdict, conflict, version, storedVersion }: Decision): boolean {
  const isBehind = version !== null && storedVersion !== null && storedVersion < version;
  return verdict === "applied" || verdict === "corrected" || conflict || isBehind;
}
