import { floorTo } from "../../domain/order/instant.ts";
import { BOUND_GRANULE, lastPart } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { WalkTooLargeError } from "../cycle/errors.ts";
import { makePeriodSpan } from "../cycle/span.ts";
import type { Term } from "../leader/leadership.ts";
import {
  advanceRequest,
  noteRequestFailure,
  readOpenRequest,
  startRequest,
} from "../ledger/periodRequests.sql.ts";
import type { Findings, PeriodRequest, RequestKind } from "../ledger/periodRequests.sql.ts";
import { provableUntil } from "./sweeps.ts";
import type { Sweep, SweepView, WindowResult } from "./sweeps.ts";

/** About eight minutes with the pauses between them. */
const FAILURES_MAX = 10;

type PeriodDeps = Pick<PollDeps, "source" | "pool" | "settleSeconds" | "overlapSeconds">;

/** The periods requested by people, newest part first, in addition to everything else. */
export function makeRequestedSweep(deps: PeriodDeps): Sweep {
  const { span, next, resume, advance, noteFailure } = makeRequestedPeriod(deps, "backfill");
  return {
    name: "requested",
    via: "backfill",
    priority: "backfill",
    movesCursor: false,
    proves: true,
    span,
    next,
    resume,
    noteRead: (window, result) => advance(window, result),
    noteFailure,
  };
}

/** Processes the requested periods of one kind: oldest request first, and its newest part first. */
export function makeRequestedPeriod(deps: PeriodDeps, kind: RequestKind) {
  const { pool } = deps;
  const { sourceId } = deps.source;
  const span = makePeriodSpan();
  let current: PeriodRequest | undefined;
  const readOpen = () => readOpenRequest(pool, { sourceId, kind, sampled: false });

  async function next(
    { providerNow, openRequests }: SweepView,
    { lease }: Term,
  ): Promise<Window | undefined> {
    current = openRequests.includes(kind) ? await readOpen() : undefined;
    if (current === undefined) return undefined;
    const { requestId, since, state } = current;
    let until = current.readDownTo;
    if (state === "requested") {
      const provable = floorTo(provableUntil(providerNow, deps), BOUND_GRANULE);
      until = current.until < provable ? current.until : provable;
      // Too recent for a final read; in a minute it will not be.
      if (until <= since) return (current = undefined);
      await startRequest(pool, lease, { requestId, until });
    }
    return lastPart({ since, until }, span.seconds());
  }

  /** Whether `window` is the next part of the current request. */
  async function resume(window: Window): Promise<boolean> {
    current = await readOpen();
    if (current?.state !== "running") return false;
    return window.until === current.readDownTo && window.since >= current.since;
  }

  async function advance(
    window: Window,
    { proved, requests, orders, term }: WindowResult,
    found?: { findings: Findings; references: readonly string[] },
  ): Promise<void> {
    if (current === undefined) return;
    const { requestId, since } = current;
    const counts = { proved, requests, orders, done: window.since <= since, ...found };
    await advanceRequest(pool, term.lease, { sourceId, requestId, readDownTo: window.since, ...counts });
    span.fit(requests);
  }

  async function noteFailure(error: unknown, { lease }: Term): Promise<void> {
    if (current === undefined || error instanceof WalkTooLargeError) return;
    const failure = { requestId: current.requestId, error: describeMessage(error) };
    await noteRequestFailure(pool, lease, { ...failure, failuresMax: FAILURES_MAX });
  }

  /** `current`: the request of the window under way. */
  return { span, current: () => current, next, resume, advance, noteFailure };
}
