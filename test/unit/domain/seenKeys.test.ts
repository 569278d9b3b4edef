import { describe, expect, it } from "vitest";
import { addSeen, NOTHING_SEEN, SEEN_KEYS_MAX } from "../../../src/domain/window/seenKeys.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";

describe("the keys that a walk has seen", () => {
  it("identify the new ones of a page, a repeated one once, without changing the previous set", () => {
    const first = addSeen(NOTHING_SEEN, ["a", "b", "a"]);
    expect(first.fresh).toEqual([0, 1]);
    const second = addSeen(first.seen, ["b", "c"]);
    expect([second.fresh, second.seen.count, first.seen.count]).toEqual([[1], 3, 2]);
    expect(addSeen(second.seen, ["a"]).seen).toBe(second.seen);
  });
  it("are bounded: beyond that the set is marked as incomplete", () => {
    const keys = Array.from({ length: SEEN_KEYS_MAX }, (_, index) => `k${index}`);
    const full = addSeen(NOTHING_SEEN, keys).seen;
    expect([full.count, full.complete]).toEqual([SEEN_KEYS_MAX, true]);
    const over = addSeen(full, ["one more"]);
    expect([over.seen.count, over.seen.complete, over.fresh]).toEqual([SEEN_KEYS_MAX, false, [0]]);
  });
});

describe("more orders at one instant than can be remembered", () => {
  it("are read completely, anyway", () => {
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
