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
 * read is applied and repeated when it can tell more. An order that is dated far ahead is left to polling. A claim that
 * stands may be an exception to what is proved, so its request stays.
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
  const { sourceId } = deps.source;
  const { snapshot, requestedAt } = answer;
  const decisions = await deps.apply.applyReads({
    sourceId,
    via: "refetch",
    snapshots: [snapshot],
    time: readTime(deps, requestedAt),
  });
  const [decision] = decisions;
  const { version } = snapshot;
  const stored = decision?.storedVersion ?? version;
  const waitMs =
    stored > version
      ? untilRefutable(deps, { version: stored, requestedAt })
      : untilSettled(deps, { version, requestedAt, refetch });
  await endAttempt(deps, { refetch, shown: version, waitMs });
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
  const waitMs = claimed === null ? undefined : untilRefutable(deps, { version: claimed, requestedAt });
  await endAttempt(deps, { refetch, shown: undefined, waitMs });
  return outcome === "gone" ? 1 : 0;
}

/** Milliseconds until a read's horizon reaches the version of a claim, so that the claim is refuted if not shown. */
function untilRefutable(
  deps: PollDeps,
  { version, requestedAt }: { version: Instant; requestedAt: Instant },
): number {
  const { horizonSeconds } = readTime(deps, requestedAt);
  return Math.min(untilPast({ version, seconds: horizonSeconds, requestedAt }), WAIT_MAX_MS);
}

/** Milliseconds until a read is settled; undefined if this one is, or if that is far ahead. */
function untilSettled(
  { settleSeconds, logger }: PollDeps,
  { version, requestedAt, refetch }: { version: Instant; requestedAt: Instant; refetch: Refetch },
): number | undefined {
  if (requestedAt > addSeconds(version, settleSeconds)) return undefined;
  const waitMs = untilPast({ version, seconds: settleSeconds, requestedAt });
  if (waitMs <= WAIT_MAX_MS) return waitMs;
  const { reference, reason } = refetch;
  logger.warn({ reference, reason }, "the order is dated more than six hours ahead; no longer read singly");
  return undefined;
}

/** One second more than `seconds` after the version, because the provider's clock is a lower bound. */
function untilPast({
  version,
  seconds,
  requestedAt,
}: {
  version: Instant;
  seconds: number;
  requestedAt: Instant;
}): number {
  return millisFromInstant(version - requestedAt) + (seconds + 1) * 1_000;
}

/** `waitMs`: until the next read can tell more, or the interval if that is longer; undefined ends the request. */
async function endAttempt(
  { source: { sourceId }, pool, intervalSeconds }: PollDeps,
  attempt: { refetch: Refetch; shown: Instant | undefined; waitMs: number | undefined },
): Promise<void> {
  const { refetch, shown, waitMs } = attempt;
  if (waitMs === undefined) return completeRefetch(pool, { sourceId, refetch, shown });
  await postponeRefetch(pool, { sourceId, refetch, waitMs: Math.max(waitMs, intervalSeconds * 1_000) });
}
