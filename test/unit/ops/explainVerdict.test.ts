import { describe, expect, it } from "vitest";
import { VERDICTS } from "../../../src/apply/batchRow.sql.ts";
import type { TimelineEntry } from "../../../src/ops/orders/timeline.sql.ts";
import { explainAnnouncement, explainVerdict } from "../../../src/ops/orders/explainVerdict.ts";

const ENTRY: TimelineEntry = {
  historyId: 1n,
  sourceId: "live",
  reference: "R1",
  previousStatus: null,
  via: "poll",
  verdict: "applied",
  conflict: false,
  reason: null,
  eventId: null,
  eventType: null,
  status: "created",
  version: 5n,
  settled: true,
  observedAt: 6n,
  receivedAt: null,
  seenAt: 7n,
  raw: null,
};

describe("the explanation of a decision", () => {
  it.each(VERDICTS)("is one sentence for %s, with the reason if there is one", (verdict) => {
    expect(explainVerdict({ ...ENTRY, verdict })).toMatch(/^[A-Z][^.]+\.$/);
    const reason = verdict === "confirmed" ? "" : ": because so.";
    expect(explainVerdict({ ...ENTRY, verdict, reason: "because so" }).endsWith(reason)).toBe(true);
  });

  it("mentions a conflict", () => {
    expect(explainVerdict({ ...ENTRY, conflict: true })).toContain("same updatedAt");
  });
});

describe("the events of a change", () => {
  it.each([
    ["waiting", false, "may still arrive"],
    ["late", false, "late, not lost"],
    ["lost", true, "never arrived"],
    ["not_announced", false, "does not announce"],
  ] as const)("is explained when it is %s", (state, lost, words) => {
    const explained = explainAnnouncement(ENTRY, [{ version: 5n, state }]);
    expect(explained?.lost).toBe(lost);
    expect(explained?.sentence).toContain(words);
  });

  it("are not shown for another version, for an event, or for an observation that changed nothing", () => {
    const unannounced = [{ version: 5n, state: "lost" }] as const;
    expect(explainAnnouncement({ ...ENTRY, version: 6n }, unannounced)).toBeNull();
    expect(explainAnnouncement({ ...ENTRY, via: "webhook" }, unannounced)).toBeNull();
    expect(explainAnnouncement({ ...ENTRY, verdict: "stale" }, unannounced)).toBeNull();
  });
});
