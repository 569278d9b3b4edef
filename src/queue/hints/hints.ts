import type { Listener } from "../../database/listener.ts";

/** The maximum number of inbox positions in one hint: as many as the apply path takes in one statement. */
export const HINT_SEQS_MAX = 200;

/** New events, for a worker to apply at once. A hint may be lost: the job for the same events follows. */
export interface Hint {
  readonly seqs: readonly number[];
  /** The sender's position in its trace, as the header of W3C Trace Context; absent without tracing. */
  readonly traceparent?: string | undefined;
}

export interface Hints {
  /** Sends a hint to one of the listening workers, if there is one. Rejects if it could not be delivered. */
  readonly send: (hint: Hint) => Promise<void>;
  /** Calls `onHint`, which must not throw, for each hint that arrives; reconnects automatically, forever. */
  readonly listen: (onHint: (hint: Hint) => void) => Listener;
}

const HINT = /^(\d{1,15}(?:,\d{1,15}){0,999})(?: ([\da-f-]{55}))?$/;

/** A hint as text: positions, and the traceparent if there is one. */
export function writeHint({ seqs, traceparent }: Hint): string {
  return traceparent === undefined ? seqs.join(",") : `${seqs.join(",")} ${traceparent}`;
}

/** Parses a hint, or returns undefined if it is not ours. */
export function readHint(text: string): Hint | undefined {
  const [, seqs, traceparent] = HINT.exec(text) ?? [];
  if (seqs === undefined) return undefined;
  return { seqs: seqs.split(",").map(Number), ...(traceparent === undefined ? {} : { traceparent }) };
}
