import type { IncomingEvent } from "./inbox.sql.ts";
import { InboxUnavailableError } from "../errors.ts";

/** The result for an event: its position in the inbox, or null if it was already there. */
export interface StoreReceipt {
  readonly seq: number | null;
}

export interface CommitQueueLimits {
  readonly commitRowsMax: number;
  readonly commitBytesMax: number;
  /** Beyond this the next event is refused immediately: it would only wait until it times out. */
  readonly waitingRowsMax: number;
  readonly waitingBytesMax: number;
  readonly deadlineMs: number;
}

/** An event and its caller, who awaits the result. */
export interface Waiter {
  readonly event: IncomingEvent;
  /** Only the first call counts. */
  readonly finish: (outcome: StoreReceipt | Error) => void;
  readonly isFinished: () => boolean;
}

/**
 * Events waiting for their commit, in order of arrival, at most until the deadline. Rows and bytes count until they are
 * finished, including during their commit.
 */
export class CommitQueue {
  readonly #limits: CommitQueueLimits;
  readonly #waiting: Waiter[] = [];
  #unfinishedRows = 0;
  #unfinishedBytes = 0;

  constructor(limits: CommitQueueLimits) {
    this.#limits = limits;
  }

  /** Rejects with InboxUnavailableError: immediately if the queue is full, later if the deadline passes. */
  add(event: IncomingEvent): Promise<StoreReceipt> {
    const { waitingRowsMax, waitingBytesMax } = this.#limits;
    const bytes = event.body.length;
    if (this.#unfinishedRows >= waitingRowsMax || this.#unfinishedBytes + bytes > waitingBytesMax) {
      return Promise.reject(new InboxUnavailableError("Too many events wait for the inbox."));
    }
    this.#unfinishedRows += 1;
    this.#unfinishedBytes += bytes;
    return new Promise((resolve, reject) => {
      let finished = false;
      const finish = (outcome: StoreReceipt | Error) => {
        if (finished) return;
        finished = true;
        clearTimeout(deadline);
        this.#unfinishedRows -= 1;
        this.#unfinishedBytes -= bytes;
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const deadline = setTimeout(() => {
        finish(new InboxUnavailableError("The inbox did not confirm the event in time."));
        this.#dropFinished();
      }, this.#limits.deadlineMs);
      this.#waiting.push({ event, finish, isFinished: () => finished });
    });
  }

  /** How many wait for the next commit. */
  get waitingRows(): number {
    return this.#waiting.length;
  }

  /** Takes the first waiting events, as many as one commit takes; none if nothing is waiting. */
  takeBatch(): Waiter[] {
    const { commitRowsMax, commitBytesMax } = this.#limits;
    let rows = 0;
    let bytes = 0;
    for (const { event } of this.#waiting) {
      bytes += event.body.length;
      // One event always fits: the receiver limits its size.
      if (rows > 0 && (rows >= commitRowsMax || bytes > commitBytesMax)) break;
      rows += 1;
    }
    return this.#waiting.splice(0, rows);
  }

  /** All have the same deadline, so expired ones are at the front. */
  #dropFinished(): void {
    const firstWaiting = this.#waiting.findIndex((waiter) => !waiter.isFinished());
    this.#waiting.splice(0, firstWaiting === -1 ? this.#waiting.length : firstWaiting);
  }
}
