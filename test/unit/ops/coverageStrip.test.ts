import { describe, expect, it } from "vitest";
import { CELL_NANOS, CELLS, divideDay, renderCoverage } from "../../../src/ops/overview/coverageStrip.ts";
import type { Breach } from "../../../src/poll/ledger/breaches.sql.ts";

const NOW = 1_763_632_800_000_000_000n;
const BEGIN = NOW - BigInt(CELLS) * CELL_NANOS;
/** The start of the cell with this number. */
const cell = (number: number) => BEGIN + BigInt(number) * CELL_NANOS;
const divide = (parts: Partial<Parameters<typeof divideDay>[0]>) =>
  divideDay({
    sourceId: "live",
    now: NOW,
    historySince: 0n,
    provedUntil: NOW,
    missing: [],
    breaches: [],
    ...parts,
  });
const count = (parts: Parameters<typeof divide>[0]) => {
  const { cells } = divide(parts);
  return Object.fromEntries(
    ["proved", "gap", "open", "before"].map((kind) => [kind, cells.filter((each) => each === kind).length]),
  );
};

describe("the last day in cells", () => {
  it("is entirely before the history when nothing was ever polled", () => {
    expect(count({ historySince: null, provedUntil: null })).toEqual({
      proved: 0,
      gap: 0,
      open: 0,
      before: CELLS,
    });
  });

  it("is proved up to the end of the windows, and open after that", () => {
    expect(count({})).toEqual({ proved: CELLS, gap: 0, open: 0, before: 0 });
    expect(count({ provedUntil: cell(140) })).toEqual({ proved: 140, gap: 0, open: 4, before: 0 });
    expect(count({ provedUntil: cell(140) - 1n })).toEqual({ proved: 139, gap: 0, open: 5, before: 0 });
  });

  it("has a gap in exactly the cells that lack an instant", () => {
    expect(count({ missing: [{ since: cell(3), until: cell(4) }] })["gap"]).toBe(1);
    expect(count({ missing: [{ since: cell(3) - 1n, until: cell(4) + 1n }] })["gap"]).toBe(3);
  });

  it("has no gap after the last proof or before the history", () => {
    const missing = [{ since: cell(140), until: NOW }];
    expect(divide({ provedUntil: cell(140), missing }).gaps).toEqual([]);
    const early = [{ since: BEGIN, until: cell(10) }];
    expect(count({ historySince: cell(10), missing: early })).toEqual({
      proved: 134,
      gap: 0,
      open: 0,
      before: 10,
    });
    expect(divide({ historySince: cell(5), missing: early }).gaps).toEqual([
      { since: cell(5), until: cell(10) },
    ]);
  });

  it("shows for a day where a proof was withdrawn, with the order that it had missed", () => {
    const breach: Breach = {
      breachId: 1n,
      sourceId: "live",
      since: cell(3),
      until: cell(5),
      kind: "missed_change",
      reference: "DO-7",
      version: cell(4),
      foundBy: "poll",
      foundAt: NOW,
      detail: "The mirror did not have the order.",
      safeThroughBefore: NOW,
      safeThroughAfter: cell(3),
      reprovedAt: NOW,
    };
    const { cells } = divide({ breaches: [breach], missing: [{ since: cell(4), until: cell(6) }] });
    expect(cells.slice(2, 7)).toEqual(["proved", "breach", "breach", "gap", "proved"]);
    const { markup } = renderCoverage(divide({ breaches: [breach] }));
    expect(markup).toContain("142 of 144 cells of 10 min proved, no gap, 1 proof withdrawn");
    expect(markup).toContain('<span class="breach"></span>');
    expect(markup).toContain('<a href="/ops/orders/live/DO-7">DO-7</a>');
  });

  it("is also described in text", () => {
    expect(renderCoverage(divide({ missing: [{ since: cell(3), until: cell(4) }] })).markup).toContain(
      'aria-label="live, last 24 h, oldest first: 143 of 144 cells of 10 min proved, 1 gap"',
    );
  });
});
