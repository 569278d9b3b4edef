import { expect, it } from "vitest";
import { skipApplied } from "../../../src/apply/skipApplied.ts";

function setUp() {
  const applied: number[][] = [];
  const state = { fails: false };
  const apply = async (seqs: readonly number[]) => {
    if (state.fails) throw new Error("away");
    applied.push([...seqs]);
  };
  return { ...skipApplied(apply), applied, state };
}

it("skips what a hint has decided, once", async () => {
  const { applyHint, applyJob, applied } = setUp();
  await applyHint([1, 2]);
  await applyJob([1, 2]);
  await applyJob([1, 2, 3]);
  expect(applied).toEqual([
    [1, 2],
    [1, 2, 3],
  ]);
});

it("applies what its hint could not apply, and what is hinted again", async () => {
  const { applyHint, applyJob, applied, state } = setUp();
  state.fails = true;
  await expect(applyHint([1])).rejects.toThrow("away");
  state.fails = false;
  await applyJob([1]);
  await applyHint([2]);
  await applyHint([2]);
  expect(applied).toEqual([[1], [2], [2]]);
});

it("remembers at most 20,000, and reads the others again", async () => {
  const { applyHint, applyJob, applied } = setUp();
  const range = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);
  for (let from = 0; from < 20_000; from += 200) await applyHint(range(from, 200));
  await applyJob([0]);
  expect(applied).toHaveLength(100);
  await applyHint([20_000, 20_001]);
  await applyJob([1, 20_000, 20_001]);
  expect(applied.slice(100)).toEqual([[20_000, 20_001], [1]]);
});
