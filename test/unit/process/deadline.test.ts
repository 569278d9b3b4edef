import { expect, it } from "vitest";
import { DeadlineReached, withDeadline } from "../../../src/process/abort.ts";

/** Settles as its signal does, like `fetch`. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error));
  });

it("ends work that takes too long", async () => {
  await expect(withDeadline({ deadlineMs: 5, signal: undefined }, untilAborted)).rejects.toBeInstanceOf(
    DeadlineReached,
  );
});

it("ends work that the caller aborts, with the caller's reason", async () => {
  const control = new AbortController();
  const reason = new Error("shutting down");
  const working = withDeadline({ deadlineMs: 60_000, signal: control.signal }, untilAborted);
  control.abort(reason);
  await expect(working).rejects.toBe(reason);
});

it("does not start work that the caller has already aborted", async () => {
  const reason = new Error("shutting down");
  let begun = false;
  const working = withDeadline({ deadlineMs: 60_000, signal: AbortSignal.abort(reason) }, async () => {
    begun = true;
  });
  await expect(working).rejects.toBe(reason);
  expect(begun).toBe(false);
});
