import { classifyDatabaseError } from "../mirror/databaseErrors.ts";
import type { IncomingEvent, StoredEvent } from "../mirror/inbox.ts";
import { EventRefusedError, InboxUnavailableError } from "./errors.ts";
import { WaitingRoom } from "./waitingRoom.ts";
import type { StoreReceipt, Waiter, WaitingRoomLimits } from "./waitingRoom.ts";

export interface GroupCommitLimits extends WaitingRoomLimits {
  readonly commitsInFlightMax: number;
}

const LIMITS: GroupCommitLimits = {
  commitRowsMax: 256,
  commitBytesMax: 8 * 1_048_576,
  waitingRowsMax: 4_096,
  waitingBytesMax: 32 * 1_048_576,
  commitsInFlightMax: 2,
  // Senders give up after as little as 3 to 5 s, and count that as a failure of ours.
  deadlineMs: 2_000,
};

export interface GroupCommit {
  /**
   * Resolves when the event is committed. Rejects with InboxUnavailableError, 2 s after the call at the latest,
   * when that is not known to be so; with EventRefusedError when Postgres will not have this event.
   */
  readonly store: (event: IncomingEvent) => Promise<StoreReceipt>;
}

/**
 * Group commit without a timer: events that come while a commit is under way go into the next one together.
 *
 * A commit costs the same for one row as for a hundred, so it is fast where much comes in, and adds no wait
 * where little does. `insert` is one transaction: all of its events or none.
 */
export function makeGroupCommit(deps: {
  insert: (events: readonly IncomingEvent[]) => Promise<readonly StoredEvent[]>;
  /** For tests; the product runs on the defaults. */
  limits?: Partial<GroupCommitLimits>;
}): GroupCommit {
  const { insert } = deps;
  const limits = { ...LIMITS, ...deps.limits };
  const room = new WaitingRoom(limits);
  let commitsInFlight = 0;

  function commitNext(): void {
    while (commitsInFlight < limits.commitsInFlightMax) {
      const batch = room.takeBatch();
      if (batch.length === 0) return;
      commitsInFlight += 1;
      void commit(batch).finally(() => {
        commitsInFlight -= 1;
        commitNext();
      });
    }
  }

  async function commit(batch: readonly Waiter[]): Promise<void> {
    try {
      settleStored(batch, await insert(batch.map((waiter) => waiter.event)));
    } catch (error) {
      if (classifyDatabaseError(error) !== "refused-content") settleAll(batch, unavailable(error));
      else if (batch.length === 1) settleAll(batch, refused(error));
      else await commitSingly(batch);
    }
  }

  /** One bad row must not fail the others of its batch. */
  async function commitSingly(batch: readonly Waiter[]): Promise<void> {
    for (const waiter of batch) {
      if (!waiter.isSettled()) await commit([waiter]);
    }
  }

  return {
    store(event) {
      const receipt = room.enter(event);
      commitNext();
      return receipt;
    },
  };
}

function settleStored(batch: readonly Waiter[], stored: readonly StoredEvent[]): void {
  const seqs = new Map(stored.map(({ index, seq }) => [index, seq]));
  for (const [index, waiter] of batch.entries()) waiter.settle({ seq: seqs.get(index) ?? null });
}

function settleAll(batch: readonly Waiter[], error: Error): void {
  for (const waiter of batch) waiter.settle(error);
}

function unavailable(cause: unknown): Error {
  return new InboxUnavailableError("The inbox could not be written.", { cause });
}

function refused(cause: unknown): Error {
  return new EventRefusedError("Postgres refused the event.", {
    cause,
    fix: "See the SQLSTATE in the log.",
  });
}
