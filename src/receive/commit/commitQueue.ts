import type { IncomingEvent } from "./inbox.sql.ts";
import { InboxUnavailableError } from "../errors.ts";

/** What became of an event: its position in the inbox, or null when it was there already. */
export interface StoreReceipt {
  readonly seq: number | null;
}

export interface CommitQueueLimits {
  readonly commitRowsMax: number;
  readonly commitBytesMax: number;
  /** Beyond these the next event is refused at once: it would only wait to time out. */
  readonly waitingRowsMax: number;
  readonly waitingBytesMax: number;
  readonly deadlineMs: number;
}

/** An event and whoever waits to hear of it. */
export interface Waiter {
  readonly event: IncomingEvent;
  /** Only the first call counts. */
  readonly finish: (outcome: StoreReceipt | Error) => void;
  readonly isFinished: () => boolean;
}

/**
 * Where events wait for their commit, in the order they came, for no longer than the deadline.
 * Rows and bytes count until they are finished, so also while their commit is under way.
 */
export class CommitQueue {
  readonly #limits: CommitQueueLimits;
  readonly #waiting: Waiter[] = [];
  #unfinishedRows = 0;
  #unfinishedBytes = 0;

  constructor(limits: CommitQueueLimits) {
    this.#limits = limits;
  }

  /** Rejects with InboxUnavailableError at once when the queue is full, later when the deadline passes. */
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

  /** How many wait for a commit to take them. */
  get waitingRows(): number {
    return this.#waiting.length;
  }

  /** Takes the first that wait, as many as go into one commit; none when nobody waits. */
  takeBatch(): Waiter[] {
    const { commitRowsMax, commitBytesMax } = this.#limits;
    let rows = 0;
    let bytes = 0;
    for (const { event } of this.#waiting) {
      bytes += event.body.length;
      // One event always fits: a limit on its size is the receiver's business.
      if (rows > 0 && (rows >= commitRowsMax || bytes > commitBytesMax)) break;
      rows += 1;
    }
    return this.#waiting.splice(0, rows);
  }

  /** All wait equally long, so those that gave up stand in front. */
  #dropFinished(): void {
    const firstWaiting = this.#waiting.findIndex((waiter) => !waiter.isFinished());
    this.#waiting.splice(0, firstWaiting === -1 ? this.#waiting.length : firstWaiting);
  }
}
