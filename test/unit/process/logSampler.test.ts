import { expect, it } from "vitest";
import { makeLogSampler } from "../../../src/process/telemetry/logSampler.ts";

it("lets one line per key through in each interval, and counts the suppressed ones", () => {
  let nowMs = 0;
  const sample = makeLogSampler({ clock: { monotonicMs: () => nowMs }, intervalMs: 100 });
  expect([sample("a"), sample("a"), sample("b"), sample("a")]).toEqual([0, undefined, 0, undefined]);
  nowMs = 99;
  expect(sample("a")).toBeUndefined();
  nowMs = 100;
  expect([sample("a"), sample("b"), sample("a")]).toEqual([3, 0, undefined]);
  nowMs = 200;
  expect(sample("a")).toBe(1);
});
