import { expect, it } from "vitest";
import { makeProgressLine } from "../../../src/cli/output/terminal.ts";

const half = { share: 0.5, elapsedMs: 180_000, orders: 600 };

it("overwrites one line on a terminal, with a bar and the remaining time, and writes nothing elsewhere", () => {
  const shown = (isTTY: boolean) => {
    const texts: string[] = [];
    const line = makeProgressLine({ isTTY, write: (text) => texts.push(text) });
    line.show({ ...half, share: 0 });
    line.show(half);
    line.end();
    line.end();
    return texts;
  };
  expect(shown(true)).toEqual([
    "\r\u001b[2K[------------------------]    0 %  600 orders",
    "\r\u001b[2K[############------------]   50 %  600 orders  about 3 min 0 s left",
    "\n",
  ]);
  expect(shown(false)).toEqual([]);
});
