import { expect, it } from "vitest";
import { makeRefusalPace } from "../../../src/receive/endpoint/refusalPace.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

function setUp() {
  const clock = makeSimulatedClock();
  const pace = makeRefusalPace({ clock });
  const answeredAtMs: number[] = [];
  const refuse = (count: number) => {
    for (let index = 0; index < count; index += 1) pace(() => void answeredAtMs.push(clock.monotonicMs()));
  };
  return { clock, refuse, answeredAtMs };
}

it("fifty refusals of a second are answered at once, and those after them 250 ms late", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(53);
  expect(answeredAtMs).toEqual(Array.from({ length: 50 }, () => 0));
  await clock.runUntil(249);
  expect(answeredAtMs).toHaveLength(50);
  await clock.runUntil(250);
  expect(answeredAtMs.slice(50)).toEqual([250, 250, 250]);
});

it("each second has its fifty", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(50);
  await clock.runUntil(999);
  refuse(1);
  expect(answeredAtMs).toHaveLength(50);
  await clock.runUntil(1_000);
  refuse(50);
  expect(answeredAtMs.filter((atMs) => atMs === 1_000)).toHaveLength(50);
});

it("no more than 1,000 are held: what comes beyond is answered at once, and once only", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(50 + 1_000 + 7);
  expect(answeredAtMs).toHaveLength(50 + 7);
  await clock.runUntil(250);
  expect(answeredAtMs).toHaveLength(50 + 1_000 + 7);
  refuse(1_001);
  expect(answeredAtMs).toHaveLength(50 + 1_000 + 7 + 1);
});
