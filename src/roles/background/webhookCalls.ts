import type { Pool } from "../../database/database.ts";
import { recordCalls } from "../../receive/commit/webhookCalls.sql.ts";
import type { CallCount, CallOutcome } from "../../receive/commit/webhookCalls.sql.ts";
import type { CallEnd } from "../../receive/endpoint/receiver.ts";
import type { RoleDeps } from "../role.ts";
import { makeTally, saveTallies } from "./tally.ts";

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
};

/** Counts calls of the webhook addresses, and writes the counts down for all processes to read. */
export interface CallBook {
  readonly note: (end: CallEnd) => void;
  readonly flush: () => Promise<void>;
}

export function makeCallBook(pool: Pool): CallBook {
  const { add, flush } = makeTally<CallCount>({
    keyOf: ({ sourceId, outcome }) => `${sourceId} ${outcome}`,
    join: (sum, count) => ({ ...sum, calls: sum.calls + count.calls, slow: sum.slow + count.slow }),
    write: (counts) => recordCalls(pool, counts),
  });
  return {
    note({ sourceId, outcome, reason, durationMs }) {
      add({ sourceId, outcome: nameOutcome(outcome, reason), calls: 1, slow: durationMs > SLOW_MS ? 1 : 0 });
    },
    flush,
  };
}

/** A call without a signature comes from a stranger, or from `doctor`: it says nothing about the secret. */
function nameOutcome(outcome: CallEnd["outcome"], reason: CallEnd["reason"]): CallOutcome {
  if (reason !== undefined) return reason === "signature_missing" ? "other" : "wrong_signature";
  return OUTCOMES[outcome] ?? "other";
}

/** Records the counts every few seconds, and at the end. */
export function keepCallBook(book: CallBook, deps: Pick<RoleDeps, "clock" | "logger" | "shutdown">): void {
  saveTallies(deps, { name: "webhook calls", everyMs: FLUSH_EVERY_MS, tallies: [book] });
}
