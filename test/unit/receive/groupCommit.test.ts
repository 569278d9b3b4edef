import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { StoredEvent } from "../../../src/receive/inbox.sql.ts";
import { makeGroupCommit, type GroupCommitLimits } from "../../../src/receive/groupCommit.ts";

// When commits begin; groupCommitModel has what they promise.

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A group commit whose commits end when the test ends them. */
function makeHeld(limits: Partial<GroupCommitLimits> = {}) {
  const commits: { readonly ids: string[]; readonly succeed: () => void }[] = [];
  const { store } = makeGroupCommit({
    insert: (events) =>
      new Promise<StoredEvent[]>((resolve) => {
        commits.push({
          ids: events.map((event) => event.eventId),
          succeed: () => resolve(events.map((event, index) => ({ index, seq: Number(event.eventId) }))),
        });
      }),
    limits: { commitsInFlightMax: 2, pauseMaxMs: 3, pauseRowsMax: 4, ...limits },
  });
  const send = (...ids: string[]) =>
    ids.map((eventId) => {
      const [body, bodyHash] = [Buffer.alloc(10), Buffer.alloc(32)];
      return store({ sourceId: "live", eventId, body, bodyHash, secretIndex: 0, headers: "{}" });
    });
  return { send, commits, idsOf: () => commits.map(({ ids }) => ids) };
}

it("commits the first event immediately, and those that arrive meanwhile together", async () => {
  const { send, commits, idsOf } = makeHeld({ commitsInFlightMax: 1, pauseRowsMax: 0 });
  const receipts = send("1", "2", "3", "4");
  expect(idsOf()).toEqual([["1"]]);
  commits[0]?.succeed();
  await expect(receipts[0]).resolves.toEqual({ seq: 1 });
  await vi.waitFor(() => expect(idsOf()).toEqual([["1"], ["2", "3", "4"]]));
  commits[1]?.succeed();
  await expect(Promise.all(receipts)).resolves.toEqual([1, 2, 3, 4].map((seq) => ({ seq })));
});

it("pauses after a commit for a millisecond for each of its events, up to its limit", () => {
  const { send, commits, idsOf } = makeHeld({ commitsInFlightMax: 9, pauseRowsMax: 9 });
  void send("1", "2", "3");
  expect(idsOf()).toEqual([["1"]]);
  vi.advanceTimersByTime(1);
  expect(idsOf()).toEqual([["1"], ["2", "3"]]);
  void send("4", "5", "6", "7", "8");
  vi.advanceTimersByTime(1);
  expect(commits).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(commits[2]?.ids).toEqual(["4", "5", "6", "7", "8"]);
  void send("9");
  vi.advanceTimersByTime(2);
  expect(commits).toHaveLength(3);
  vi.advanceTimersByTime(1);
  expect(commits[3]?.ids).toEqual(["9"]);
});

it("ends a pause without events, and early when enough wait, but within the allowed concurrent commits", () => {
  const { send, commits, idsOf } = makeHeld({ commitsInFlightMax: 3 });
  void send("0");
  vi.advanceTimersByTime(1);
  void send("1", "2", "3", "4");
  expect(idsOf()).toEqual([["0"], ["1"]]);
  void send("5");
  expect(idsOf()).toEqual([["0"], ["1"], ["2", "3", "4", "5"]]);
  void send("6", "7", "8", "9");
  expect(commits).toHaveLength(3);
});
