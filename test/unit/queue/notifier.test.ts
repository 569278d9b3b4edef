import { describe, expect, it, vi } from "vitest";
import { logForgotten, makeNotifier } from "../../../src/queue/notifier.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeLogger } from "../../../src/runtime/telemetry/logger.ts";
import type { Tracing } from "../../../src/runtime/telemetry/tracing.ts";

function setUp({
  reachable = true,
  clock = systemClock,
  delayMs = 0,
  pauseMs = (_events: number): number => 0,
  tracing = undefined as Tracing | undefined,
} = {}) {
  const jobs: { seqs: readonly number[]; succeed: () => void; fail: (error: Error) => void }[] = [];
  const lines: string[] = [];
  const state = { reachable };
  const destination = { write: (line: string) => lines.push(line) };
  const logger = makeLogger({ level: "warn", format: "json", service: "test", destination });
  const notifier = makeNotifier({
    name: "enqueue",
    send: (seqs) => new Promise<void>((succeed, fail) => void jobs.push({ seqs, succeed, fail })),
    seqsMax: 200,
    delayMs,
    pauseMs,
    onForgotten: logForgotten({ clock, logger }),
    isReachable: () => state.reachable,
    clock,
    tracing,
  });
  const enqueued = (count: number) => vi.waitFor(() => expect(jobs).toHaveLength(count), 60_000);
  return { notifier, jobs, lines, state, enqueued };
}

describe("the notifier", () => {
  it("combines the notifications of one turn into one job, and those that arrive meanwhile into another", async () => {
    const { notifier, jobs, enqueued } = setUp();
    notifier.notify([1]);
    notifier.notify([2, 3]);
    await enqueued(1);
    notifier.notify([4]);
    notifier.notify([5]);
    expect(jobs).toHaveLength(1);
    jobs[0]?.succeed();
    await enqueued(2);
    expect(jobs.map((job) => job.seqs)).toEqual([
      [1, 2, 3],
      [4, 5],
    ]);
  });

  it("pauses between two jobs, and combines the notifications of the pause into one", async () => {
    const pauses: (() => void)[] = [];
    const sleep = () => new Promise<void>((resolve) => void pauses.push(resolve));
    const asked: number[] = [];
    const pauseMs = (events: number) => asked.push(events);
    const { notifier, jobs, enqueued } = setUp({ pauseMs, clock: { ...systemClock, sleep } });
    notifier.notify([1]);
    await enqueued(1);
    jobs[0]?.succeed();
    notifier.notify([2]);
    notifier.notify([3]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(jobs).toHaveLength(1);
    for (const end of pauses.splice(0)) end();
    await enqueued(2);
    expect(jobs[1]?.seqs).toEqual([2, 3]);
    expect(asked).toEqual([1, 2]);
  });

  it("waits before the first job, and combines the notifications until then into one", async () => {
    const sleeps: { ms: number; end: () => void }[] = [];
    const sleep = (ms: number) => new Promise<void>((end) => void sleeps.push({ ms, end }));
    const { notifier, jobs, enqueued } = setUp({ delayMs: 100, clock: { ...systemClock, sleep } });
    notifier.notify([1]);
    await new Promise((resolve) => setImmediate(resolve));
    notifier.notify([2]);
    expect(jobs).toEqual([]);
    expect(sleeps.map(({ ms }) => ms)).toEqual([100]);
    sleeps[0]?.end();
    await enqueued(1);
    expect(jobs[0]?.seqs).toEqual([1, 2]);
  });

  it("drops what the queue refuses, logs that once, and continues with the rest", async () => {
    const { notifier, jobs, lines, enqueued } = setUp();
    for (let time = 1; time <= 3; time += 1) {
      notifier.notify([time]);
      await enqueued(time);
      jobs[time - 1]?.fail(new Error("OOM command not allowed"));
    }
    notifier.notify([4]);
    await enqueued(4);
    expect(jobs[3]?.seqs).toEqual([4]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("the overdue check will find them");
  });

  it("does not try while the queue is unreachable", async () => {
    const { notifier, jobs, lines, state, enqueued } = setUp({ reachable: false });
    notifier.notify([1]);
    await vi.waitFor(() => expect(lines).toHaveLength(1), 60_000);
    state.reachable = true;
    notifier.notify([2]);
    await enqueued(1);
    expect(jobs[0]?.seqs).toEqual([2]);
  });

  it("forgets who asked for a job together with the job", async () => {
    const follows: number[] = [];
    const tracing: Tracing = {
      inSpan: (_name, options, work) => {
        follows.push(options.follows?.length ?? 0);
        return work(() => undefined);
      },
      here: () => ({}),
      carry: () => undefined,
      carried: () => ({}),
      close: () => Promise.resolve(),
    };
    const { notifier, lines, state, enqueued } = setUp({ reachable: false, tracing });
    for (let seq = 1; seq <= 300; seq += 1) notifier.notify([seq]);
    await vi.waitFor(() => expect(lines).toHaveLength(1), 60_000);
    state.reachable = true;
    notifier.notify([301]);
    await enqueued(1);
    expect(follows).toEqual([1]);
  });

  it("drops notifications beyond ten thousand while none gets through", async () => {
    const { notifier, jobs, lines, enqueued } = setUp();
    notifier.notify([0]);
    await enqueued(1);
    notifier.notify(Array.from({ length: 10_000 }, (_, at) => at + 1));
    expect(lines).toEqual([]);
    notifier.notify([10_001]);
    expect(lines).toHaveLength(1);
    for (let done = 0; done < 50; done += 1) {
      await enqueued(done + 1);
      jobs[done]?.succeed();
    }
    await enqueued(51);
    expect(jobs[50]?.seqs).toHaveLength(200);
    expect(jobs[50]?.seqs.at(-1)).toBe(10_000);
  });

  it("waits for notifications at close, and accepts no more", async () => {
    const { notifier, jobs, enqueued } = setUp();
    notifier.notify([1]);
    const closing = notifier.close();
    notifier.notify([2]);
    await enqueued(1);
    jobs[0]?.succeed();
    await closing;
    expect(jobs.map((job) => job.seqs)).toEqual([[1]]);
  });
});
