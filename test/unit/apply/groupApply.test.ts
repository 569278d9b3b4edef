import fc from "fast-check";
import { afterEach, expect, it, vi } from "vitest";
import { UnavailableError } from "../../../src/domain/errors.ts";
import { makeGroupApply } from "../../../src/apply/groupApply.ts";

interface Call {
  readonly seqs: readonly number[];
  readonly end: (error?: unknown) => void;
}

/** An apply path whose statements end when the test ends them. */
function makeHeldApply() {
  const calls: Call[] = [];
  const applyEvents = (seqs: readonly number[]) =>
    new Promise<[]>((resolve, reject) => {
      calls.push({ seqs, end: (error) => (error === undefined ? resolve([]) : reject(error as Error)) });
    });
  return { calls, apply: makeGroupApply({ applyEvents }) };
}

afterEach(() => void vi.useRealTimers());

const settle = () => new Promise((resolve) => setImmediate(resolve));
const range = (from: number, count: number) => Array.from({ length: count }, (_, index) => from + index);

it("starts a second concurrent statement for 16 events, and never a third", async () => {
  const { calls, apply } = makeHeldApply();
  const jobs = [[1], range(100, 15), [2], range(200, 200)].map((seqs) => apply(seqs));
  expect(calls.map(({ seqs }) => seqs.length)).toEqual([1, 16]);
  calls[1]?.end();
  await settle();
  expect(calls.map(({ seqs }) => seqs.length)).toEqual([1, 16, 200]);
  for (const { end } of calls) end();
  await expect(Promise.all(jobs)).resolves.toHaveLength(4);
});

it("lets few events wait for a running statement for at most 20 ms", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  const { calls, apply } = makeHeldApply();
  const jobs = [[1], [2]].map((seqs) => apply(seqs));
  vi.advanceTimersByTime(19);
  expect(calls).toHaveLength(1);
  vi.advanceTimersByTime(1);
  expect(calls.map(({ seqs }) => seqs)).toEqual([[1], [2]]);
  jobs.push(apply([3]));
  vi.advanceTimersByTime(1_000);
  expect(calls).toHaveLength(2);
  calls[1]?.end();
  await settle();
  vi.advanceTimersByTime(20);
  expect(calls[2]?.seqs).toEqual([3]);
  for (const { end } of calls) end();
  await expect(Promise.all(jobs)).resolves.toHaveLength(3);
});

it("fails all that were applied together when Postgres is unreachable", async () => {
  const { calls, apply } = makeHeldApply();
  const jobs = [[1], [2], [3]].map((seqs) => apply(seqs));
  const outcomes = Promise.allSettled(jobs);
  calls[0]?.end();
  await settle();
  calls[1]?.end(new UnavailableError("away"));
  expect((await outcomes).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
  expect(calls).toHaveLength(2);
});

it("decides every job, at most 200 positions in one of two statements, and fails only those with their own fault", async () => {
  const anyJob = fc.record({ size: fc.integer({ min: 1, max: 320 }), bad: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(fc.array(anyJob, { maxLength: 30 }), async (jobs) => {
      const bad = new Set(jobs.flatMap((job, at) => (job.bad ? [at * 1_000] : [])));
      const decided: number[] = [];
      let inFlight = 0;
      const apply = makeGroupApply({
        applyEvents: async (seqs) => {
          expect(seqs.length).toBeLessThanOrEqual(200);
          expect((inFlight += 1)).toBeLessThanOrEqual(2);
          await Promise.resolve();
          inFlight -= 1;
          if (seqs.some((seq) => bad.has(seq))) throw new TypeError("a fault");
          decided.push(...seqs);
          return [];
        },
      });
      const all = jobs.map(({ size }, at) => range(at * 1_000, size));
      const outcomes = await Promise.allSettled(all.map((seqs) => apply(seqs)));
      const failed = outcomes.map(
        (outcome) => outcome.status === "rejected" && outcome.reason instanceof TypeError,
      );
      expect(failed).toEqual(jobs.map((job) => job.bad));
      // Of a job that is too large for one statement, the parts without the fault are applied.
      const good = all.flatMap((seqs, at) => (jobs[at]?.bad ? seqs.slice(200) : seqs));
      expect(decided.toSorted((left, right) => left - right)).toEqual(good);
    }),
    { numRuns: 50 },
  );
});
