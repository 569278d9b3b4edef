import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { inSpan } from "../runtime/telemetry/tracing.ts";
import type { TracePoint, Tracing } from "../runtime/telemetry/tracing.ts";
import { unlessLate } from "../runtime/lifecycle/abort.ts";

const WAITING_SEQS_MAX = 10_000;
const SEND_DEADLINE_MS = 2_000;
const LOG_INTERVAL_MS = 10_000;

export interface Notifier {
  /** Schedules a message about these inbox positions. Never throws and never waits. */
  notify(seqs: readonly number[]): void;
  /** Takes no more; resolves within seconds, when the pending messages are sent or abandoned. */
  close(): Promise<void>;
}

/** Called with the number of events without a message, and the reason. */
type OnForgotten = (events: number, reason: string, error?: unknown) => void;

export interface NotifierOptions {
  readonly name: string;
  readonly send: (seqs: readonly number[]) => Promise<void>;
  /** The maximum number of positions in one message. */
  readonly seqsMax: number;
  /** From the first notified position to its message; 0: in the next turn of the event loop. */
  readonly delayMs: number;
  /** The minimum pause after a message about this many events. */
  readonly pauseMs: (events: number) => number;
  readonly onForgotten: OnForgotten;
}

/**
 * Sends one message at a time, about everything notified meanwhile.
 *
 * Nothing is stored for later: what cannot be sent now is forgotten, because the overdue check finds it in the inbox.
 * So the queue may be unavailable, frozen or full, and the only effect is a delay of some seconds.
 */
export function makeNotifier(
  deps: NotifierOptions & {
    readonly isReachable: () => boolean;
    readonly clock: Clock;
    readonly tracing?: Tracing | undefined;
  },
): Notifier {
  const { name, send, seqsMax, delayMs, pauseMs, onForgotten, isReachable, clock, tracing } = deps;
  const waiting: number[] = [];
  /** Trace positions of the callers; at most as many as waiting positions. */
  const callers: TracePoint[] = [];
  let sending: Promise<void> | undefined;
  let closed = false;

  function notify(seqs: readonly number[]): void {
    if (closed) return;
    if (waiting.length + seqs.length > WAITING_SEQS_MAX) {
      onForgotten(seqs.length, "too many wait to be enqueued");
      return;
    }
    for (const seq of seqs) waiting.push(seq);
    if (tracing !== undefined) callers.push(tracing.here());
    // Not immediately: the events of one commit are notified one by one, and belong in one message.
    sending ??= (delayMs === 0 ? nextTurn() : clock.sleep(delayMs)).then(sendAll);
  }

  async function sendAll(): Promise<void> {
    while (waiting.length > 0) {
      const follows = callers.splice(0, seqsMax);
      const pause = clock.sleep(pauseMs(Math.min(waiting.length, seqsMax)));
      if (isReachable()) await sendOne(waiting.splice(0, seqsMax), follows);
      else {
        callers.length = 0;
        onForgotten(waiting.splice(0).length, "the queue cannot be reached");
      }
      await pause;
    }
    sending = undefined;
  }

  async function sendOne(seqs: readonly number[], follows: readonly TracePoint[]): Promise<void> {
    try {
      const sent = inSpan(tracing, name, { follows }, () => send(seqs));
      const outcome = await unlessLate(sent, SEND_DEADLINE_MS);
      if (outcome === "late") onForgotten(seqs.length, "the queue does not answer");
    } catch (error) {
      onForgotten(seqs.length, "the queue refused the job", error);
    }
  }

  return {
    notify,
    async close() {
      closed = true;
      if (sending) await unlessLate(sending, SEND_DEADLINE_MS);
    },
  };
}

/** Logs the number of events without a job; one line per reason in ten seconds. */
export function logForgotten({ clock, logger }: { clock: Clock; logger: Logger }): OnForgotten {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (events, reason, error) => {
    const suppressed = sample(reason);
    if (suppressed === undefined) return;
    const fields = { events, reason, suppressed, ...(error === undefined ? {} : { err: error }) };
    logger.warn(fields, "no job was enqueued for some events; the overdue check will find them");
  };
}
