import { describe, expect, it } from "vitest";
import { withSignals } from "../../../src/process/abort.ts";

describe("several signals", () => {
  it("abort the work with the reason of the first one, and are released afterwards", async () => {
    const [left, right] = [new AbortController(), new AbortController()];
    let seen: AbortSignal | undefined;
    const work = withSignals([left.signal, undefined, right.signal], async (signal) => {
      seen = signal;
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      throw signal.reason;
    });
    right.abort(new Error("right"));
    left.abort(new Error("left"));
    await expect(work).rejects.toThrow("right");
    expect(seen?.reason).toEqual(new Error("right"));
  });
  it("keep the work from starting when one is aborted already", async () => {
    const abort = new AbortController();
    abort.abort(new Error("enough"));
    await expect(withSignals([abort.signal], async () => "done")).rejects.toThrow("enough");
  });
});
