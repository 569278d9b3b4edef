import { describe, expect, it } from "vitest";
import type { CycleCounts } from "../../../src/poll/cycle/runSweeps.ts";
import { makeAwaitTurn } from "../../../src/poll/cycle/pace.ts";
import { makePollLog } from "../../../src/poll/leader/pollLog.ts";
import { withSignals } from "../../../src/runtime/lifecycle/abort.ts";
import { makeSpan } from "../../../src/poll/cycle/span.ts";
import { synchronizeClock } from "../../../src/poll/cycle/synchronizeClock.ts";
import { InvalidApiKeyError, ProviderRefusedError, RateLimitedError } from "../../../src/provider/errors.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeMemoryProvider } from "../../support/memoryProvider.ts";
import { makeSimulatedClock } from "../../support/simulatedClock.ts";

const facts = { status: 400, code: "x", requestId: null };

describe("the span of windows", () => {
  it("is halved down to what can still be cut, by the window that was too much, and doubled up to its bound", () => {
    const span = makeSpan({ seconds: 100, max: 150 });
    const window = (seconds: number) => ({ since: 0n, until: BigInt(seconds) * 10n ** 9n });
    span.lengthen();
    expect(span.seconds()).toBe(150);
    span.shorten(window(1_000));
    expect(span.seconds()).toBe(75);
    span.shorten(window(10));
    expect(span.seconds()).toBe(5);
    span.shorten(window(10));
    span.shorten(window(10));
    expect(span.seconds()).toBe(2);
  });
});

describe("the turn of a list read", () => {
  it("comes no sooner than the gap after the one before", async () => {
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
  it("is not waited for once aborted", async () => {
    const abort = new AbortController();
    abort.abort(new Error("enough"));
    await expect(makeAwaitTurn({ clock: makeSimulatedClock(), gapMs: 0 })(abort.signal)).rejects.toThrow(
      "enough",
    );
  });
});

describe("several signals", () => {
  it("abort the work with the reason of the first one, and are let go of afterwards", async () => {
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

describe("the provider's clock", () => {
  const { signal } = new AbortController();
  const makeClient = (answer: () => Promise<never>, teaches: boolean) => {
    const { providerClock } = makeMemoryProvider();
    let asked = 0;
    return {
      asked: () => asked,
      providerClock: { ...providerClock, isSynchronized: () => teaches && asked > 0 },
      listBranches: () => {
        asked += 1;
        return answer();
      },
    };
  };
  const refused = () => Promise.reject(new ProviderRefusedError("refused", facts));
  it("is asked for once, and learnt from a refusal as well", async () => {
    const client = makeClient(refused, true);
    await synchronizeClock(client, signal);
    await synchronizeClock(client, signal);
    expect(client.asked()).toBe(1);
  });
  it("is not polled by when it cannot be learnt, nor with a key that is refused", async () => {
    await expect(synchronizeClock(makeClient(refused, false), signal)).rejects.toThrow(ProviderRefusedError);
    const unauthorized = () => Promise.reject(new InvalidApiKeyError("refused", facts));
    await expect(synchronizeClock(makeClient(unauthorized, true), signal)).rejects.toThrow(
      InvalidApiKeyError,
    );
  });
});

describe("the log of polling", () => {
  const makeSut = () => {
    const lines: { level: string; msg: string }[] = [];
    const destination = { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[0]) };
    const log = makePollLog(makeLogger({ level: "info", format: "json", service: "test", destination }));
    return { log, said: () => lines.splice(0).map(({ level, msg }) => `${level}: ${msg}`) };
  };
  const counts = { spareError: undefined } as CycleCounts;
  const limited = new RateLimitedError(
    "429",
    { ...facts, code: "rate_limit_exceeded" },
    { retryAfterMs: 1, policy: null },
  );

  it("says once what is wrong, again when it is something else, and once that it is right again", () => {
    const { log, said } = makeSut();
    log.succeeded(counts, 0);
    expect(said()).toEqual([]);
    log.failed(limited, 1);
    log.failed(limited, 2);
    expect(said()).toEqual(["warn: polling failed; it resumes from the same place"]);
    log.failed(new InvalidApiKeyError("401", facts), 3);
    log.failed(new InvalidApiKeyError("401", facts), 3);
    expect(said()).toEqual([
      "error: the provider refuses the API key; nothing is polled until it is replaced",
    ]);
    log.failed(new TypeError("a bug"), 3);
    expect(said()).toEqual(["error: polling failed unexpectedly"]);
    log.succeeded(counts, 0);
    log.succeeded(counts, 0);
    expect(said()).toEqual(["info: polling works again"]);
  });
  it("tells of a sweep that fails while the live window is read, and of a clock that is wrong", () => {
    const { log, said } = makeSut();
    log.succeeded({ ...counts, spareError: limited }, 5);
    log.succeeded({ ...counts, spareError: limited }, -5.1);
    log.succeeded({ ...counts, spareError: limited }, -7);
    expect(said()).toEqual([
      "warn: reading beside the fast sweep failed; it is tried again later",
      "warn: the local clock differs from the provider's; the provider's is used",
    ]);
    log.succeeded(counts, null);
    log.succeeded(counts, 6);
    expect(said()).toHaveLength(1);
  });
});
