import type { Pool } from "../../database/database.ts";
import { recordCalls } from "../../receive/webhookCalls.sql.ts";
import type { CallCount, CallOutcome } from "../../receive/webhookCalls.sql.ts";
import type { CallEnd } from "../../receive/receiver.ts";
import type { RoleDeps } from "../role.ts";
import { makeTally, saveTally } from "./tally.ts";

const FLUSH_EVERY_MS = 5_000;
/** Senders give up after a few seconds, some sooner. */
const SLOW_MS = 1_000;

const OUTCOMES: Readonly<Partial<Record<CallEnd["outcome"], CallOutcome>>> = {
  received: "accepted",
  duplicate: "accepted",
  failed: "not_stored",
  body_already_read: "not_stored",
  overloaded: "not_stored",
  unavailable: "not_stored",
  // Only calls of configured sources are counted: this one has no secret.
  not_found: "no_secret",
};

/**
 * Makes the function that counts calls of the webhook addresses. The counts are recorded every few seconds, and at the
 * end, for all processes to read.
 */
export function makeCallCounter(
  deps: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
  pool: Pool,
): (end: CallEnd) => void {
  const tally = makeTally<CallCount>({
    keyOf: ({ sourceId, outcome }) => `${sourceId} ${outcome}`,
    // A literal, not a spread, which is three times as slow: this runs for each call.
    join: ({ sourceId, outcome, calls, slow }, count) => ({
      sourceId,
      outcome,
      calls: calls + count.calls,
      slow: slow + count.slow,
    }),
    write: (counts) => recordCalls(pool, counts),
  });
  saveTally(deps, { name: "webhook calls", everyMs: FLUSH_EVERY_MS, flush: tally.flush });
  return ({ sourceId, outcome, reason, durationMs }) => {
    const slow = durationMs > SLOW_MS ? 1 : 0;
    tally.add({ sourceId, outcome: nameOutcome(outcome, reason), calls: 1, slow });
  };
}

/** A call without a signature comes from a stranger, or from `doctor`: it says nothing about the secret. */
function nameOutcome(outcome: CallEnd["outcome"], reason: CallEnd["reason"]): CallOutcome {
  if (reason === "signature_missing") return "other";
  if (reason === "timestamp_outside_tolerance") return "wrong_time";
  if (reason !== undefined) return "wrong_signature";
  return OUTCOMES[outcome] ?? "other";
}
