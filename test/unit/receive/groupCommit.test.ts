import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { IncomingEvent, StoredEvent } from "../../../src/receive/inbox.sql.ts";
import { UnavailableError } from "../../../src/domain/errors.ts";
import {
  EventRefusedError,
  makeGroupCommit,
  type GroupCommitLimits,
} from "../../../src/receive/groupCommit.ts";

function makeEvent(eventId: string, bytes = 10): IncomingEvent {
  return {
    sourceId: "live",
    eventId,
    body: Buffer.alloc(bytes),
    bodyHash: Buffer.alloc(32),
    secretIndex: 0,
    headers: "{}",
  };
}

interface Commit {
  readonly ids: string[];
  succeed(): void;
  fail(error: Error): void;
}

/** A group commit that never pauses, whose commits end when the test ends them. */
function makeHeld(limits: Partial<GroupCommitLimits> = {}) {
  const commits: Commit[] = [];
  const insert = (events: readonly IncomingEvent[]) =>
    new Promise<StoredEvent[]>((resolve, reject) => {
      commits.push({
        ids: events.map((event) => event.eventId),
        succeed: () => resolve(events.map((event, index) => ({ index, seq: Number(event.eventId) }))),
        fail: reject,
      });
    });
  const { store } = makeGroupCommit({
    insert,
    limits: { commitsInFlightMax: 1, pauseRowsMax: 0, ...limits },
  });
  return { store, commits };
}

const SOON = { timeout: 60_000, interval: 5 };
const refusal = () => Object.assign(new Error("no such source"), { code: "23503" });

describe("group commit", () => {
  it("commits the first event immediately, and those that arrive meanwhile together", async () => {
    const { store, commits } = makeHeld();
    const receipts = ["1", "2", "3", "4"].map((id) => store(makeEvent(id)));
    expect(commits.map((commit) => commit.ids)).toEqual([["1"]]);
    commits[0]?.succeed();
    await expect(receipts[0]).resolves.toEqual({ seq: 1 });
    await vi.waitFor(() => expect(commits).toHaveLength(2), SOON);
    expect(commits[1]?.ids).toEqual(["2", "3", "4"]);
    commits[1]?.succeed();
    await expect(Promise.all(receipts)).resolves.toEqual([1, 2, 3, 4].map((seq) => ({ seq })));
  });

  it("refuses an event beyond its rows or bytes immediately, and accepts one when another is done", async () => {
    const byRows = makeHeld({ waitingRowsMax: 2 });
    const byBytes = makeHeld({ waitingBytesMax: 20 });
    for (const { store, commits } of [byRows, byBytes]) {
      const first = store(makeEvent("1"));
      store(makeEvent("2")).catch(() => undefined);
      await expect(store(makeEvent("3"))).rejects.toThrow(UnavailableError);
      commits[0]?.succeed();
      await first;
      const third = store(makeEvent("3"));
      await vi.waitFor(() => expect(commits).toHaveLength(2), SOON);
      commits[1]?.succeed();
      await expect(third).resolves.toEqual({ seq: 3 });
    }
  });

  it("stores the rows of a batch one by one when one is refused, so that only that one fails", async () => {
    const calls: string[][] = [];
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const insert = async (events: readonly IncomingEvent[]) => {
      const ids = events.map((event) => event.eventId);
      calls.push(ids);
      if (ids[0] === "1") await held;
      if (ids.includes("3")) throw refusal();
      return events.map((event, index) => ({ index, seq: Number(event.eventId) }));
    };
    const { store } = makeGroupCommit({ insert, limits: { commitsInFlightMax: 1 } });
    const receipts = ["1", "2", "3", "4"].map((id) => store(makeEvent(id)));
    release();
    const outcomes = await Promise.allSettled(receipts);
    const refused = { status: "rejected", reason: expect.any(EventRefusedError) };
    expect(outcomes).toMatchObject(
      [1, 2, refused, 4].map((seq) => (seq === refused ? refused : { value: { seq } })),
    );
    expect(calls).toEqual([["1"], ["2", "3", "4"], ["2"], ["3"], ["4"]]);
  });

  it("fails after the deadline, whether the event still waits or its commit is running", async () => {
    const { store, commits } = makeHeld({ deadlineMs: 300, waitingRowsMax: 2 });
    const outcomes = await Promise.allSettled([store(makeEvent("1")), store(makeEvent("2"))]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: expect.any(UnavailableError) });
    }
    // The waiting event is no longer stored, and neither uses capacity.
    const third = store(makeEvent("3"));
    commits[0]?.succeed();
    await vi.waitFor(() => expect(commits).toHaveLength(2), SOON);
    expect(commits[1]?.ids).toEqual(["3"]);
    commits[1]?.succeed();
    await expect(third).resolves.toEqual({ seq: 3 });
  });
});

describe("the pause after a commit", () => {
  const LIMITS = { commitsInFlightMax: 2, pauseMaxMs: 3, pauseRowsMax: 4 };
  const idsOf = (commits: readonly Commit[]) => commits.map((commit) => commit.ids);
  function storeAll(held: ReturnType<typeof makeHeld>, ids: readonly string[]): void {
    for (const id of ids) held.store(makeEvent(id)).catch(() => undefined);
  }
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("lasts a millisecond for each of its events, up to its limit", () => {
    const held = makeHeld({ ...LIMITS, commitsInFlightMax: 9, pauseRowsMax: 9 });
    storeAll(held, ["1", "2", "3"]);
    expect(idsOf(held.commits)).toEqual([["1"]]);
    vi.advanceTimersByTime(1);
    expect(idsOf(held.commits)).toEqual([["1"], ["2", "3"]]);
    storeAll(held, ["4", "5", "6", "7", "8"]);
    vi.advanceTimersByTime(1);
    expect(held.commits).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(held.commits[2]?.ids).toEqual(["4", "5", "6", "7", "8"]);
    storeAll(held, ["9"]);
    vi.advanceTimersByTime(2);
    expect(held.commits).toHaveLength(3);
    vi.advanceTimersByTime(1);
    expect(held.commits[3]?.ids).toEqual(["9"]);
  });

  it("ends without events, and early when enough wait, but within the allowed concurrent commits", () => {
    const held = makeHeld({ ...LIMITS, commitsInFlightMax: 3 });
    storeAll(held, ["0"]);
    vi.advanceTimersByTime(1);
    storeAll(held, ["1", "2", "3", "4"]);
    expect(idsOf(held.commits)).toEqual([["0"], ["1"]]);
    storeAll(held, ["5"]);
    expect(idsOf(held.commits)).toEqual([["0"], ["1"], ["2", "3", "4", "5"]]);
    storeAll(held, ["6", "7", "8", "9"]);
    expect(held.commits).toHaveLength(3);
  });
});
