import { leavesClaim } from "../../apply/applySubjects.ts";
import type { Decision } from "../../apply/applySubjects.ts";
import { addFigures } from "../../domain/figures.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { OrderRead } from "../../domain/source/orderSource.ts";
import { NO_FINDINGS } from "../ledger/periodRequests.sql.ts";
import type { Findings } from "../ledger/periodRequests.sql.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";
import { readTime } from "../cycle/readTime.ts";
import { readResting, requestUnconfirmed } from "../ledger/refetches.sql.ts";
import { noteOrderGone, startSingleReads } from "./singleRead.ts";
import type { SingleRead } from "./singleRead.ts";

/** The findings of a part of a comparison. */
export interface Difference {
  readonly findings: Findings;
  readonly references: readonly string[];
}

export const NO_DIFFERENCE: Difference = { findings: NO_FINDINGS, references: [] };
const UNREADABLE = makeDifference("unreadable", null);

export function addDifference(left: Difference, right: Difference): Difference {
  const findings = addFigures(left.findings, right.findings);
  return { findings, references: [...left.references, ...right.references] };
}

/** The comparison of a batch of orders, one by one. */
interface ComparedOrders {
  /** How many of them, from the first. */
  readonly compared: number;
  readonly difference: Difference;
  /** What ended the batch before its end; undefined if nothing did. */
  readonly failure: unknown;
}

/**
 * What the provider shows and the mirror did not: the kind says what the mirror had before, or still has, where the key
 * of the order did not allow the repair. An older state than that of a standing claim shows nothing, unless the claim
 * dates from `knownBefore` on.
 */
export function findDifferences(decisions: readonly Decision[], knownBefore: Instant): Difference {
  return decisions.reduce((sum, decision) => {
    if (leavesClaim(decision) && decision.storedVersion < knownBefore) return addDifference(sum, UNREADABLE);
    const kind = kindOf(decision);
    return kind === undefined ? sum : addDifference(sum, makeDifference(kind, decision.reference));
  }, NO_DIFFERENCE);
}

function kindOf(decision: Decision): keyof Findings | undefined {
  const { verdict, previousStatus, conflict, version, storedVersion } = decision;
  if (verdict === "corrected") return "contradicted";
  if (verdict === "applied" && previousStatus === null) return "missing";
  if (conflict) return "differing";
  const isBehind = version !== null && storedVersion !== null && storedVersion < version;
  return verdict === "applied" || isBehind ? "stale" : undefined;
}

export function makeDifference(kind: keyof Findings, reference: string | null): Difference {
  return { findings: { ...NO_FINDINGS, [kind]: 1 }, references: reference === null ? [] : [reference] };
}

const REASON = "could not be compared";

/**
 * Reads orders of the mirror again, one by one, and compares them. A change from `knownBefore` on is not a difference:
 * polling may not have reached it yet. An order that cannot be read is counted and requested again, and the others are
 * compared anyway, unless its failure ends the batch: what was found before that is repaired, and would not be found
 * again. Throws what apply throws, LeaseLostError, and the reason of `signal`.
 */
export async function compareOrders(
  deps: PollDeps,
  options: {
    references: readonly string[];
    knownBefore: Instant;
    /** False: only report differences. */
    repairs: boolean;
    term: Term;
    signal: AbortSignal;
  },
): Promise<ComparedOrders> {
  const { references, knownBefore, repairs, term, signal } = options;
  const { sourceId } = deps.source;
  const resting = await readResting(deps.pool, { sourceId, references });
  const reads = startSingleReads(deps, { priority: "verify", reason: REASON });
  let found = NO_DIFFERENCE;
  for (const [compared, reference] of references.entries()) {
    term.assertLeading();
    // It failed a moment ago; this is how the batch after an ended one gets past it.
    const read = resting.has(reference) ? undefined : await reads.read(reference, signal);
    if (read?.kind === "failed" && read.endsBatch)
      return { compared, difference: found, failure: read.error };
    const difference =
      read === undefined || read.kind === "failed"
        ? UNREADABLE
        : await compareRead(deps, { reference, read, knownBefore, repairs });
    found = addDifference(found, difference);
  }
  return { compared: references.length, difference: found, failure: undefined };
}

async function compareRead(
  deps: PollDeps,
  options: {
    reference: string;
    read: Exclude<SingleRead, { readonly kind: "failed" }>;
    knownBefore: Instant;
    repairs: boolean;
  },
): Promise<Difference> {
  const { reference, read, repairs } = options;
  const { sourceId } = deps.source;
  const found =
    read.kind === "not_found"
      ? await compareAbsence(deps, { ...options, requestedAt: read.requestedAt })
      : await compareAnswer(deps, { ...options, answer: read.answer });
  if (repairs && found.findings.unreadable > 0)
    await requestUnconfirmed(deps.pool, { sourceId, references: [reference] });
  return found;
}

async function compareAbsence(
  deps: PollDeps,
  { reference, requestedAt, repairs }: { reference: string; requestedAt: Instant; repairs: boolean },
): Promise<Difference> {
  const absence = { reference, via: "verify", requestedAt, rehearses: !repairs } as const;
  const { outcome } = await noteOrderGone(deps, absence);
  // The mirror keeps a claim that is too recent for this read, so nobody knows yet whether it is false.
  if (outcome === "claim_stands") return UNREADABLE;
  // Otherwise it was marked as gone, or erased, after it had been listed for this comparison.
  return outcome === "gone" ? makeDifference("extra", reference) : NO_DIFFERENCE;
}

async function compareAnswer(
  deps: PollDeps,
  { answer, knownBefore, repairs }: { answer: OrderRead; knownBefore: Instant; repairs: boolean },
): Promise<Difference> {
  const { snapshot, requestedAt } = answer;
  const isNews = snapshot.version >= knownBefore;
  const decisions = await deps.apply.applyReads({
    sourceId: deps.source.sourceId,
    via: isNews ? "refetch" : "verify",
    snapshots: [snapshot],
    time: readTime(deps, requestedAt),
    rehearses: !repairs,
  });
  return isNews ? NO_DIFFERENCE : findDifferences(decisions, knownBefore);
}
