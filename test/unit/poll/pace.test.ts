import { describe, expect, it } from "vitest";
import { makeAwaitTurn } from "../../../src/poll/cycle/pace.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

describe("the turn of a list read", () => {
  it("comes no earlier than one gap after the previous one", async () => {
    const clock = makeSimulatedClock();
    const awaitTurn = makeAwaitTurn({ clock, gapMs: 30_000 });
    const turns: number[] = [];
    const { signal } = new AbortController();
    const take = async () => {
      await awaitTurn(signal);
      turns.push(clock.monotonicMs());
      await awaitTurn(signal);
      turns.push(clock.monotonicMs());
    };
    void take();
    await clock.runUntil(29_999);
    expect(turns).toEqual([0]);
    await clock.runUntil(30_000);
    expect(turns).toEqual([0, 30_000]);
  });
  it("ends its wait on abort", async () => {
    const abort = new AbortController();
    abort.abort(new Error("enough"));
    await expect(makeAwaitTurn({ clock: makeSimulatedClock(), gapMs: 0 })(abort.signal)).rejects.toThrow(
      "enough",
    );
  });
});
