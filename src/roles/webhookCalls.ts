import type { Pool } from "../database/database.ts";
import { recordCalls } from "../receive/commit/webhookCalls.sql.ts";
import type { CallCount, CallOutcome } from "../receive/commit/webhookCalls.sql.ts";
import type { CallEnd } from "../receive/endpoint/receiver.ts";
import type { RoleDeps } from "./role.ts";

const FLUSH_EVERY_MS = 5_000;
/** Senders give up after a few seconds, and some at once. */
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
  /** Writes down what was noted since the last time; what cannot be written is kept for the next. */
  readonly flush: () => Promise<void>;
}

export function makeCallBook(pool: Pool): CallBook {
  let noted = new Map<string, CallCount>();

  function add(count: CallCount): void {
    const key = `${count.sourceId} ${count.outcome}`;
    const { calls, slow } = noted.get(key) ?? { calls: 0, slow: 0 };
    noted.set(key, { ...count, calls: calls + count.calls, slow: slow + count.slow });
  }

  return {
    note({ sourceId, outcome, reason, durationMs }) {
      add({ sourceId, outcome: nameOutcome(outcome, reason), calls: 1, slow: durationMs > SLOW_MS ? 1 : 0 });
    },
    async flush() {
      const counts = [...noted.values()];
      if (counts.length === 0) return;
      noted = new Map();
      try {
        await recordCalls(pool, counts);
      } catch (error) {
        counts.forEach(add);
        throw error;
      }
    },
  };
}

/** A call without a signature comes from a stranger, or from `doctor`: it says nothing about the secret. */
function nameOutcome(outcome: CallEnd["outcome"], reason: CallEnd["reason"]): CallOutcome {
  if (reason !== undefined) return reason === "signature_missing" ? "other" : "wrong_signature";
  return OUTCOMES[outcome] ?? "other";
}

/** Writes the book down every few seconds, and once more at the end. */
export function keepCallBook(
  book: CallBook,
  { clock, logger, shutdown }: Pick<RoleDeps, "clock" | "logger" | "shutdown">,
): void {
  const closing = new AbortController();
  const running = (async () => {
    while (!closing.signal.aborted) {
      await clock.sleep(FLUSH_EVERY_MS, closing.signal).catch(() => undefined);
      await book.flush().catch((error: unknown) => {
        logger.debug({ err: error }, "could not write down the webhook calls; they are kept");
      });
    }
  })();
  shutdown.onShutdown("webhook calls", async () => {
    closing.abort();
    await running;
  });
}
