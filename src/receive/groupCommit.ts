import { classifyDatabaseError } from "../database/databaseErrors.ts";
import { OrderMirrorError, UnavailableError } from "../domain/errors.ts";
import type { IncomingEvent, StoredEvent } from "./inbox.sql.ts";

/** Postgres refuses this one event because of its content or our setup; trying again would not help. */
class EventRefusedError extends OrderMirrorError {
  override readonly name = "EventRefusedError";
  override readonly retry = "never";
}

/** The result for an event: its position in the inbox, or null if it was already there. */
export interface StoreReceipt {
  readonly seq: number | null;
}

export interface GroupCommitLimits {
  readonly commitRowsMax: number;
  readonly commitBytesMax: number;
  /** Beyond this the next event is refused immediately: it would only wait until it times out. */
  readonly waitingRowsMax: number;
  readonly waitingBytesMax: number;
  readonly deadlineMs: number;
  readonly commitsInFlightMax: number;
  /** The pause after the start of a commit, in milliseconds, is the number of its events, at most this. */
  readonly pauseMaxMs: number;
  /** If this many events are waiting, the next commit starts without a pause. */
  readonly pauseRowsMax: number;
}

const LIMITS: GroupCommitLimits = {
  commitRowsMax: 256,
  commitBytesMax: 8 * 1_048_576,
  waitingRowsMax: 4_096,
  waitingBytesMax: 32 * 1_048_576,
  commitsInFlightMax: 2,
  pauseMaxMs: 3,
  pauseRowsMax: 16,
  // Senders give up after as little as 3 to 5 s, and count that as our failure.
  deadlineMs: 2_000,
};

export interface GroupCommit {
  /**
   * Resolves when the event is committed. Rejects with UnavailableError if that is not certain after at most 2 s, when
   * the row may have been written all the same, so that the sender's next try is a duplicate; and with
   * EventRefusedError if Postgres refuses this event.
   */
  readonly store: (event: IncomingEvent) => Promise<StoreReceipt>;
}

/**
 * Group commit: events that arrive during a commit, or right after one has started, share the next one.
 *
 * A commit costs the same for one row as for a hundred, here and in the queue and the worker. So the next one is
 * delayed, and longer under load: not at all for a single event, and never for long (measured: at 2,000 events per
 * second it saves a quarter of a core). `insert` is one transaction: all of its events or none.
 */
export function makeGroupCommit(deps: {
  insert: (events: readonly IncomingEvent[]) => Promise<readonly StoredEvent[]>;
  /** For tests; the product uses the defaults. */
  limits?: Partial<GroupCommitLimits>;
}): GroupCommit {
  const { insert } = deps;
  const limits = { ...LIMITS, ...deps.limits };
  const queue = new CommitQueue(limits);
  let commitsInFlight = 0;
  let pause: NodeJS.Timeout | undefined;

  function commitNext(): void {
    while (commitsInFlight < limits.commitsInFlightMax) {
      if (pause !== undefined && queue.waitingRows < limits.pauseRowsMax) return;
      const batch = queue.takeBatch();
      if (batch.length === 0) return;
      commitsInFlight += 1;
      beginPause(batch.length);
      void commit(batch).finally(() => {
        commitsInFlight -= 1;
        commitNext();
      });
    }
  }

  function beginPause(events: number): void {
    clearTimeout(pause);
    pause = setTimeout(
      () => {
        pause = undefined;
        commitNext();
      },
      Math.min(events, limits.pauseMaxMs),
    );
  }

  async function commit(batch: readonly Waiter[]): Promise<void> {
    try {
      finishStored(batch, await insert(batch.map((waiter) => waiter.event)));
    } catch (error) {
      if (classifyDatabaseError(error) !== "refused-content")
        failAll(batch, new UnavailableError("The inbox could not be written.", { cause: error }));
      else if (batch.length === 1) {
        const fix = "See the SQLSTATE in the log.";
        failAll(batch, new EventRefusedError("Postgres refused the event.", { cause: error, fix }));
      } else await commitSingly(batch);
    }
  }

  /** Commits each event by itself: a bad row must not fail the others of its batch. */
  async function commitSingly(batch: readonly Waiter[]): Promise<void> {
    for (const waiter of batch) {
      if (!waiter.isFinished()) await commit([waiter]);
    }
  }

  return {
    store(event) {
      const receipt = queue.add(event);
      commitNext();
      return receipt;
    },
  };
}

function finishStored(batch: readonly Waiter[], stored: readonly StoredEvent[]): void {
  const seqs = new Map(stored.map(({ index, seq }) => [index, seq]));
  for (const [index, waiter] of batch.entries()) waiter.finish({ seq: seqs.get(index) ?? null });
}

function failAll(batch: readonly Waiter[], error: Error): void {
  for (const waiter of batch) waiter.finish(error);
}

/** An event and its caller, who awaits the result. */
interface Waiter {
  readonly event: IncomingEvent;
  /** Only the first call counts. */
  readonly finish: (outcome: StoreReceipt | Error) => void;
  readonly isFinished: () => boolean;
}

/**
 * Events waiting for their commit, in order of arrival, at most until the deadline. Rows and bytes count until they are
 * finished, including during their commit.
 */
class CommitQueue {
  readonly #limits: GroupCommitLimits;
  readonly #waiting: Waiter[] = [];
  #unfinishedRows = 0;
  #unfinishedBytes = 0;

  constructor(limits: GroupCommitLimits) {
    this.#limits = limits;
  }

  /** Rejects with UnavailableError: immediately if the queue is full, later if the deadline passes. */
  add(event: IncomingEvent): Promise<StoreReceipt> {
    const { waitingRowsMax, waitingBytesMax } = this.#limits;
    const bytes = event.body.length;
    if (this.#unfinishedRows >= waitingRowsMax || this.#unfinishedBytes + bytes > waitingBytesMax) {
      return Promise.reject(new UnavailableError("Too many events wait for the inbox."));
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
        finish(new UnavailableError("The inbox did not confirm the event in time."));
        this.#dropFinished();
      }, this.#limits.deadlineMs);
      this.#waiting.push({ event, finish, isFinished: () => finished });
    });
  }

  /** Number of events that wait for the next commit. */
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
