import { expect, it } from "vitest";
import { describeProgress, makeProgressLine } from "../../../src/cli/output/terminal.ts";

const half = { share: 0.5, elapsedMs: 180_000, count: 600, unit: "orders" };

it("shows a bar, the rate and the remaining time", () => {
  expect(describeProgress(half, { bar: true })).toBe(
    "[############------------]   50 %  600 orders  3 orders/s  about 3 min left",
  );
  expect(describeProgress({ ...half, share: 0 }, { bar: false })).toBe("  0 %  600 orders  3 orders/s");
});

it("overwrites one line on a terminal, and writes a line every ten seconds elsewhere", () => {
  let nowMs = 0;
  const shown = (isTTY: boolean) => {
    const texts: string[] = [];
    const line = makeProgressLine({ isTTY, write: (text) => texts.push(text) }, () => nowMs);
    for (nowMs of [0, 9_999, 10_000]) line.show(half);
    line.end();
    line.end();
    return texts;
  };
  const terminal = shown(true);
  expect(terminal).toHaveLength(4);
  expect(terminal.slice(0, 3).every((text) => text.startsWith("\r\u001b[2K[") && !text.endsWith("\n"))).toBe(
    true,
  );
  expect(terminal[3]).toBe("\n");
  expect(shown(false)).toEqual([
    `${describeProgress(half, { bar: false })}\n`,
    `${describeProgress(half, { bar: false })}\n`,
  ]);
});
