import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { makeGroupCommit, type GroupCommitLimits } from "../../../src/receive/groupCommit.ts";

// When commits begin; groupCommitModel has what they promise.

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** A group commit whose commits never end. */
function makeHeld(limits: Partial<GroupCommitLimits> = {}) {
  const commits: string[][] = [];
  const { store } = makeGroupCommit({
    insert: (events) => {
      commits.push(events.map((event) => event.eventId));
      return new Promise(() => undefined);
    },
    limits: { commitsInFlightMax: 9, pauseMaxMs: 3, pauseRowsMax: 4, ...limits },
  });
  const send = (...ids: string[]) => {
    const [body, bodyHash] = [Buffer.alloc(10), Buffer.alloc(32)];
    for (const eventId of ids)
      void store({ sourceId: "live", eventId, body, bodyHash, secretIndex: 0, headers: "{}" });
  };
  return { send, commits };
}

it("pauses after a commit for a millisecond for each of its events, up to its limit", () => {
  const { send, commits } = makeHeld({ pauseRowsMax: 9 });
  send("1", "2", "3");
  expect(commits).toEqual([["1"]]);
  vi.advanceTimersByTime(1);
  expect(commits).toEqual([["1"], ["2", "3"]]);
  send("4", "5", "6", "7", "8");
  vi.advanceTimersByTime(1);
  expect(commits).toHaveLength(2);
  vi.advanceTimersByTime(1);
  expect(commits[2]).toEqual(["4", "5", "6", "7", "8"]);
  send("9");
  vi.advanceTimersByTime(2);
  expect(commits).toHaveLength(3);
  vi.advanceTimersByTime(1);
  expect(commits[3]).toEqual(["9"]);
});

it("ends a pause without events, and early when enough wait, but within the allowed concurrent commits", () => {
  const { send, commits } = makeHeld({ commitsInFlightMax: 3 });
  send("0");
  vi.advanceTimersByTime(1);
  send("1", "2", "3", "4");
  expect(commits).toEqual([["0"], ["1"]]);
  send("5");
  expect(commits).toEqual([["0"], ["1"], ["2", "3", "4", "5"]]);
  send("6", "7", "8", "9");
  expect(commits).toHaveLength(3);
});
