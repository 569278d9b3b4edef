import { describeAge, describeSpan } from "../domain/duration.ts";

/** A request for a single read of an order; its times are in seconds. */
export interface WaitingRead {
  readonly ageSeconds: number;
  /** Zero or less: it is due. */
  readonly waitSeconds: number;
  readonly attempts: number;
  /** The last read was answered `order_not_found`, which a second one must confirm. */
  readonly isMissed: boolean;
}

/** Says what an order's single read waits for. */
export function describeWaitingRead({ ageSeconds, waitSeconds, attempts, isMissed }: WaitingRead): string {
  const tried = attempts === 0 ? "" : `, tried ${attempts === 1 ? "once" : `${attempts} times`} so far`;
  const missed = isMissed ? ", and the provider answered that there is no such order" : "";
  const next = waitSeconds > 0 ? `not before ${describeSpan(waitSeconds)} have passed` : "in its next cycle";
  return `Waiting for a single read: requested ${describeAge(ageSeconds)}${tried}${missed}; the poller does it ${next}.`;
}
