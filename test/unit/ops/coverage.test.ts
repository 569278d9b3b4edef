import { describe, expect, it } from "vitest";
import type { Breach } from "../../../src/poll/ledger/breaches.sql.ts";
import { divideCoverage, listKinds } from "../../../src/ops/trends/coverage.ts";
import type { Window } from "../../../src/domain/window/window.ts";

const WITHIN = { since: 100n, until: 200n };
const divide = (parts: Partial<Parameters<typeof divideCoverage>[0]>) =>
  divideCoverage({
    within: WITHIN,
    historySince: 0n,
    provedUntil: 200n,
    missing: [],
    breaches: [],
    ...parts,
  });
const spans = (parts: Parameters<typeof divide>[0]) =>
  divide(parts).spans.map(({ kind, since, until }) => [kind, Number(since), Number(until)]);
const gap = (since: bigint, until: bigint): Window => ({ since, until });

describe("the coverage of a period", () => {
  it("is entirely before the history when nothing was ever polled", () => {
    expect(spans({ historySince: null, provedUntil: null })).toEqual([["before", 100, 200]]);
  });

  it("is proved up to the end of the windows, and open after that", () => {
    expect(spans({})).toEqual([["proved", 100, 200]]);
    expect(spans({ historySince: 120n, provedUntil: 190n })).toEqual([
      ["before", 100, 120],
      ["proved", 120, 190],
      ["open", 190, 200],
    ]);
  });

  it("has a gap where an instant lacks, but none after the last proof or before the history", () => {
    const missing = [gap(90n, 130n), gap(150n, 151n), gap(180n, 250n)];
    const { gaps } = divide({ historySince: 120n, provedUntil: 190n, missing });
    expect(gaps).toEqual([gap(120n, 130n), gap(150n, 151n), gap(180n, 190n)]);
    expect(spans({ missing: [gap(150n, 151n)] })).toEqual([
      ["proved", 100, 200],
      ["gap", 150, 151],
    ]);
  });

  it("shows above all else where a proof was withdrawn", () => {
    const breach = { since: 90n, until: 120n } as Breach;
    expect(spans({ breaches: [breach], missing: [gap(110n, 130n)] })).toEqual([
      ["proved", 100, 200],
      ["gap", 110, 130],
      ["breach", 100, 120],
    ]);
  });

  it("names the kinds of a part, the worst first", () => {
    const coverage = divide({ provedUntil: 190n, missing: [gap(110n, 130n)] });
    expect(listKinds(coverage, gap(100n, 111n))).toEqual(["gap", "proved"]);
    expect(listKinds(coverage, gap(130n, 140n))).toEqual(["proved"]);
    expect(listKinds(coverage, gap(190n, 300n))).toEqual(["open"]);
  });
});
