import { describe, expect, it } from "vitest";
import type { Decision } from "../../../src/apply/applySubjects.ts";
import { formatDecision, formatDecisions } from "../../../src/cli/output/decisionLine.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";

const now = parseInstant("2026-03-01T09:00:10Z");
const context = { now, paint: (_style: string, text: string) => text };
const applied: Decision = {
  sourceId: "live",
  reference: "DO-7F3K2M9Q",
  via: "webhook",
  verdict: "applied",
  conflict: false,
  reason: null,
  eventId: "evt_1",
  eventType: "order.picked_up",
  status: "picked_up",
  previousStatus: "created",
  version: parseInstant("2026-03-01T09:00:09.959Z"),
  storedVersion: null,
};

describe("formatDecision", () => {
  it.each([
    [{}, /webhook +DO-7F3K2M9Q +created → picked_up +applied +41 ms$/],
    [{ via: "poll" }, /poll +.*repaired +no event had brought it; found after 41 ms$/],
    [{ via: "poll", previousStatus: null, status: "created" }, /created +new +first seen by a read$/],
    [{ via: "poll", previousStatus: "picked_up" }, /picked_up +applied/],
    [{ verdict: "stale", previousStatus: null }, /stale +A newer state was already known$/],
    [{ verdict: "duplicate" }, /duplicate +Exactly this state was already known$/],
    [
      { verdict: "corrected" },
      /webhook +.*corrected +The later updatedAt known before is refuted by a read, or was dated ahead/,
    ],
    [{ verdict: "quarantined", reason: "wrong_mode" }, /quarantined +wrong_mode$/],
    [
      { verdict: "ignored", reference: null, status: null, reason: "not about an order" },
      /– +.*ignored +not about/,
    ],
  ] as const)("shows %j in a line of its own kind", (change, line) => {
    expect(formatDecision({ ...applied, ...change } as Decision, context)).toMatch(line);
  });

  it("skips polls that showed known states", () => {
    expect(formatDecision({ ...applied, via: "poll", verdict: "confirmed" }, context)).toBeUndefined();
    expect(formatDecision({ ...applied, via: "poll", verdict: "duplicate" }, context)).toBeUndefined();
  });
});

describe("formatDecisions", () => {
  const fresh = (count: number) =>
    Array.from({ length: count }, (): Decision => ({
      ...applied,
      via: "poll",
      previousStatus: null,
      status: "created",
    }));

  it("shows a few new orders one by one, and an imported history as one line", () => {
    expect(formatDecisions(fresh(8), context)).toHaveLength(8);
    const lines = formatDecisions([...fresh(200), applied], context);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toMatch(/200 orders +new/);
  });
});
