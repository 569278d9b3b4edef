import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, it, vi } from "vitest";
import { makeSender } from "../../../src/queue/sendJobs.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

function setUp({ pauseMs = 0 } = {}) {
  const jobs: { seqs: readonly number[]; succeed: () => void }[] = [];
  const sender = makeSender({
    send: (seqs) => new Promise<void>((succeed) => void jobs.push({ seqs, succeed })),
    isReachable: () => true,
    pauseMs,
    logger: silentLogger,
  });
  const sent = (count: number) => vi.waitFor(() => expect(jobs).toHaveLength(count), 60_000);
  return { ...sender, jobs, sent };
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

it("sends 1,000 positions in a job", async () => {
  const { notify, jobs, sent } = setUp();
  notify([1]);
  await sent(1);
  const most = Array.from({ length: 1_500 }, (_, at) => at + 2);
  notify(most);
  jobs[0]?.succeed();
  await sent(2);
  expect(jobs[1]?.seqs).toEqual(most.slice(0, 1_000));
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
