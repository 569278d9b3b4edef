import { describe, expect, it } from "vitest";
import { WRITE_CARD } from "../../../src/card/cardFormats.ts";
import { makeReportCard, monthPeriod, shiftMonth } from "../../../src/card/reportCard.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";

describe("months", () => {
  it.each([
    ["2026-11", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"],
    ["2026-12", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"],
  ])("%s is a period of UTC", (month, since, until) => {
    expect(monthPeriod(month)).toEqual({ since: parseInstant(since), until: parseInstant(until) });
  });

  it.each(["2026-13", "2026-00", "2026-1", "november", "2026-11-01", ""])("%s is none", (month) => {
    expect(monthPeriod(month)).toBeUndefined();
  });

  it("can be shifted over the end of a year", () => {
    expect([shiftMonth("2026-01", -1), shiftMonth("2026-12", 1), shiftMonth("2026-11", 0)]).toEqual([
      "2025-12",
      "2027-01",
      "2026-11",
    ]);
  });
});

const period = monthPeriod("2026-11")!;
const card = makeReportCard(
  { sourceId: "live", month: "2026-11", period },
  {
    provider: "https://x.example/|[a](b)<i>",
    now: period.until,
    createdAt: period.since,
    observedSince: null,
    delays: [{ upToSeconds: 5, changes: 1_000 }],
    late: 3,
    waiting: 0,
    lost: 2,
    notAnnounced: 0,
    refuted: 0,
    requests: 10_000,
    refused: 0,
    lateCommits: [],
    listed: 1_500,
    breaches: 0,
    clock: null,
    steps: { first: 1_000, second: 995, both: 990 },
  },
);

describe("a card", () => {
  it("has no remarks when it covers the whole month", () => {
    expect(card.remarks).toEqual([]);
    expect(WRITE_CARD.markdown(card)).not.toContain("Not the whole month");
  });

  it("is Markdown in which no text of the provider is markup", () => {
    const text = WRITE_CARD.markdown(card);
    expect(text).toContain("# Report card of https://x.example/\\|\\[a\\](b)\\<i\\>, 2026-11");
    expect(text).toContain("| Lost events | 2 of 1,002 (0.20 %) |");
    for (const note of card.sections.flatMap(({ notes }) => notes)) expect(text).toContain(note);
  });

  it("is the same figures as CSV and as JSON", () => {
    const { figures } = JSON.parse(WRITE_CARD.json(card)) as {
      figures: Record<string, number | string | null>;
    };
    const [header, ...rows] = WRITE_CARD.csv(card).trimEnd().split("\r\n");
    expect(header).toBe("source,month,figure,value,title,text,meaning");
    const found = rows.map((row) => row.split(",").slice(2, 4));
    expect(found).toEqual(Object.entries(figures).map(([name, value]) => [name, String(value ?? "")]));
    expect(figures).toMatchObject({
      events_lost: 2,
      event_delay_p99_seconds: 5,
      late_commit_p50_seconds: null,
    });
    expect(Number(figures["steps_unseen"])).toBeGreaterThanOrEqual(Number(figures["steps_unseen_low"]));
    expect(Number(figures["steps_unseen"])).toBeLessThanOrEqual(Number(figures["steps_unseen_high"]));
  });
});
