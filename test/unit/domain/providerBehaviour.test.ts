import { describe, expect, it } from "vitest";
import { measurePage, measureSkew, noteBehaviour } from "../../../src/domain/window/providerBehaviour.ts";
import type { BehaviourBook, Behaviour } from "../../../src/domain/window/providerBehaviour.ts";

const SECOND = 1_000_000_000n;
const page = (versions: readonly bigint[], hasMore = false) =>
  measurePage({ rows: versions.map((version) => ({ version })), hasMore });
const times = (...seconds: number[]) => seconds.map((count) => BigInt(count) * SECOND);

describe("a page", () => {
  it.each([
    [times(1, 2, 2, 3, 4, 5), "ascending"],
    [times(5, 4, 3, 3, 2, 1), "descending"],
    [times(1, 2, 5, 4, 3, 6), "unsorted"],
  ])("shows how it is sorted", (versions, sort) => {
    expect(page(versions).sort).toBe(sort);
  });
  it("shows no sort by four different timestamps, which may be sorted by chance, but by five", () => {
    expect(page(times(1, 2, 3, 4, 4, 4))).toEqual({});
    expect(page(times(1, 2, 3, 4, 5))).toEqual({ sort: "ascending", precision: "second" });
  });
  it.each([
    [1_000_000_000n, "second"],
    [1_000_000n, "millisecond"],
    [1_000n, "microsecond"],
    [1n, "nanosecond"],
  ])("shows the finest unit of its timestamps, here of %d ns", (unit, precision) => {
    expect(page([...times(1, 2, 3, 4), 5n * SECOND + unit]).precision).toBe(precision);
  });
  it("shows the page size only when more rows follow, and counts unreadable rows", () => {
    expect(page(times(1, 2)).page).toBeUndefined();
    expect(page(times(1, 2), true).page).toBe("2");
    expect(measurePage({ rows: [{ version: undefined }], hasMore: true })).toEqual({ page: "1" });
    expect(measurePage({ rows: [], hasMore: true })).toEqual({});
  });
});

it.each([
  [null, undefined],
  [0, "within 5 s"],
  [-5, "within 5 s"],
  [5.1, "over 5 s ahead"],
  [-60, "over 5 s behind"],
  [-61, "over 1 min behind"],
  [600, "over 5 min ahead"],
])("names a skew of %s s", (skew, clock) => {
  expect(measureSkew(skew).clock).toBe(clock);
});

describe("the record of behaviour", () => {
  const note = (book: BehaviourBook, ...measured: Behaviour[]) =>
    measured.reduce(
      (sum, behaviour) => {
        const { book: next, news } = noteBehaviour(sum.book, behaviour);
        return { book: next, news: [...sum.news, news] };
      },
      { book, news: [] as Behaviour[] },
    );
  const empty: BehaviourBook = { known: {}, doubts: {} };
  const ascending: BehaviourBook = { known: { sort: "ascending" }, doubts: {} };

  it("accepts a first value immediately, and reports it once", () => {
    const { news, book } = note(empty, { sort: "ascending" }, { sort: "ascending" });
    expect(news).toEqual([{ sort: "ascending" }, {}]);
    expect(book.known).toEqual({ sort: "ascending" });
  });
  it("accepts another value after it was measured three times in a row", () => {
    const other = { sort: "descending" };
    expect(note(ascending, other, other).book.known).toEqual({ sort: "ascending" });
    const { news, book } = note(ascending, other, {}, other, other);
    expect(news).toEqual([{}, {}, {}, other]);
    expect(book).toEqual({ known: other, doubts: {} });
  });
  it("restarts the count when the known value, or a third one, comes between", () => {
    const down = { sort: "descending" };
    expect(note(ascending, down, down, { sort: "ascending" }, down, down).book.known.sort).toBe("ascending");
    expect(note(ascending, down, down, { sort: "unsorted" }, down, down).book.known.sort).toBe("ascending");
  });
});
