import { expect, it } from "vitest";
import { SEEN_KEYS_MAX } from "../../../src/domain/window/seenKeys.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";

it("more orders at one instant than can be remembered are read completely, anyway", () => {
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
