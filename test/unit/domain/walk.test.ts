import { describe, expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { SEEN_KEYS_MAX } from "../../../src/domain/window/seenKeys.ts";
import {
  nextRequest,
  receivePage,
  startWalk,
  type Walk,
  type WalkPage,
} from "../../../src/domain/window/walk.ts";

const at = (time: string) => parseInstant(`2026-03-01T${time}Z`);
const LIMIT = 4;
const start = (pagesMax = 100) =>
  startWalk({ window: { since: at("09:00:00"), until: at("10:00:00") }, limit: LIMIT, pagesMax });

/** The request as `since/until+offset`, without the date. */
const asked = (walk: Walk) => {
  const request = nextRequest(walk);
  if (request === undefined) return undefined;
  const time = (instant: bigint) => formatInstant(instant).slice(11, -1);
  return `${time(request.since)}/${time(request.until)}+${request.offset}`;
};

/** Rows as `reference time`; a row without a time is unreadable. A full page by default. */
const page = (rows: readonly string[], more: Partial<WalkPage> = {}): WalkPage => ({
  rows: rows.map((row) => {
    const [reference = "", time] = row.split(" ");
    return { key: row, version: time === undefined ? undefined : at(time), reference };
  }),
  hasMore: rows.length >= LIMIT,
  limit: LIMIT,
  ...more,
});
const READ = { kind: "read", proved: true };

describe("a window on one page", () => {
  it("ends with a page that is not full, by its own limit or the one that the provider reports", () => {
    const rows = ["a 09:10:00", "b 09:20:00", "c 09:30:00", "d 09:40:00"];
    const isRead = (count: number, limit: number) =>
      receivePage(start(), page(rows.slice(0, count), { limit, hasMore: false })).outcome !== undefined;
    expect([isRead(2, 2), isRead(2, 3), isRead(3, 4), isRead(4, 5)]).toEqual([false, true, true, false]);
  });
  it("counts rows as served: unreadable ones fill a page like others", () => {
    const walk = receivePage(start(), page(["a 09:10:00", "b 09:20:00", "??", "!!"]));
    expect(walk.outcome).toBeUndefined();
    // An unreadable row may also have the last timestamp.
    expect(asked(walk)).toBe("09:19:59/09:20:02+0");
    expect(asked(receivePage(start(), page(["??", "!!", "%%", "$$"])))).toBe("08:59:59/09:30:00+0");
  });
});

describe("a full page sorted by updatedAt", () => {
  const ascending = ["a 09:10:00", "b 09:20:00", "c 09:30:00.5", "d 09:40:00.25"];
  it.each([
    ["up", ascending, ["c 09:30:00.5", "d 09:40:00.25", "e 09:50:00"]],
    ["down", ascending.toReversed(), ["b 09:20:00", "a 09:10:00", "0 09:05:00"]],
  ])("goes %s by offsets that begin with rows already read, within the same bounds", (_, full, rest) => {
    const first = receivePage(start(), page(full));
    expect(asked(first)).toBe("08:59:59/10:00:01+2");
    const second = receivePage(first, page(rest));
    expect([second.fresh, second.outcome]).toEqual([[2], READ]);
  });
  it.each([
    ["cuts the window in two", "is sorted otherwise", ["e 09:50:00", "d 09:40:00.25"], "09:40:02+0"],
    [
      "cuts the window in two",
      "is not sorted",
      ["c 09:30:00.5", "d 09:40:00.25", "z 09:05:00"],
      "09:30:00+0",
    ],
    [
      "goes further back",
      "has a new row before old ones",
      ["c 09:30:00.5", "n 09:35:00", "d 09:40:00.25"],
      "10:00:01+1",
    ],
  ])("%s when a later page %s", (_, _page, rows, next) => {
    const walk = receivePage(receivePage(start(), page(ascending)), page(rows));
    expect([walk.outcome, asked(walk)]).toEqual([undefined, `08:59:59/${next}`]);
  });
  it("does not accept two known rows as proof where it should know many", () => {
    const limit = 40;
    const walk = startWalk({ window: { since: at("09:00:00"), until: at("10:00:00") }, limit, pagesMax: 9 });
    const row = (nth: number) => `r${nth} 09:${String(nth).padStart(2, "0")}:00`;
    const first = receivePage(
      walk,
      page(
        Array.from({ length: limit }, (_, nth) => row(nth)),
        { limit },
      ),
    );
    expect(asked(first)).toBe("08:59:59/10:00:01+30");
    const rest = [row(30), row(31), row(45)];
    expect(asked(receivePage(first, page(rest, { limit })))).toBe("08:59:59/10:00:01+20");
  });
});

describe("a full page within one timestamp", () => {
  const tied = (...references: string[]) => references.map((reference) => `${reference} 09:30:00`);
  it("is read by offsets until two readings agree, separately from what lies before and after", () => {
    const pages = [tied("a", "b", "c", "d"), tied("c", "d", "e")];
    const asks: (string | undefined)[] = [];
    let walk = receivePage(start(), page(tied("a", "b", "c", "d")));
    for (const rows of [...pages, ...pages, [], []]) {
      asks.push(asked(walk)?.replace("09:29:59/09:30:02", "tied"));
      walk = receivePage(walk, page(rows));
    }
    const around = ["08:59:59/09:30:00+0", "09:30:01/10:00:01+0"];
    expect(asks).toEqual(["tied+0", "tied+2", "tied+0", "tied+2", ...around]);
    expect(walk.outcome).toEqual(READ);
  });
  const names = Array.from({ length: 40 }, (_, nth) => `r${nth}`);
  it.each([
    ["one known row as an anchor where there should be many", ["r20", "x", "y", "z"]],
    ["known rows in another sequence", ["r21", "r20", ...names.slice(22), "x"]],
    ["known rows with unread ones between them", [...names.slice(20, 30), "x", ...names.slice(30)]],
  ])("does not accept %s", (_, next) => {
    const limit = names.length;
    const window = { since: at("09:00:00"), until: at("10:00:00") };
    let walk = startWalk({ window, limit, pagesMax: 9 });
    for (const _ of ["to find them tied", "to read them"])
      walk = receivePage(walk, page(tied(...names), { limit }));
    expect(asked(walk)).toMatch(/\+20$/);
    walk = receivePage(walk, page(tied(...next), { limit }));
    expect(asked(walk)).toMatch(/\+1$/);
  });
  it("is not proved when two readings never agree, although others agree after them", () => {
    let walk = receivePage(start(10_000), page(tied("a", "b", "c", "d")));
    let next = 0;
    while (asked(walk)?.startsWith("09:29:59")) {
      // New rows on every page.
      const fresh = Array.from({ length: asked(walk)?.endsWith("+0") ? 4 : 3 }, () => `r${(next += 1)}`);
      walk = receivePage(walk, page(tied(...fresh)));
    }
    const others = ["a", "b", "c", "d"].map((reference) => `${reference} 09:10:00`);
    while (walk.outcome === undefined) {
      const { since, until, offset } = nextRequest(walk)!;
      const isInside = since <= at("09:10:00") && at("09:10:00") < until;
      walk = receivePage(walk, page(isInside ? others.slice(offset) : []));
    }
    expect(walk.outcome).toEqual({ kind: "read", proved: false });
  });
  it("is read completely also where more orders share an instant than can be remembered", () => {
    const limit = 200;
    const rows = Array.from({ length: SEEN_KEYS_MAX + 50_000 }, (_, index) => ({
      key: `k${index}`,
      version: 1_790_000_000_123_456_000n,
    }));
    const window = { since: 1_790_000_000_000_000_000n, until: 1_790_000_001_000_000_000n };
    let walk = startWalk({ window, limit, pagesMax: 50_000 });
    const shown = new Set<string>();
    for (let request = nextRequest(walk); request; request = nextRequest(walk)) {
      const { since, until, offset } = request;
      const inside = rows[0]!.version >= since && rows[0]!.version < until ? rows : [];
      const page = inside.slice(offset, offset + limit);
      walk = receivePage(walk, { rows: page, hasMore: offset + page.length < inside.length, limit });
      for (const { key } of page) shown.add(key);
    }
    expect(walk.outcome).toEqual({ kind: "read", proved: true });
    expect(shown.size).toBe(rows.length);
    // Once, with twenty shared rows per page.
    expect(walk.pages).toBeLessThan(rows.length / 179);
  });
});

describe("a provider that contradicts itself", () => {
  it("is asked three times for an empty page with hasMore, then the walk stalls", () => {
    const empty = page([], { hasMore: true });
    let walk = receivePage(receivePage(start(), empty), empty);
    expect([walk.outcome, asked(walk)]).toEqual([undefined, "08:59:59/10:00:01+0"]);
    walk = receivePage(walk, empty);
    expect(walk.outcome).toEqual({ kind: "stalled" });
  });
  it("stalls the walk when it serves the same page for every request", () => {
    const same = page(["a 09:10:00", "b 09:20:00", "c 09:30:00", "d 09:40:00"]);
    let walk = start(1_000);
    while (walk.outcome === undefined) walk = receivePage(walk, same);
    expect(walk.outcome).toEqual({ kind: "stalled" });
    expect(walk.pages).toBeLessThan(40);
  });
});
