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
  /** Has a message about these inbox positions sent soon. Never throws and never waits. */
  notify(seqs: readonly number[]): void;
  /** Takes no more; resolves when what was notified is sent or given up, within seconds. */
  close(): Promise<void>;
}

/** Called with events for which no message was sent, and why. */
type OnForgotten = (events: number, reason: string, error?: unknown) => void;

/** What a notifier sends, and when. */
export interface NotifierOptions {
  /** What sending is called in a trace. */
  readonly name: string;
  readonly send: (seqs: readonly number[]) => Promise<void>;
  /** At most so many positions in one message. */
  readonly seqsMax: number;
  /** From the first position that is notified to the message about it; 0: in the next turn of the event loop. */
  readonly delayMs: number;
  /** From a message about so many events to the next one, at least. */
  readonly pauseMs: (events: number) => number;
  readonly onForgotten: OnForgotten;
}

/**
 * Sends one message at a time, about all that was notified meanwhile.
 *
 * Nothing is kept for later: what cannot be sent now is forgotten, because the overdue check finds it in the inbox. So the
 * queue may be away, frozen or full without anybody noticing but by some seconds' delay.
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
  /** Where in their traces those stand who notified; as many at most as positions wait. */
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
    // Not at once: the events of one commit are notified one by one, and belong into one message.
    sending ??= (delayMs === 0 ? nextTurn() : clock.sleep(delayMs)).then(sendAll);
  }

  async function sendAll(): Promise<void> {
    while (waiting.length > 0) {
      const follows = callers.splice(0, seqsMax);
      const pause = clock.sleep(pauseMs(Math.min(waiting.length, seqsMax)));
      if (isReachable()) await sendOne(waiting.splice(0, seqsMax), follows);
      else onForgotten(waiting.splice(0).length, "the queue cannot be reached");
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

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Logs for how many events there is no job; one line for each reason in ten seconds. */
export function logForgotten({ clock, logger }: { clock: Clock; logger: Logger }): OnForgotten {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (events, reason, error) => {
    const suppressed = sample(reason);
    if (suppressed === undefined) return;
    const fields = { events, reason, suppressed, ...(error === undefined ? {} : { err: error }) };
    logger.warn(fields, "no job was enqueued for some events; the overdue check will find them");
  };
}
