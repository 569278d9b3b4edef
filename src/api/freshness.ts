import type { ServerResponse } from "node:http";
import { z } from "zod";
import { formatInstant, type Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";
import { timeParameter, wholeNumber } from "../wire/listParameters.ts";
import { RefusedRequestError } from "../wire/refusal.ts";
import { explainIncomplete, type Freshness } from "../orders/orderReads.sql.ts";
import type { OrderWait } from "./orderWait.ts";
import type { Caller } from "./authenticate.ts";
import { untilClosed } from "./respond.ts";

/**
 * Sets `X-Safe-Through` if it is known how far the answer can be trusted, and `X-Safe-Through-Exceptions` with the
 * number of excluded orders.
 */
export function writeFreshness(response: ServerResponse, freshness: Freshness | undefined): void {
  if (freshness === undefined) return;
  response.setHeader("X-Safe-Through", formatInstant(freshness.safeThrough));
  response.setHeader("X-Safe-Through-Exceptions", String(freshness.exceptions));
}

/** Longer than a client's patience, shorter than that of proxies in between. */
const WAIT_MAX_SECONDS = 30;

export const completeSchema = z.object({
  complete: timeParameter
    .optional()
    .describe(
      "Answers only if the mirror has every change before this time, except for the orders in X-Safe-Through-Exceptions; otherwise 412.",
    ),
  wait: wholeNumber({ min: 0, max: WAIT_MAX_SECONDS })
    .default(0)
    .describe("How long to wait for that at most, in seconds. Default 0."),
});

/** The completeness that a request demands. */
export type Completeness = z.infer<typeof completeSchema>;

/**
 * Waits until the mirror is complete up to `complete`, at most `wait` seconds; does nothing without `complete`. What is
 * read afterwards decides: see assertComplete.
 */
export async function awaitComplete(
  { orderWait, caller, response }: { orderWait: OrderWait; caller: Caller; response: ServerResponse },
  { complete, wait }: Completeness,
): Promise<void> {
  if (complete === undefined || wait === 0) return;
  const { sourceId, client } = caller;
  const awaited = { sourceId, reference: null, instant: complete };
  await orderWait(awaited, { client, timeoutMs: wait * 1_000, signal: untilClosed(response) });
}

/**
 * Throws RefusedRequestError, 412 not_complete, if what was read is not complete up to `complete`. Orders that
 * safe_through excepts do not make it incomplete: one unreadable order would make every answer fail.
 */
export async function assertComplete(
  pool: Pool,
  asked: { sourceId: string; complete: Instant | undefined; freshness: Freshness | undefined },
): Promise<void> {
  const { sourceId, complete, freshness } = asked;
  if (complete === undefined) return;
  const { historySince = null, safeThrough } = freshness ?? {};
  if (
    historySince !== null &&
    historySince <= complete &&
    safeThrough !== undefined &&
    safeThrough >= complete
  )
    return;
  const why = await explainIncomplete(pool, { sourceId, instant: complete });
  const message = why ?? "The mirror became complete up to this time only after it was read.";
  throw new RefusedRequestError({ status: 412, code: "not_complete", message });
}
