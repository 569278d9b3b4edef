import { expect, it } from "vitest";
import { makePipelinePace } from "../../../src/runtime/http/pipelinePace.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

it("serves one request every 10 ms, in the sequence of their arrival, and starts again after a rest", async () => {
  const clock = makeSimulatedClock();
  const pace = makePipelinePace(clock);
  const served: string[] = [];
  const add = (name: string) => pace(() => served.push(`${name} ${clock.monotonicMs()}`));
  expect([add("a"), add("b"), add("c")]).toEqual([true, true, true]);
  expect(served).toEqual(["a 0"]);
  await clock.runUntil(500);
  add("d");
  await clock.runUntil(1_000);
  expect(served).toEqual(["a 0", "b 10", "c 20", "d 500"]);
});

it("refuses what comes while 1,000 wait", async () => {
  const clock = makeSimulatedClock();
  const pace = makePipelinePace(clock);
  let served = 0;
  const add = () => pace(() => (served += 1));
  // The first one is served immediately.
  expect(Array.from({ length: 1_001 }, add)).not.toContain(false);
  expect(add()).toBe(false);
  await clock.runUntil(20);
  expect([add(), add(), add()]).toEqual([true, true, false]);
  await clock.runUntil(60_000);
  expect(served).toBe(1_003);
});
