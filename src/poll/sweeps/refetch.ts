import { isChange } from "../../apply/applySubjects.ts";
import { addSeconds } from "../../domain/order/instant.ts";
import { completeRefetch, postponeRefetch, takeRefetches } from "../ledger/refetches.sql.ts";
import type { Refetch } from "../ledger/refetches.sql.ts";
import type { OrderAnswer } from "../../provider/orderAnswer.ts";
import type { CycleContext } from "../cycle/course.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { readTime } from "../cycle/readTime.ts";
import { noteOrderGone } from "./orderGone.ts";
import { startSingleReads } from "./singleRead.ts";

/** Single reads have the sustained policy to themselves (200 per 10 s), but a cycle has other things to do. */
const REFETCHES_MAX = 50;
/** An order that bears a time in the future is asked for again until then, though not for ever. */
const ATTEMPTS_MAX = 20;

export interface RefetchCounts {
  readonly requests: number;
  readonly applied: number;
  /** Why no more of them were read in this cycle, though they are due; undefined where nothing is wrong. */
  readonly failure: unknown;
}

/**
 * Reads the orders that somebody wished to have read again, one by one, until the next cycle is due. A wish is
 * fulfilled by a read that is settled, since only then can nothing change within that version any more; an earlier one
 * is applied, and repeated.
 */
export async function refetchOrders(
  deps: PollDeps,
  { term, signal, dueMs }: Pick<CycleContext, "term" | "signal" | "dueMs">,
): Promise<RefetchCounts> {
  const { sourceId } = deps.source;
  const wishes = await takeRefetches(deps.pool, { sourceId, limit: REFETCHES_MAX });
  // Sent once: what fails is tried again by its wish, and must not hold up the others here.
  const reads = startSingleReads(deps, { priority: "refetch", attemptsMax: 1, reason: "could not be read" });
  let requests = 0;
  let applied = 0;
  for (const refetch of wishes) {
    if (requests > 0 && deps.clock.monotonicMs() >= dueMs) break;
    term.assertLeading();
    requests += 1;
    const read = await reads.read(refetch.reference, signal);
    if (read.kind === "failed" && read.endsBatch) return { requests, applied, failure: read.error };
    if (read.kind === "not_found") {
      noteOrderGone(deps, refetch);
      await completeRefetch(deps.pool, { sourceId, refetch, shown: undefined });
    }
    if (read.kind === "read") applied += await applyRefetch(deps, { refetch, answer: read.answer });
  }
  return { requests, applied, failure: undefined };
}

async function applyRefetch(
  deps: PollDeps,
  { refetch, answer }: { refetch: Refetch; answer: OrderAnswer },
): Promise<number> {
  const { pool, apply, logger, settleSeconds, intervalSeconds } = deps;
  const { sourceId } = deps.source;
  const { reference, reason, attempts } = refetch;
  const { snapshot, requestedAt } = answer;
  const decisions = await apply.applyReads({
    sourceId,
    via: "refetch",
    snapshots: [snapshot],
    time: readTime(deps, requestedAt),
  });
  const settled = requestedAt > addSeconds(snapshot.version, settleSeconds);
  if (!settled && attempts + 1 >= ATTEMPTS_MAX) {
    logger.warn({ reference, reason }, "the order bears a time in the future; given up");
  }
  if (settled || attempts + 1 >= ATTEMPTS_MAX) {
    await completeRefetch(pool, { sourceId, refetch, shown: snapshot.version });
  } else await postponeRefetch(pool, { sourceId, refetch, waitMs: intervalSeconds * 1_000 });
  return decisions.filter(isChange).length;
}
