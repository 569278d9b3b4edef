import { afterEach, expect, it, vi } from "vitest";
import { compare, writeFigure } from "../../bench/measure.ts";

afterEach(() => vi.restoreAllMocks());

/** One sample for each run; the first one warms up. */
async function measure(samples: readonly { value: number; p50Ms?: number; p99Ms?: number }[]) {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  let run = 0;
  const [figure] = await compare({
    section: "any",
    unit: "/s",
    subjects: [
      {
        name: "reading",
        goal: "p99 < 20 ms",
        run: () => Promise.resolve({ ...(samples[run++] ?? { value: 0 }), errors: 0 }),
      },
    ],
  });
  if (figure === undefined) throw new Error("nothing was measured");
  return figure;
}

it("keeps the p99 of the best and of the worst counted run", async () => {
  const p99s = [90, 12, 11, 19.04, 14, 13];
  const figure = await measure(p99s.map((p99Ms) => ({ value: 200, p50Ms: p99Ms / 2, p99Ms })));
  expect(figure.p99Ms).toEqual({ min: 11, median: 13, max: 19.04 });
  expect(figure.p50Ms).toEqual({ min: 5.5, median: 6.5, max: 9.52 });
  expect(writeFigure(figure)).toEqual([
    "reading",
    "200 (200–200) /s",
    "6.5 ms",
    "13.0 (11.0–19.0) ms",
    "",
    "p99 < 20 ms",
  ]);
});

it("shows no latency that nobody measured", async () => {
  const figure = await measure([]);
  expect([figure.p50Ms, figure.p99Ms]).toEqual([null, null]);
  expect(writeFigure(figure).slice(2, 4)).toEqual(["", ""]);
});
