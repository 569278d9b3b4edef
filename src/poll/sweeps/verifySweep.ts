import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import { readUnlisted } from "../ledger/comparedOrders.sql.ts";
import { NO_FINDINGS } from "../ledger/periodRequests.sql.ts";
import type { PeriodRequest } from "../ledger/periodRequests.sql.ts";
import { readCorrected } from "../ledger/refetches.sql.ts";
import {
  addDifference,
  compareOrders,
  findDifferences,
  makeDifference,
  NO_DIFFERENCE,
} from "./compareOrder.ts";
import type { Difference } from "./compareOrder.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { makeRequestedPeriod } from "./requestedPeriod.ts";
import { provableUntil } from "./sweeps.ts";
import type { Sweep, WindowResult } from "./sweeps.ts";

/**
 * The number of orders that a window did not list and that are read one by one to find out why; the others count as
 * unreadable.
 */
const UNLISTED_MAX = 200;

/** What the pages of the current window have shown. */
interface Comparison {
  readonly request: PeriodRequest;
  /** Changes from here on may not have been polled yet. */
  readonly knownBefore: Instant;
  readonly listed: Set<string>;
  difference: Difference;
}

/** Compares requested periods with the provider, newest part first, with the budget that nothing else needs. */
export function makeVerifySweep(deps: PollDeps): Sweep {
  const period = makeRequestedPeriod(deps, "verification");
  let comparison: Comparison | undefined;

  return {
    name: "verify",
    via: "verify",
    priority: "verify",
    movesCursor: false,
    get proves() {
      // A comparison that writes nothing proves nothing.
      return comparison?.request.repairs !== false;
    },
    get rehearses() {
      return comparison?.request.repairs === false;
    },
    span: period.span,
    async next(view, term) {
      const window = await period.next(view, term);
      const request = period.current();
      const isSame = comparison?.request.requestId === request?.requestId;
      const difference = isSame && comparison !== undefined ? keepRepaired(comparison) : NO_DIFFERENCE;
      const knownBefore = provableUntil(view.providerNow, deps);
      comparison = request && { request, knownBefore, listed: new Set(), difference };
      return window;
    },
    // Only the process that read its pages knows what they showed and repaired.
    resume: () => Promise.resolve(false),
    notePage({ snapshots, decisions }) {
      if (comparison === undefined) return;
      for (const { fields } of snapshots) comparison.listed.add(fields.reference);
      const shown = findDifferences(decisions, comparison.knownBefore);
      comparison.difference = addDifference(comparison.difference, shown);
    },
    async noteRead(window, result) {
      if (comparison === undefined) return;
      const { request } = comparison;
      const failure = await examineUnlisted(deps, { window, comparison, result });
      if (failure !== undefined) throw failure;
      const isLast = window.since <= request.since;
      const corrected = isLast && request.repairs ? await findCorrected(deps, request) : NO_DIFFERENCE;
      const found = addDifference(comparison.difference, corrected);
      // It singly reads what its pages did not show, so nothing is missing if they prove nothing.
      await period.advance(window, { ...result, proved: true }, found);
      sayFindings(deps.logger, found, request.repairs);
      comparison = undefined;
    },
    noteFailure: period.noteFailure,
  };
}

/** What an abandoned window has shown and will not show again, because it is repaired. */
function keepRepaired({ request, difference }: Comparison): Difference {
  if (!request.repairs) return NO_DIFFERENCE;
  return { ...difference, findings: { ...difference.findings, unreadable: 0 } };
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

/** Corrections by single reads since the comparison was requested. */
async function findCorrected({ pool }: PollDeps, { requestId }: PeriodRequest): Promise<Difference> {
  const orders = await readCorrected(pool, requestId);
  return orders.reduce(
    (sum, { reference, verdict }) =>
      addDifference(sum, makeDifference(verdict === "corrected" ? "contradicted" : "extra", reference)),
    NO_DIFFERENCE,
  );
}

/**
 * Singly reads the orders that the mirror has in the window but the pages did not show, and adds what it finds to the
 * comparison. Resolves with the failure that ended these reads, if any.
 */
async function examineUnlisted(
  deps: PollDeps,
  { window, comparison, result }: { window: Window; comparison: Comparison; result: WindowResult },
): Promise<unknown> {
  const { sourceId } = deps.source;
  const { knownBefore, request } = comparison;
  const listed = [...comparison.listed];
  const unlisted = await readUnlisted(deps.pool, { sourceId, window, listed, limit: UNLISTED_MAX });
  const { references, total } = unlisted;
  const { term, signal } = result;
  const { difference, failure } = await compareOrders(deps, {
    references,
    knownBefore,
    repairs: request.repairs,
    term,
    signal,
  });
  const unread = { findings: { ...NO_FINDINGS, unreadable: total - references.length }, references: [] };
  comparison.difference = [difference, unread].reduce(addDifference, comparison.difference);
  return failure;
}
