import { describe, expect, it } from "vitest";
import { RANGES, parseRange, startOf } from "../../../src/ops/trends/range.ts";
import { renderRangeChoice, renderTrends } from "../../../src/ops/trends/trendPanel.ts";
import type { Html } from "../../../src/runtime/http/html.ts";
import { makeTrend } from "../../support/pages/trend.ts";

const DAY = RANGES[1]!;
/** The markup with its addresses as a browser reads them. */
const read = ({ markup }: Html) => markup.replaceAll("&amp;", "&");
const draw = (...parts: Parameters<typeof makeTrend>) => read(renderTrends([makeTrend(...parts)], DAY));
const figure = (markup: string, title: string) =>
  markup.split("<figure").find((part) => part.includes(`<strong>${title}`)) ?? "";

describe("the charts", () => {
  it("are of the period that the address names, 24 h by default", () => {
    expect(parseRange({ range: "7d" }).title).toBe("7 d");
    expect([parseRange({}), parseRange({ range: "year" }), parseRange({ range: ["1h"] })]).toEqual([
      DAY,
      DAY,
      DAY,
    ]);
    const markup = read(renderRangeChoice(DAY, new URLSearchParams({ via: "webhook" })));
    expect(markup).toContain('<a href="/ops?via=webhook&range=1h#trends-title"');
    expect(markup).toMatch(/range=24h#trends-title" aria-current="true"/);
  });

  it.each(RANGES)("end with the bucket of now, in whole multiples of $unit", (range) => {
    const now = 1_763_632_830;
    const first = startOf(range, now);
    expect(first % range.bucketSeconds).toBe(0);
    const end = first + range.buckets * range.bucketSeconds;
    expect([end > now, end - now <= range.bucketSeconds]).toEqual([true, true]);
  });

  it("have a unit, a scale and the zone, and bars of the right height", () => {
    const markup = draw();
    expect(markup).toContain("Changes of status, per hour");
    expect(markup).toMatch(/<span>100<\/span><span>0<\/span>/);
    expect(markup).toContain("data-zone>UTC<");
    // 90 of 100 on time, with 6 late ones above them and 4 lost ones above these.
    const bars = figure(markup, "Changes of status");
    expect(bars).toContain('class="proved" d="M1 10h8v90h-8z');
    expect(bars).toContain('class="late" d="M1 4h8v6h-8z');
    expect(bars).toContain('class="gap" d="M1 0h8v4h-8z');
    expect(figure(markup, "Use of our request rate")).toContain('class="used" d="M1 90h8v10h-8z');
  });

  it("show a little where there is little, and nothing where there is nothing", () => {
    const bars = figure(draw({ onTime: 10_000, late: 0, lost: 1 }), "Changes of status");
    expect(bars).toMatch(/class="gap" d="M1 \d+h8v2h-8z/);
    expect(bars).toContain('class="late" d=""');
  });

  it("break the lines of the lag where no event came, and show delays beyond an hour as such", () => {
    expect(figure(draw({ onTime: 0, late: 0, p50: null }), "From the change")).toContain(
      'class="line p50" d=""',
    );
    const beyond = draw({ p99: null });
    expect(figure(beyond, "From the change")).toContain("over 1");
    expect(beyond).toMatch(/<td[^>]*>over 1 h<\/td>/);
  });

  it("lead to what is behind them, in drawings and table alike", () => {
    const since = 1_763_600_400n * 1_000_000_000n;
    const gap = { kind: "gap", since, until: since + 600_000_000_000n } as const;
    const markup = draw({}, { spans: [gap], gaps: [gap] });
    const orders = /\/ops\/orders\?source=live&from=2025-11-\d\dT\d\d:00&until=2025-11-\d\dT\d\d:00/g;
    expect(markup.match(orders)).toHaveLength(3 * 24);
    for (const page of ["gaps", "lost", "requests"]) expect(markup).toContain(`/ops/${page}?source=live`);
    expect(markup).toMatch(/1 gap<\/span> <a href="\/ops\/gaps/);
  });
});
