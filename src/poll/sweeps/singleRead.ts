import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { OrderRead, Priority } from "../../domain/source/orderSource.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { noteRefetchFailure } from "../ledger/refetches.sql.ts";
import type { RefetchPatience } from "../ledger/refetches.sql.ts";

/** What became of reading one order; its failure concerns nothing but this order, unless `endsBatch`. */
export type SingleRead =
  | { readonly kind: "read"; readonly answer: OrderRead }
  /** The provider says that there is no such order. */
  | { readonly kind: "not_found"; readonly requestedAt: Instant }
  | { readonly kind: "failed"; readonly error: unknown; readonly endsBatch: boolean };

export interface SingleReads {
  /** Reads one order and takes down a failure. Throws the reason of `signal`, and what the database throws. */
  read(reference: string, signal: AbortSignal): Promise<SingleRead>;
}

/** Failures in a row after which it is the provider that fails, and not these orders. */
const UNAVAILABLE_MAX = 3;
/** With waits that double from the interval some quarter of an hour. */
const FAILURES_MAX = 5;
const SELDOM_MS = 6 * 3_600_000;

/**
 * A batch of single reads, each of which stands alone: a failure is counted beside the order's request, which then waits
 * longer each time. `reason` is the request of an order that has none yet.
 */
export function startSingleReads(
  deps: Pick<PollDeps, "source" | "client" | "pool" | "logger" | "intervalSeconds">,
  { priority, attemptsMax, reason }: { priority: Priority; attemptsMax?: number; reason: string },
): SingleReads {
  const { client, pool, logger, intervalSeconds } = deps;
  const { sourceId } = deps.source;
  const patience: RefetchPatience = {
    firstWaitMs: intervalSeconds * 1_000,
    failuresMax: FAILURES_MAX,
    seldomMs: SELDOM_MS,
  };
  let unavailable = 0;

  async function noteFailure(reference: string, error: unknown): Promise<void> {
    const failure = { sourceId, reference, reason, error: describeMessage(error), patience };
    if ((await noteRefetchFailure(pool, failure)) !== FAILURES_MAX) return;
    logger.warn({ reference, err: error }, "an order cannot be read singly; it is in quarantine");
  }

  return {
    async read(reference, signal) {
      const requestedAt = client.providerClock.providerNow();
      try {
        const answer = await client.getOrder(reference, { priority, attemptsMax, signal });
        unavailable = 0;
        return { kind: "read", answer };
      } catch (error) {
        signal.throwIfAborted();
        if (failureOf(error) === "not_found") {
          unavailable = 0;
          return { kind: "not_found", requestedAt };
        }
        unavailable = isUnavailable(error) ? unavailable + 1 : 0;
        // A refusal for the rate says nothing about the order: it was not looked at.
        if (failureOf(error) !== "rate_limited") await noteFailure(reference, error);
        return { kind: "failed", error, endsBatch: concernsAll(error) || unavailable >= UNAVAILABLE_MAX };
      }
    },
  };
}

function concernsAll(error: unknown): boolean {
  return failureOf(error) === "rate_limited" || failureOf(error) === "key_refused";
}

function isUnavailable(error: unknown): boolean {
  return failureOf(error) === "timeout" || failureOf(error) === "unavailable";
}
