import { describe, expect, it, vi } from "vitest";
import {
  alignColumns,
  makePaint,
  makeProgressLine,
  printJson,
  printLine,
} from "../../../src/cli/output/terminal.ts";
import { escapeControls } from "../../../src/process/telemetry/escapeControls.ts";

const HOSTILE = "created\u001b]0;owned\u0007\u001b[2J\u009b31m\u202egnirts\u0008\r\nOrder R2 · delivered";

function capture(write: () => void): string {
  const spy = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  write();
  return spy.mock.calls.map(([text]) => String(text)).join("");
}

describe("text of an order on a terminal", () => {
  it("shows control characters instead of sending them", () => {
    expect(escapeControls(HOSTILE)).toBe(
      String.raw`created\u001b]0;owned\u0007\u001b[2J\u009b31m\u202egnirts\u0008\u000d\u000aOrder R2 · delivered`,
    );
    for (const plain of ["Zoë · 東京 → ok", "می\u200cخواهم", "👩\u200d🍳"])
      expect(escapeControls(plain)).toBe(plain);
  });

  it.each(["\u200b", "\u00ad", "\u2060", "\ufeff", "\u180e", "\u2066", "\u{e0041}", "\u2029", "\u0085"])(
    "shows the invisible character %j, with which one reference looks like another",
    (mark) => {
      const shown = escapeControls(`DO-${mark}1`);
      expect(shown).toMatch(/^[\x20-\x7e]+$/);
      expect(JSON.parse(`"${shown}"`)).toBe(`DO-${mark}1`);
    },
  );

  it("is the same in a painted line", () => {
    expect(makePaint({ isTTY: false })("bold", HOSTILE)).toBe(escapeControls(HOSTILE));
  });

  it("leaves only our own styles in a line", () => {
    const paint = makePaint({ isTTY: true });
    const coloured = `${HOSTILE}\u001b[31m`;
    const line = capture(() => printLine(paint("bold", `Order ${coloured}`) + coloured));
    const codes = line.match(/[\p{Cc}\u202e][^A-Za-z]*./gu) ?? [];
    expect(codes.filter((code) => !code.startsWith("\n"))).toEqual(["\u001b[1m", "\u001b[22m"]);
  });

  it("cannot start a new line in a table", () => {
    expect(alignColumns([["R1", HOSTILE]]).join("\n")).not.toContain("\n");
  });

  it("is unchanged in JSON", () => {
    const text = capture(() => printJson({ status: HOSTILE }));
    expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(JSON.parse(text)).toEqual({ status: HOSTILE });
  });
});

it("progress overwrites one line on a terminal, with a bar and the remaining time, and writes nothing elsewhere", () => {
  const shown = (isTTY: boolean) => {
    const texts: string[] = [];
    const half = { share: 0.5, elapsedMs: 180_000, orders: 600 };
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
