import { addSeconds } from "../../domain/order/instant.ts";
import { completeRefetch, postponeRefetch, takeRefetches } from "../ledger/refetches.sql.ts";
import type { Refetch } from "../ledger/refetches.sql.ts";
import type { OrderAnswer } from "../../provider/orderAnswer.ts";
import { InvalidReferenceError, OrderNotFoundError } from "../../provider/errors.ts";
import type { PollDeps } from "../cycle/deps.ts";
import type { Term } from "../leader/leadership.ts";

/** Single reads have the sustained policy to themselves (200 per 10 s), but a cycle has other things to do. */
const REFETCHES_MAX = 50;
/** An order that bears a time in the future is asked for again until then, though not for ever. */
const ATTEMPTS_MAX = 20;

export interface RefetchCounts {
  readonly requests: number;
  readonly applied: number;
}

/**
 * Reads the orders that somebody wished to have read again, one by one. A wish is fulfilled by a read that is
 * settled, since only then can nothing change within that version any more; an earlier one is applied, and repeated.
 */
export async function refetchOrders(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "apply" | "logger" | "settleSeconds">,
  { term, signal }: { term: Term; signal: AbortSignal },
): Promise<RefetchCounts> {
  const { sourceId } = deps.source;
  const wishes = await takeRefetches(deps.pool, { sourceId, limit: REFETCHES_MAX });
  let applied = 0;
  for (const refetch of wishes) {
    term.assertLeading();
    applied += await refetchOrder(deps, { refetch, signal });
  }
  return { requests: wishes.length, applied };
}

async function refetchOrder(
  deps: Parameters<typeof refetchOrders>[0],
  { refetch, signal }: { refetch: Refetch; signal: AbortSignal },
): Promise<number> {
  const { client, pool, apply, logger, settleSeconds } = deps;
  const { sourceId } = deps.source;
  const { reference, reason, attempts } = refetch;
  let answer: OrderAnswer;
  try {
    answer = await client.getOrder(reference, { priority: "refetch", signal });
  } catch (error) {
    if (!(error instanceof OrderNotFoundError || error instanceof InvalidReferenceError)) throw error;
    logger.warn({ reference, reason }, "the order to be read again is not there; given up");
    await completeRefetch(pool, { sourceId, refetch });
    return 0;
  }
  const { snapshot, requestedAt } = answer;
  const settleNanos = BigInt(Math.round(settleSeconds * 1_000)) * 1_000_000n;
  const decisions = await apply.applyReads({
    sourceId,
    via: "refetch",
    snapshots: [snapshot],
    requestedAt,
    settleNanos,
  });
  const settled = requestedAt > addSeconds(snapshot.version, settleSeconds);
  if (!settled && attempts + 1 >= ATTEMPTS_MAX) {
    logger.warn({ reference, reason }, "the order bears a time in the future; given up");
  }
  if (settled || attempts + 1 >= ATTEMPTS_MAX) await completeRefetch(pool, { sourceId, refetch });
  else await postponeRefetch(pool, { sourceId, refetch });
  return decisions.filter(({ verdict }) => verdict === "applied").length;
}
