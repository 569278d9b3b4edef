import type { Listener } from "../../database/listener.ts";

/** At most this many inbox positions in one hint: as many as the apply path takes in one statement. */
export const HINT_SEQS_MAX = 200;

/**
 * Which events are new, for a worker that can apply them at once. A hint may be lost without anybody noticing: the job
 * for the same events follows it.
 */
export interface Hint {
  /** Inbox positions. */
  readonly seqs: readonly number[];
  /** Where whoever gave the hint stands in its trace, as the header of W3C Trace Context; absent without tracing. */
  readonly traceparent?: string | undefined;
}

/** The way of hints from those who receive to those who apply. */
export interface Hints {
  /** Gives a hint to one of the workers that listen, if any does. Rejects when it could not be handed over. */
  readonly send: (hint: Hint) => Promise<void>;
  /** Calls `onHint`, which must not throw, for each hint that comes here; connects again by itself, for ever. */
  readonly listen: (onHint: (hint: Hint) => void) => Listener;
}

const HINT = /^(\d{1,15}(?:,\d{1,15}){0,999})(?: ([\da-f-]{55}))?$/;

/** A hint as text: positions, and the traceparent if there is one. */
export function writeHint({ seqs, traceparent }: Hint): string {
  return traceparent === undefined ? seqs.join(",") : `${seqs.join(",")} ${traceparent}`;
}

/** A hint from its text, or undefined when it is none of ours. */
export function readHint(text: string): Hint | undefined {
  const [, seqs, traceparent] = HINT.exec(text) ?? [];
  if (seqs === undefined) return undefined;
  return { seqs: seqs.split(",").map(Number), ...(traceparent === undefined ? {} : { traceparent }) };
}
