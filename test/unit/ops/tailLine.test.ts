import { describe, expect, it } from "vitest";
import type { DecisionRow } from "../../../src/changes/changeTail.sql.ts";
import { fitsTail, parseTailFilter, renderTailLine } from "../../../src/ops/overview/overviewPage.ts";

const DECISION: DecisionRow = {
  historyId: 7n,
  sourceId: "live",
  reference: "ORD-1",
  via: "webhook",
  verdict: "applied",
  conflict: false,
  reason: null,
  eventId: "evt_1",
  eventType: "order.picked_up",
  status: "picked_up",
  previousStatus: "created",
  version: 1_763_632_800_000_000_000n,
  seenAt: 1_763_632_800_800_000_000n,
};
const read = (decision: DecisionRow) =>
  renderTailLine(decision)
    .markup.replaceAll(/<[^>]+>/g, " ")
    .replaceAll(/\s+/g, " ");

describe("the filter of decisions", () => {
  it("accepts everything when it is empty or unknown", () => {
    for (const query of [{}, { via: "pigeon", verdict: ["applied"], source: "" }]) {
      const filter = parseTailFilter(query);
      expect(fitsTail(filter, DECISION)).toBe(true);
    }
  });

  it.each([
    [{ via: "webhook" }, true],
    [{ via: "poll" }, false],
    [{ verdict: "applied" }, true],
    [{ verdict: "stale" }, false],
    [{ source: "live", via: "webhook", verdict: "applied" }, true],
    [{ source: "test" }, false],
  ])("with %j lets a webhook's applied decision through: %s", (query, fits) => {
    const filter = parseTailFilter(query);
    expect(fitsTail(filter, DECISION)).toBe(fits);
  });
});

describe("a line", () => {
  it("shows the observation, the decision and its delay", () => {
    expect(read(DECISION)).toContain(
      "webhook ORD-1 applied created → picked_up live order.picked_up · 800 ms after the change",
    );
    expect(renderTailLine(DECISION).markup).toContain('href="/ops/orders/live/ORD-1"');
  });

  it("shows a provider's data as text, and an event without an order without a link", () => {
    const strange = { ...DECISION, reference: null, eventType: "<img src=x>", status: null };
    expect(renderTailLine(strange).markup).not.toMatch(/<img|href/);
  });
});
