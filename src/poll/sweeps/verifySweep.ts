import type { Instant } from "../../domain/order/instant.ts";
import { lastPart } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Lease } from "../../database/leases.sql.ts";
import {
  advanceVerification,
  noteVerificationFailure,
  readOpenVerification,
  readUnlisted,
  startVerification,
} from "../ledger/verifications.sql.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import { addDifference, compareOrders, findDifferences, NO_DIFFERENCE } from "./compareOrder.ts";
import type { Difference } from "./compareOrder.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import { WalkTooLargeError } from "../cycle/errors.ts";
import { makePeriodSpan } from "../cycle/span.ts";
import { lateSeconds, provableUntil } from "./sweeps.ts";
import type { Sweep } from "./sweeps.ts";

const FAILURES_MAX = 10;
/** Orders of the mirror that a window did not list, and that are read one by one to know why. */
const UNLISTED_MAX = 200;

interface Comparison {
  readonly verificationId: bigint;
  readonly since: Instant;
  /** False: only says what differs. */
  readonly repairs: boolean;
  /** Changes from here on may not have been polled yet. */
  readonly knownBefore: Instant;
  /** References on the pages of the window under way. */
  readonly listed: Set<string>;
  difference: Difference;
}

/** Periods that are to be compared with the provider, newest part first, from what nothing else needs. */
export function makeVerifySweep(deps: PollDeps): Sweep {
  const { pool, logger } = deps;
  const span = makePeriodSpan();
  let comparison: Comparison | undefined;

  return {
    name: "verify",
    via: "verify",
    priority: "verify",
    movesCursor: false,
    get provesAfterSeconds() {
      // What writes nothing proves nothing.
      return comparison?.repairs === false ? undefined : lateSeconds(deps);
    },
    get rehearses() {
      return comparison?.repairs === false;
    },
    span,
    async next({ providerNow }, { lease }) {
      const begun = await beginComparison(deps, { provable: provableUntil(providerNow, deps), lease });
      // What a window that was given up has shown is repaired by now, and would not be found again.
      const isSame = comparison?.verificationId === begun?.comparison.verificationId;
      const difference = (isSame ? comparison?.difference : undefined) ?? NO_DIFFERENCE;
      comparison = begun && { ...begun.comparison, difference };
      return begun && lastPart(begun.rest, span.seconds());
    },
    // What its pages have shown and repaired is known to the process that read them only.
    resume: () => Promise.resolve(false),
    notePage({ snapshots, decisions }) {
      if (comparison === undefined) return;
      for (const { fields } of snapshots) comparison.listed.add(fields.reference);
      comparison.difference = addDifference(comparison.difference, findDifferences(decisions));
    },
    async noteRead(window, { requests, orders, term }) {
      if (comparison === undefined) return;
      const { verificationId, since, difference } = comparison;
      const found = addDifference(difference, await examineUnlisted(deps, { window, comparison, term }));
      const done = window.since <= since;
      await advanceVerification(pool, term.lease, {
        verificationId,
        readDownTo: window.since,
        requests,
        orders,
        ...found,
        done,
      });
      sayFindings(logger, found, comparison.repairs);
      comparison = undefined;
      span.fit(requests);
    },
    async noteFailure(error, { lease }) {
      if (comparison === undefined || error instanceof WalkTooLargeError) return;
      const { verificationId } = comparison;
      const failure = { verificationId, error: describeMessage(error), failuresMax: FAILURES_MAX };
      await noteVerificationFailure(pool, lease, failure);
    },
  };
}

function sayFindings(
  logger: PollDeps["logger"],
  { findings, references }: Difference,
  repairs: boolean,
): void {
  if (references.length === 0) return;
  logger.warn(
    findings,
    repairs
      ? "the mirror differed from the provider; it was repaired"
      : "the mirror differs from the provider",
  );
}

/** The comparison to go on with and what is left of it; undefined when there is none, or it is too young yet. */
async function beginComparison(
  { source: { sourceId }, pool }: PollDeps,
  { provable, lease }: { provable: Instant; lease: Lease },
): Promise<{ comparison: Comparison; rest: Window } | undefined> {
  const open = await readOpenVerification(pool, { sourceId, sampled: false });
  if (open === undefined) return undefined;
  const { verificationId, since, repairs } = open;
  let until = open.readDownTo;
  if (open.state === "requested") {
    until = open.until < provable ? open.until : provable;
    if (until <= since) return undefined;
    await startVerification(pool, lease, { verificationId, until });
  }
  const comparison = { verificationId, since, repairs, knownBefore: provable, listed: new Set<string>() };
  return { comparison: { ...comparison, difference: NO_DIFFERENCE }, rest: { since, until } };
}

/** Reads one by one what the mirror has in the window and the pages did not show. */
async function examineUnlisted(
  deps: PollDeps,
  { window, comparison, term }: { window: Window; comparison: Comparison; term: Term },
): Promise<Difference> {
  const { sourceId } = deps.source;
  const { knownBefore, repairs } = comparison;
  const listed = [...comparison.listed];
  const references = await readUnlisted(deps.pool, { sourceId, window, listed, limit: UNLISTED_MAX });
  return compareOrders(deps, { references, knownBefore, repairs, term, signal: term.signal });
}
