import { applyAbsence } from "../../apply/absence.sql.ts";
import type { Absence, AbsenceOutcome } from "../../apply/absence.sql.ts";
import { describeMessage } from "../../runtime/telemetry/errorFields.ts";
import { failureOf } from "../../domain/source/errors.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { horizonOf } from "../../domain/order/observation.ts";
import type { OrderRead, Priority } from "../../domain/source/orderSource.ts";
import type { PollDeps } from "../cycle/deps.ts";
import { readTime } from "../cycle/readTime.ts";
import { noteRefetchFailure } from "../ledger/refetches.sql.ts";
import type { RefetchPatience } from "../ledger/refetches.sql.ts";

/** The result of reading one order; a failure concerns only this order, unless `endsBatch`. */
export type SingleRead =
  | { readonly kind: "read"; readonly answer: OrderRead }
  /** The provider says that the order does not exist. */
  | { readonly kind: "not_found"; readonly requestedAt: Instant }
  | { readonly kind: "failed"; readonly error: unknown; readonly endsBatch: boolean };

export interface SingleReads {
  /** Reads one order and records a failure. Throws the reason of `signal`, and database errors. */
  read(reference: string, signal: AbortSignal): Promise<SingleRead>;
}

/** After this many failures in a row the provider is failing, not these orders. */
const UNAVAILABLE_MAX = 3;
/** About eight minutes at the default interval, from which the waits double. */
const FAILURES_MAX = 5;
const SELDOM_MS = 6 * 3_600_000;

/**
 * A batch of independent single reads: a failure is counted with the order's request, which then waits longer each
 * time. `reason` is used for an order that has no request yet.
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
        // A rate-limit refusal says nothing about the order.
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

/**
 * The one place that handles a "not found" answer to a single read (404 or 410, whatever the body): the order is gone,
 * unless the mirror has a claim that is too recent for such a read.
 */
export async function noteOrderGone(
  deps: Pick<PollDeps, "source" | "pool" | "logger" | "settleSeconds" | "horizonSeconds">,
  absence: Pick<Absence, "reference" | "requestedAt" | "rehearses"> & { via: "refetch" | "verify" },
): Promise<AbsenceOutcome> {
  const { reference, requestedAt, rehearses } = absence;
  const { sourceId } = deps.source;
  const horizon = horizonOf(readTime(deps, requestedAt));
  const effect = await applyAbsence(deps.pool, { ...absence, sourceId, horizon });
  if (effect.outcome === "gone" && rehearses !== true) {
    deps.logger.warn({ reference }, "the provider has no order with this reference; it is no longer served");
  }
  return effect;
}
