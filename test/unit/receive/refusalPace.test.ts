import { expect, it } from "vitest";
import { makeRefusalPace } from "../../../src/receive/endpoint/refusalPace.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

function setUp() {
  const clock = makeSimulatedClock();
  const pace = makeRefusalPace({ clock });
  const answeredAtMs: number[] = [];
  const refuse = (count: number, connection?: object) => {
    for (let index = 0; index < count; index += 1)
      pace.refuse(connection ?? {}, () => void answeredAtMs.push(clock.monotonicMs()));
  };
  return { clock, pace, refuse, answeredAtMs };
}

it("five refusals in a tenth of a second are answered immediately, later ones after 250 ms, one by one", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(8);
  expect(answeredAtMs).toEqual([0, 0, 0, 0, 0]);
  await clock.runUntil(249);
  expect(answeredAtMs).toHaveLength(5);
  await clock.runUntil(300);
  expect(answeredAtMs.slice(5)).toEqual([250, 254, 258]);
});

it("each tenth of a second allows five immediate answers", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(5);
  await clock.runUntil(99);
  refuse(1);
  expect(answeredAtMs).toHaveLength(5);
  await clock.runUntil(100);
  refuse(5);
  expect(answeredAtMs.filter((atMs) => atMs === 100)).toHaveLength(5);
});

it("a flood on 64 connections gets at most 64 answers a second, evenly, once each has sent 20", async () => {
  const { clock, pace } = setUp();
  const answeredAtMs: number[] = [];
  const flood = (connection: object) =>
    pace.refuse(connection, () => {
      answeredAtMs.push(clock.monotonicMs());
      flood(connection);
    });
  for (let index = 0; index < 64; index += 1) flood({});
  await clock.runUntil(20_000);
  const late = answeredAtMs.filter((atMs) => atMs >= 15_000);
  expect(late.length / 5).toBeGreaterThan(55);
  expect(late.length / 5).toBeLessThanOrEqual(64);
  const most = Math.max(...late.map((atMs) => late.filter((other) => Math.abs(other - atMs) < 10).length));
  expect(most).toBeLessThanOrEqual(6);
});

it("a genuine request resets the count of its connection, but not of others", async () => {
  const { clock, pace, refuse, answeredAtMs } = setUp();
  const [shared, flooding] = [{}, {}];
  const lateBy = async (connection: object) => {
    const fromMs = clock.monotonicMs();
    answeredAtMs.length = 0;
    refuse(1, connection);
    await clock.runUntil(fromMs + 5_000);
    return (answeredAtMs[0] ?? NaN) - fromMs;
  };
  for (let index = 0; index < 20; index += 1) {
    expect(await lateBy(flooding)).toBe(0);
    expect(await lateBy(shared)).toBe(0);
  }
  pace.accept(shared);
  expect(await lateBy(flooding)).toBe(1_000);
  expect(await lateBy(shared)).toBe(0);
});

it("at most 1,000 are held: further refusals are answered immediately, and only once", async () => {
  const { clock, refuse, answeredAtMs } = setUp();
  refuse(5 + 1_000 + 7);
  expect(answeredAtMs).toHaveLength(5 + 7);
  await clock.runUntil(2_000);
  expect(answeredAtMs).toHaveLength(5 + 1_000 + 7);
  refuse(5 + 1_001);
  expect(answeredAtMs).toHaveLength(5 + 1_000 + 7 + 5 + 1);
});
