import { setImmediate as nextTurn } from "node:timers/promises";
import { withTimeout } from "../process/abort.ts";
import { systemClock as clock } from "../process/clock.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";

/** The maximum number of inbox positions in one job; a full job is followed by the next immediately. */
const JOB_SEQS_MAX = 1_000;
const WAITING_SEQS_MAX = 10_000;
const SEND_DEADLINE_MS = 2_000;
const LOG_INTERVAL_MS = 10_000;

/**
 * Sends one job at a time, about everything notified meanwhile: under load a job stands for several commits. So the
 * queue may be unavailable, frozen or full, and the only effect is a delay of some seconds.
 */
export function makeSender(deps: {
  readonly send: (seqs: readonly number[]) => Promise<void>;
  readonly isReachable: () => boolean;
  /** After each job; the first is sent at once. */
  readonly pauseMs: number;
  readonly logger: Logger;
}) {
  const { send, isReachable, pauseMs, logger } = deps;
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  const waiting: number[] = [];
  let sending: Promise<void> | undefined;
  let closed = false;

  function forget(events: number, reason: string, error?: unknown): void {
    const suppressed = sample(reason);
    if (suppressed === undefined) return;
    const fields = { events, reason, suppressed, err: error };
    logger.warn(fields, "no job was enqueued for some events; the overdue check will find them");
  }

  async function sendAll(): Promise<void> {
    // The events of one commit are notified one by one, in one turn, and belong in one job.
    await nextTurn();
    while (waiting.length > 0) {
      if (isReachable()) await sendOne(waiting.splice(0, JOB_SEQS_MAX));
      else forget(waiting.splice(0).length, "the queue cannot be reached");
      if (pauseMs > 0) await clock.sleep(pauseMs);
    }
    sending = undefined;
  }

  async function sendOne(seqs: readonly number[]): Promise<void> {
    try {
      const outcome = await withTimeout(send(seqs), SEND_DEADLINE_MS);
      if (outcome === "late") forget(seqs.length, "the queue does not answer");
    } catch (error) {
      forget(seqs.length, "the queue refused the job", error);
    }
  }

  return {
    notify(this: void, seqs: readonly number[]): void {
      if (closed) return;
      if (waiting.length + seqs.length > WAITING_SEQS_MAX)
        return forget(seqs.length, "too many wait to be enqueued");
      for (const seq of seqs) waiting.push(seq);
      sending ??= sendAll();
    },
    async close(this: void): Promise<void> {
      closed = true;
      if (sending) await withTimeout(sending, SEND_DEADLINE_MS);
    },
  };
}
