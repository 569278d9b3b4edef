import type { Clock } from "../runtime/clock.ts";
import { makeLogSampler } from "../runtime/logSampler.ts";
import type { Logger } from "../runtime/logger.ts";
import { inSpan } from "../runtime/tracing.ts";
import type { TracePoint, Tracing } from "../runtime/tracing.ts";
import { JOB_SEQS_MAX } from "./applyJob.ts";
import { withDeadline } from "./deadline.ts";

const WAITING_SEQS_MAX = 10_000;
const ENQUEUE_DEADLINE_MS = 2_000;
const LOG_INTERVAL_MS = 10_000;

export interface Doorbell {
  /** Has a job enqueued for these inbox positions soon. Never throws and never waits. */
  ring(seqs: readonly number[]): void;
  /** Takes no more; resolves when what was rung is enqueued or given up, within seconds. */
  close(): Promise<void>;
}

/**
 * Enqueues one job at a time, for all that was rung meanwhile; the first of them at once.
 *
 * Nothing is kept for later: what cannot be enqueued now is logged and forgotten, because the sweep finds it in the
 * inbox. So the queue may be away, frozen or full without anybody noticing but by some seconds' delay.
 */
export function makeDoorbell(deps: {
  enqueue: (seqs: readonly number[]) => Promise<void>;
  isReachable: () => boolean;
  /** From a job of so many events to the next one, at least. */
  pauseMs: (events: number) => number;
  clock: Clock;
  logger: Logger;
  tracing?: Tracing | undefined;
}): Doorbell {
  const { enqueue, isReachable, pauseMs, clock, logger, tracing } = deps;
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  const waiting: number[] = [];
  /** Where in their traces those stand who rang; as many at most as positions wait. */
  const ringers: TracePoint[] = [];
  let ringing: Promise<void> | undefined;
  let closed = false;

  function ring(seqs: readonly number[]): void {
    if (closed) return;
    if (waiting.length + seqs.length > WAITING_SEQS_MAX) {
      forget(seqs.length, "too many wait to be enqueued");
      return;
    }
    for (const seq of seqs) waiting.push(seq);
    if (tracing !== undefined) ringers.push(tracing.here());
    // Not at once: the events of one commit are rung one by one, and belong into one job.
    ringing ??= nextTurn().then(enqueueAll);
  }

  async function enqueueAll(): Promise<void> {
    while (waiting.length > 0) {
      const follows = ringers.splice(0, JOB_SEQS_MAX);
      const pause = clock.sleep(pauseMs(Math.min(waiting.length, JOB_SEQS_MAX)));
      if (isReachable()) await enqueueBatch(waiting.splice(0, JOB_SEQS_MAX), follows);
      else forget(waiting.splice(0).length, "the queue cannot be reached");
      await pause;
    }
    ringing = undefined;
  }

  async function enqueueBatch(seqs: readonly number[], follows: readonly TracePoint[]): Promise<void> {
    try {
      const enqueued = inSpan(tracing, "enqueue", { follows }, () => enqueue(seqs));
      const outcome = await withDeadline(enqueued, ENQUEUE_DEADLINE_MS);
      if (outcome === "late") forget(seqs.length, "the queue does not answer");
    } catch (error) {
      forget(seqs.length, "the queue refused the job", error);
    }
  }

  function forget(events: number, reason: string, error?: unknown): void {
    const suppressed = sample(reason);
    if (suppressed === undefined) return;
    const fields = { events, reason, suppressed, ...(error === undefined ? {} : { err: error }) };
    logger.warn(fields, "no job was enqueued for some events; the sweep will find them");
  }

  return {
    ring,
    async close() {
      closed = true;
      if (ringing) await withDeadline(ringing, ENQUEUE_DEADLINE_MS);
    },
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
