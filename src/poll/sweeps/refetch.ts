import { isChange } from "../../apply/applySubjects.ts";
import { addSeconds, millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { completeRefetch, postponeRefetch, takeRefetches } from "../ledger/refetches.sql.ts";
import type { Refetch } from "../ledger/refetches.sql.ts";
import type { OrderRead } from "../../domain/source/orderSource.ts";
import type { CycleContext } from "../cycle/runSweeps.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { readTime } from "../cycle/readTime.ts";
import { noteOrderGone, startSingleReads } from "./singleRead.ts";

/** Single reads only use the sustained policy (200 per 10 s), but a cycle has other work, too. */
const REFETCHES_MAX = 50;
/** An order with a future timestamp is requested again until then, but not forever. */
const ATTEMPTS_MAX = 20;

const WAIT_MAX_MS = 6 * 3_600_000;

export interface RefetchCounts {
  readonly requests: number;
  readonly applied: number;
  /** Why this cycle read no more of them although they are due; undefined if nothing is wrong. */
  readonly failure: unknown;
}

export const NOTHING_REFETCHED: RefetchCounts = { requests: 0, applied: 0, failure: undefined };

/**
 * Reads requested orders one by one, until the next cycle is due. A request is fulfilled by a settled read, because
 * only then nothing can change within that version, and if no claim is left that the read does not show. An earlier
 * read is applied and repeated.
 */
export async function refetchOrders(
  deps: PollDeps,
  { term, signal, dueMs }: Pick<CycleContext, "term" | "signal" | "dueMs">,
): Promise<RefetchCounts> {
  const { sourceId } = deps.source;
  const refetches = await takeRefetches(deps.pool, { sourceId, limit: REFETCHES_MAX });
  // Sent once: a failed read is retried through its request, and must not delay the others here.
  const reads = startSingleReads(deps, { priority: "refetch", attemptsMax: 1, reason: "could not be read" });
  let requests = 0;
  let applied = 0;
  for (const refetch of refetches) {
    if (requests > 0 && deps.clock.monotonicMs() >= dueMs) break;
    term.assertLeading();
    requests += 1;
    const read = await reads.read(refetch.reference, signal);
    if (read.kind === "failed" && read.endsBatch) return { requests, applied, failure: read.error };
    if (read.kind === "not_found") applied += await applyAbsentRefetch(deps, { refetch, ...read });
    if (read.kind === "read") applied += await applyRefetch(deps, { refetch, answer: read.answer });
  }
  return { requests, applied, failure: undefined };
}

async function applyRefetch(
  deps: PollDeps,
  { refetch, answer }: { refetch: Refetch; answer: OrderRead },
): Promise<number> {
  const { apply, settleSeconds, intervalSeconds } = deps;
  const { sourceId } = deps.source;
  const { snapshot, requestedAt } = answer;
  const decisions = await apply.applyReads({
    sourceId,
    via: "refetch",
    snapshots: [snapshot],
    time: readTime(deps, requestedAt),
  });
  const [decision] = decisions;
  const settled = requestedAt > addSeconds(snapshot.version, settleSeconds);
  const claimed = decision?.storedVersion ?? null;
  const claimStands = claimed !== null && claimed > snapshot.version;
  const waitMs = claimStands
    ? untilRefutable(deps, { version: claimed, requestedAt })
    : intervalSeconds * 1_000;
  await endAttempt(deps, { refetch, shown: snapshot.version, fulfilled: settled && !claimStands, waitMs });
  return decisions.filter(isChange).length;
}

/** An order that the provider does not have is gone, unless the mirror has a claim that this read could not know. */
async function applyAbsentRefetch(
  deps: PollDeps,
  { refetch, requestedAt }: { refetch: Refetch; requestedAt: Instant },
): Promise<number> {
  const { reference } = refetch;
  const { outcome, version } = await noteOrderGone(deps, { reference, via: "refetch", requestedAt });
  const claimed = outcome === "claim_stands" ? version : null;
  const waitMs = claimed === null ? 0 : untilRefutable(deps, { version: claimed, requestedAt });
  await endAttempt(deps, { refetch, shown: undefined, fulfilled: claimed === null, waitMs });
  return outcome === "gone" ? 1 : 0;
}

/**
 * Milliseconds until a read's horizon reaches the version of a claim, so that the claim is refuted if not shown: from the
 * interval to WAIT_MAX_MS, both inclusive.
 */
function untilRefutable(
  deps: PollDeps,
  { version, requestedAt }: { version: Instant; requestedAt: Instant },
): number {
  const { horizonSeconds } = readTime(deps, requestedAt);
  const waitMs = millisFromInstant(version - requestedAt) + (horizonSeconds + 1) * 1_000;
  return Math.min(Math.max(waitMs, deps.intervalSeconds * 1_000), WAIT_MAX_MS);
}

async function endAttempt(
  { source: { sourceId }, pool, logger }: PollDeps,
  attempt: { refetch: Refetch; shown: Instant | undefined; fulfilled: boolean; waitMs: number },
): Promise<void> {
  const { refetch, shown, fulfilled, waitMs } = attempt;
  const { reference, reason, attempts } = refetch;
  const givenUp = !fulfilled && attempts + 1 >= ATTEMPTS_MAX;
  if (givenUp) logger.warn({ reference, reason }, "the order has a future timestamp; given up");
  if (fulfilled || givenUp) await completeRefetch(pool, { sourceId, refetch, shown });
  else await postponeRefetch(pool, { sourceId, refetch, waitMs });
}
