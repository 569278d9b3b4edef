import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { makeSender } from "../../../src/queue/sendJobs.ts";
import { makeLogger } from "../../../src/process/telemetry/logger.ts";

function setUp({ pauseMs = 0 } = {}) {
  const jobs: { seqs: readonly number[]; succeed: () => void; fail: (error: Error) => void }[] = [];
  const lines: string[] = [];
  const state = { reachable: true };
  const destination = { write: (line: string) => lines.push(line) };
  const sender = makeSender({
    send: (seqs) => new Promise<void>((succeed, fail) => void jobs.push({ seqs, succeed, fail })),
    isReachable: () => state.reachable,
    pauseMs,
    logger: makeLogger({ level: "warn", format: "json", service: "test", destination }),
  });
  const sent = (count: number) => vi.waitFor(() => expect(jobs).toHaveLength(count), 60_000);
  const logged = (text: string) => vi.waitFor(() => expect(lines.join("")).toContain(text), 60_000);
  return { ...sender, jobs, lines, state, sent, logged };
}

it("combines the notifications of one turn into one job, and those that arrive meanwhile into another", async () => {
  const { notify, jobs, sent } = setUp();
  notify([1]);
  notify([2, 3]);
  await sent(1);
  notify([4]);
  notify([5]);
  expect(jobs).toHaveLength(1);
  jobs[0]?.succeed();
  await sent(2);
  expect(jobs.map(({ seqs }) => seqs)).toEqual([
    [1, 2, 3],
    [4, 5],
  ]);
});

it("sends the first at once, and one job for all that arrive in the pause after it", async () => {
  const { notify, jobs, sent } = setUp({ pauseMs: 500 });
  notify([1]);
  await sent(1);
  jobs[0]?.succeed();
  for (const seq of [2, 3, 4]) {
    await nextTurn();
    notify([seq]);
  }
  await sent(2);
  expect(jobs[1]?.seqs).toEqual([2, 3, 4]);
});

it("forgets what cannot be sent, with a line in the log, and goes on", async () => {
  const { notify, jobs, state, sent, logged } = setUp();
  state.reachable = false;
  notify([1]);
  await logged("the queue cannot be reached");
  state.reachable = true;
  notify([2]);
  await sent(1);
  jobs[0]?.fail(new Error("out of memory"));
  await logged("the queue refused the job");
  notify([3]);
  await sent(2);
  expect(jobs[1]?.seqs).toEqual([3]);
});

it("forgets what exceeds 10,000 waiting positions", async () => {
  const { notify, jobs, sent, logged } = setUp();
  notify([1]);
  await sent(1);
  notify(Array.from({ length: 10_000 }, (_, at) => at + 2));
  notify([99_999]);
  await logged("too many wait to be enqueued");
  jobs[0]?.succeed();
  await sent(2);
  expect(jobs[1]?.seqs).toHaveLength(1_000);
});

it("takes nothing after it was closed, and waits for what is being sent", async () => {
  const { notify, close, jobs, sent } = setUp();
  notify([1]);
  await sent(1);
  let isClosed = false;
  const closed = close().then(() => void (isClosed = true));
  notify([2]);
  expect(isClosed).toBe(false);
  jobs[0]?.succeed();
  await closed;
  expect(jobs).toHaveLength(1);
});
