import { describe, expect, it } from "vitest";
import { judgeFreshness } from "../../../src/health/freshness.ts";
import { renderFreshness } from "../../../src/ops/phrases.ts";
import { comparePlan, readMoment, renderPunctuality } from "../../../src/ops/orders/delivery.ts";
import { ago, makeFacts, makeSourceFacts } from "../../support/pages/facts.ts";

const read = ({ markup }: { markup: string }) =>
  markup
    .replaceAll(/<[^>]+>/g, "")
    .replaceAll(/\s+/g, " ")
    .trim();

describe("how far the data reaches", () => {
  it.each([
    ["read lately", {}, "Data up to 2025-11-20 10:00 (6 s ago)."],
    [
      "a provider that is away",
      { polledThrough: ago(660), trouble: "away", failingSince: ago(650) },
      "▲ Data up to 2025-11-20 09:49. The provider does not answer since 2025-11-20 09:49 (10 min 50 s).",
    ],
    [
      "no poller",
      { polledThrough: ago(660), leader: null, leaderlessSince: ago(600) },
      "▲ Data up to 2025-11-20 09:49. No poller runs since 2025-11-20 09:50 (10 min 0 s).",
    ],
    [
      "a pause",
      { polledThrough: ago(660), pausedAt: ago(640), leader: null, leaderlessSince: ago(600) },
      "▲ Data up to 2025-11-20 09:49. Polling is paused since 2025-11-20 09:49 (10 min 40 s).",
    ],
    [
      "polls that hang",
      { polledThrough: ago(660), lastCycleEndedAt: ago(640) },
      "▲ Data up to 2025-11-20 09:49. No poll has ended since 2025-11-20 09:49 (10 min 40 s).",
    ],
    [
      "a clock of the provider that is behind",
      { polledThrough: ago(660), clockErrorSeconds: -650, clockWrongSince: ago(600) },
      "▲ Data up to 2025-11-20 09:49. The provider's clock differs from the database's since 2025-11-20 09:50 (10 min 0 s).",
    ],
    ["polls that end and read nothing new", { polledThrough: ago(90) }, /^▲ Data up to 2025-11-20 09:59\.$/],
    ["a failure that is too short to matter", { trouble: "away", failingSince: ago(5) }, "Data up to"],
  ] as const)("is said with its cause: %s", (_when, facts, expected) => {
    const said = read(renderFreshness([makeSourceFacts(facts)])).replaceAll("&#39;", "'");
    expect(said).toMatch(expected);
  });

  it("names the sources that are behind, and counts the rest of them", () => {
    const sources = Array.from({ length: 6 }, (_, n) =>
      makeSourceFacts({ sourceId: `s${n}`, polledThrough: ago(n === 0 ? 5 : 900) }),
    );
    const text = read(renderFreshness(sources));
    expect(text).toMatch(/^▲ Data of s1 up to .* ▲ Data of s3 up to .* and of 2 more sources$/);
    expect(text).not.toContain("s0");
  });
});

describe("on time", () => {
  const planned = ago(240);
  const show = (polledAgo: number, order: object) => {
    const moment = readMoment(makeFacts({ polledThrough: ago(polledAgo) }));
    const base = { sourceId: "live", status: "picked_up", planned, actual: null };
    return read(renderPunctuality(comparePlan({ ...base, ...order }, moment)));
  };

  it.each([
    ["an open order that is not due", 5, { planned: ago(-60) }, "–"],
    ["one that is late as of the last read", 5, {}, "3 min late"],
    ["one that is late for long", 5, { planned: ago(600) }, "▲ 9 min late"],
    [
      "one that was late when its source was last read",
      300,
      { planned: ago(700) },
      "▲ 6 min late at 2025-11-20 09:55, unknown since",
    ],
    ["one that was due after the last read", 300, {}, "unknown since 2025-11-20 09:55"],
    ["one of a source that was never read", 5, { sourceId: "other" }, "unknown since 2025-11-20 09:56"],
    ["one on hold", 5, { status: "on_hold", planned: ago(600) }, "▲ 9 min late"],
    ["one that is delivered in time", 900, { actual: ago(230) }, "✔ on time"],
    ["one that is delivered late", 900, { planned: ago(960), actual: ago(230) }, "▲ 12 min late"],
    ["one that is delivered early", 900, { planned: ago(-600), actual: ago(0) }, "10 min early"],
    ["a cancelled one", 5, { status: "cancelled" }, "–"],
    ["a gone one", 5, { goneAt: ago(10), actual: ago(10) }, "–"],
  ] as const)("is said only of what is known: %s", (_which, polledAgo, order, expected) => {
    expect(show(polledAgo, order)).toBe(expected);
  });

  it("is old when the data is, and not before", () => {
    const isOld = (seconds: number, intervalSeconds: number | null) =>
      judgeFreshness(makeSourceFacts({ polledThrough: ago(seconds), intervalSeconds })).isOld;
    expect([isOld(69, 30), isOld(71, 30), isOld(69, null), isOld(71, null)]).toEqual([
      false,
      true,
      false,
      true,
    ]);
    // Polls five minutes apart are older for longer, and are not behind.
    expect([isOld(609, 300), isOld(611, 300)]).toEqual([false, true]);
  });
});
