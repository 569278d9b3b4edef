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

it("applies a single event immediately, and events that arrive meanwhile together", async () => {
  const { calls, apply } = makeHeldApply();
  const jobs = [[1], [2], [3, 4], [5]].map((seqs) => apply(seqs));
  expect(calls.map(({ seqs }) => seqs)).toEqual([[1]]);
  calls[0]?.end();
  await settle();
  expect(calls.map(({ seqs }) => seqs)).toEqual([[1], [2, 3, 4, 5]]);
  calls[1]?.end();
  await expect(Promise.all(jobs)).resolves.toHaveLength(4);
});

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

it.each([
  { sizes: [100, 100], taken: [200] },
  { sizes: [100, 101], taken: [100, 101] },
  { sizes: [300, 1], taken: [200, 101] },
])("takes of $sizes positions as many as one statement takes: $taken", async ({ sizes, taken }) => {
  const { calls, apply } = makeHeldApply();
  const under = [[1], range(500, 16)];
  const all = [...under, ...sizes.map((size, at) => range(1_000 * (at + 1), size))].map((seqs) =>
    apply(seqs),
  );
  for (let at = 0; at < under.length + taken.length; at += 1) {
    calls[at]?.end();
    await settle();
  }
  expect(calls.slice(under.length).map(({ seqs }) => seqs.length)).toEqual(taken);
  await Promise.all(all);
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

it("decides every job, and fails only those with their own fault", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ size: fc.integer({ min: 1, max: 120 }), bad: fc.boolean() }), { maxLength: 30 }),
      async (jobs) => {
        const bad = new Set(jobs.flatMap((job, at) => (job.bad ? [at * 1_000] : [])));
        const decided: number[] = [];
        const apply = makeGroupApply({
          applyEvents: async (seqs) => {
            await Promise.resolve();
            if (seqs.some((seq) => bad.has(seq))) throw new TypeError("a fault");
            decided.push(...seqs);
            return [];
          },
        });
        const all = jobs.map(({ size }, at) => range(at * 1_000, size));
        const outcomes = await Promise.allSettled(all.map((seqs) => apply(seqs)));
        expect(outcomes.map(({ status }) => status === "rejected")).toEqual(jobs.map((job) => job.bad));
        const good = all.filter((_, at) => jobs[at]?.bad === false).flat();
        expect(decided.toSorted((left, right) => left - right)).toEqual(good);
      },
    ),
    { numRuns: 50 },
  );
});
