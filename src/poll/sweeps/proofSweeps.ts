import { addSeconds, floorTo, formatInstant, type Instant } from "../../domain/order/instant.ts";
import {
  BOUND_GRANULE,
  lastPart,
  PROOF_INTERVALS,
  provableUntil,
  type Window,
} from "../../domain/window/window.ts";
import { readGaps, readKnownBefore, recordWalked } from "../coverage.sql.ts";
import type { Term } from "../leadership.ts";
import {
  advanceRequest,
  noteRequestFailure,
  readOpenRequests,
  requestUnlisted,
  startRequest,
  type PeriodRequest,
} from "../periodRequests.sql.ts";
import type { PollDeps } from "../pollDeps.ts";
import type { CycleState } from "../pollState.sql.ts";
import { makePastSpan, makeRest, type Sweep, type SweepView } from "./sweep.ts";
import type { WindowRead } from "./windows.ts";

/** A request that fails so often in a row ends: after five minutes at the default interval. */
const REQUEST_FAILURES_MAX = 10;
/** Claims that are dated further ahead of the present are in no list: only a read of the order tells. */
const AHEAD_SECONDS = 60;

/** Records a window as walked if it may be a proof: all of it was read, late enough, by clocks that agree. */
async function recordProof(
  { source: { sourceId }, pool, client, marginSeconds }: PollDeps,
  { lease }: Term,
  { sweep, read }: { sweep: string; read: WindowRead },
): Promise<boolean> {
  const { window, begunAt, whole } = read;
  const isLate = begunAt >= addSeconds(window.until, marginSeconds);
  if (!whole || !isLate || client.providerClock.disagreementSeconds() !== null) return false;
  await recordWalked(pool, lease, { sourceId, sweep, read });
  return true;
}

/**
 * Makes the sweep of what is not proved: its newest part first, or its oldest while the provider's list is in doubt.
 */
export function makeProofSweep(deps: PollDeps): Sweep {
  const { client, clock, logger, pool, intervalSeconds, marginSeconds } = deps;
  const { sourceId } = deps.source;
  const span = makePastSpan(deps);
  const rest = makeRest();

  async function chooseGap({ providerNow, nowMs, state }: SweepView): Promise<Window | undefined> {
    const { historySince, safeThrough, isListDoubted } = state;
    const within = { since: safeThrough ?? historySince, until: provableUntil(providerNow, marginSeconds) };
    const newest = addSeconds(within.until, -PROOF_INTERVALS * intervalSeconds);
    // The history of a new source may be as short as it likes.
    const isLongEnough = ({ since }: Window) =>
      since <= newest || (safeThrough === null && since === historySince);
    if (within.since >= within.until || !isLongEnough(within)) return undefined;
    const resting = rest.windows(nowMs);
    const query = { sourceId, within, limit: resting.length + 2, resting };
    const left = (await readGaps(pool, { ...query, newestFirst: !isListDoubted })).filter(isLongEnough);
    if (isListDoubted) return left[0];
    // What borders on the present grows all the time: at a slow pace it would starve older gaps.
    const past = left.filter(({ until }) => until < within.until).toSorted(newestFirst);
    return past[0] ?? left[0];
  }

  /**
   * Lets a window that borders on the proved part begin within it: so a change that was later than the margin is found.
   */
  async function reachBack(window: Window, { historySince, safeThrough }: CycleState): Promise<Window> {
    if (window.since !== safeThrough) return window;
    const known = await readKnownBefore(pool, { sourceId, before: window.since });
    const late = addSeconds(window.since, -marginSeconds);
    const since = known !== undefined && known < late ? floorTo(known, BOUND_GRANULE) : late;
    return { since: since > historySince ? since : historySince, until: window.until };
  }

  return {
    async next(view, term) {
      // Nothing is proved while the clocks differ.
      if (client.providerClock.disagreementSeconds() !== null) return undefined;
      const gap = await chooseGap(view);
      if (gap === undefined) return undefined;
      const window = await reachBack(lastPart(gap, span.seconds()), view.state);
      const isPast = gap.until < provableUntil(view.providerNow, marginSeconds);
      return {
        window,
        via: view.state.safeThrough === null || isPast ? "backfill" : "poll",
        async record(read) {
          const isProof = await recordProof(deps, term, { sweep: "proof", read });
          if (!isProof) rest.add(window, clock.monotonicMs());
          span.fit(read);
          const [since, until] = [formatInstant(window.since), formatInstant(window.until)];
          if (isPast) logger.info({ since, until }, "read a part of the history");
          return { isProof };
        },
      };
    },
    span,
    rest,
  };
}

function newestFirst(left: Window, right: Window): number {
  return left.since < right.since ? 1 : -1;
}

/** Makes the sweep of the periods requested by people, newest part first: one that fails gives way to the others. */
export function makePeriodSweep(deps: PollDeps): Sweep {
  const { pool, source } = deps;
  const span = makePastSpan(deps);
  return {
    span,
    async next(view, term) {
      if (!view.state.hasRequests || view.state.isListDoubted) return undefined;
      for (const request of await readOpenRequests(pool, source.sourceId)) {
        const left = await startPart(deps, { request, view, term });
        if (left === undefined) continue;
        const { requestId } = request;
        const window = lastPart(left, span.seconds());
        const via = request.kind === "verification" ? "verify" : "backfill";
        return {
          window,
          via,
          async record(read) {
            const isProof = await recordPart(deps, { request, read, present: view.providerNow, term });
            span.fit(read);
            return { isProof };
          },
          // It leaves out nothing: a request that fails often ends.
          noteFailure: (error) =>
            noteRequestFailure(pool, term.lease, { requestId, error, failuresMax: REQUEST_FAILURES_MAX }),
        };
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

/** Records a part of a request; its progress last, so that the part is read again if that fails. */
async function recordPart(
  deps: PollDeps,
  part: { request: PeriodRequest; read: WindowRead; present: Instant; term: Term },
): Promise<boolean> {
  const { request, read, term } = part;
  const { pool, logger, source } = deps;
  const { requestId, kind } = request;
  const { window, listed, differed } = read;
  const isVerification = kind === "verification";
  const proved = await recordProof(deps, term, { sweep: isVerification ? "verify" : "backfill", read });
  if (isVerification && listed !== null) {
    const present = addSeconds(part.present, AHEAD_SECONDS);
    await requestUnlisted(pool, { sourceId: source.sourceId, requestId, window, listed, present });
  }
  await advanceRequest(pool, term.lease, { requestId, read, proved });
  if (isVerification && differed.length > 0)
    logger.warn({ orders: differed.length }, "the mirror differed from the provider; it was repaired");
  return proved;
}
