import { describeAge, describeSpan } from "../domain/duration.ts";

// What the mirror does not know of an order yet, and how that will end, for pages and command line.

/** A request for a single read of an order; its times are in seconds. */
export interface WaitingRead {
  readonly ageSeconds: number;
  /** Zero or less: it is due. */
  readonly waitSeconds: number;
  readonly attempts: number;
  /** The last read was answered `order_not_found`, which a second one must confirm. */
  readonly isMissed: boolean;
  /** A person paused polling of its source. */
  readonly isPaused: boolean;
}

/** Says what an order's single read waits for. */
export function describeWaitingRead(read: WaitingRead): string {
  const { ageSeconds, waitSeconds, attempts, isMissed, isPaused } = read;
  const tried = attempts === 0 ? "" : `, tried ${attempts === 1 ? "once" : `${attempts} times`} so far`;
  const missed = isMissed ? ", and the provider answered that there is no such order" : "";
  const due = waitSeconds > 0 ? `not before ${describeSpan(waitSeconds)} have passed` : "in its next cycle";
  const next = isPaused ? "once polling is resumed" : due;
  return `Waiting for a single read: requested ${describeAge(ageSeconds)}${tried}${missed}; the poller does it ${next}.`;
}

const EXCEPTIONS: Readonly<Record<string, string>> = {
  missing: "a single read did not find it",
  unconfirmed: "the reads of its time did not show it",
  replayed: "it was replayed, and is not read yet",
  late_event: "an event changed it late, and no read has confirmed that",
};

/** Says why "complete up to" excludes an order, by the kind of its row in mirror.exceptions. */
export function describeException(kind: string): string {
  return EXCEPTIONS[kind] ?? "what was read of it could not be understood, or it could not be read";
}
