import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { DeadlineReached, withDeadline, withSignals } from "../../../src/process/abort.ts";

/** Settles as its signal does, like `fetch`. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error));
  });
const listenersOf = ({ signal }: AbortController) => getEventListeners(signal, "abort");

it("ends work at its deadline", async () => {
  const work = withDeadline({ deadlineMs: 5, signal: undefined }, untilAborted);
  await expect(work).rejects.toBeInstanceOf(DeadlineReached);
});

it("ends work with the reason of the signal that is aborted first, and lets go of all", async () => {
  const [left, right] = [new AbortController(), new AbortController()];
  const reason = new Error("shutting down");
  const work = withDeadline({ deadlineMs: 60_000, signal: right.signal }, (signal) =>
    withSignals([left.signal, undefined, signal], untilAborted),
  );
  right.abort(reason);
  left.abort(new Error("later"));
  await expect(work).rejects.toBe(reason);
  expect([left, right].flatMap(listenersOf)).toEqual([]);
});

it("does not begin work whose caller has given up", async () => {
  const reason = new Error("shutting down");
  let begun = false;
  const work = withDeadline({ deadlineMs: 60_000, signal: AbortSignal.abort(reason) }, async () => {
    begun = true;
  });
  await expect(work).rejects.toBe(reason);
  expect(begun).toBe(false);
});
