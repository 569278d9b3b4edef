import { describe, expect, it } from "vitest";
import { ALERTS } from "../../../src/health/alerts.ts";
import { renderOverview } from "../../../src/ops/overview/overviewPage.ts";
import { PAGE_POLICY } from "../../../src/ops/html/page.ts";
import { renderState } from "../../../src/ops/overview/statePanel.ts";
import { LOOKED_AT, makeSourceView } from "../../support/sourceView.ts";

const NANOS = 1_000_000_000n;

/** The page's text as a person reads it. */
function read(page: string): string {
  const text = page.replaceAll(/<[^>]+>/g, " ").replaceAll(/&nbsp;|\u00a0/g, " ");
  return text.replaceAll(/\s+/g, " ").replaceAll("&#39;", "'");
}
const show = (...parts: Parameters<typeof makeSourceView>) =>
  read(renderState({ sources: [makeSourceView(...parts)] }).markup);

describe("the state of a source", () => {
  it("claims nothing of one that was never polled", () => {
    const text = show({});
    expect(text).toContain("Fresh? not yet every change until then is here (safe through)");
    expect(text).toContain(
      "Last event, all time none came Webhook lag p50 / p95, last hour no event has changed",
    );
    expect(text).toContain("Poll watermark, now never polled Last poll ended never");
  });

  it("says up to when everything is here, and how late events are", () => {
    const text = show({
      figures: { safeThrough: LOOKED_AT - 12.3, lastEventAt: LOOKED_AT - 75, polledThrough: LOOKED_AT - 6 },
      standing: { safeThrough: 1_763_632_800_999_999_999n },
      lag: { sourceId: "live", events: 1_234, p50Seconds: 0.41, p95Seconds: 2.1 },
    });
    expect(text).toContain(
      "Fresh? 12 s ago every change until then is here (safe through): 2025-11-20 10:00:00 UTC",
    );
    expect(text).toContain("Last event, all time 1 min 15 s ago");
    expect(text).toContain("410 ms / 2.1 s of 1,234 events");
    expect(text).toContain("Poll watermark, now 6 s ago");
  });

  it("tells lost events with their share of all that were to be announced, both of 24 hours", () => {
    const delays = [{ upToSeconds: 1, onTime: 396, late: 1 }];
    const text = show({
      webhooks: "losing",
      record: { lost: 3, announced: 397, delays },
      figures: { lost: 20 },
      standing: { unannounced: 2 },
    });
    expect(text).toContain("Lost? 3 events lost, and repaired by a read, last 24 h");
    expect(text).toContain("Lost of all to be announced, last 24 h 0.75 % of 400");
    expect(text).toContain("last 24 h 1 Found");
    expect(text).toContain("the event may still come, now 2 Lost, all time 20");
  });

  it("prints each count with its scope, and leads to the list behind it", () => {
    const source = makeSourceView({
      figures: { pending: 1_234, oldestPendingAt: LOOKED_AT - 75, quarantined: 3, refetches: 7 },
      parked: [{ sourceId: "live", reason: "not_json", count: 2 }],
    });
    const { markup } = renderState({ sources: [source] });
    expect(read(markup)).toContain(
      "Stuck? 1,234 events without a decision, now Oldest waiting, now 1 min 15 s",
    );
    expect(read(markup)).toContain("In quarantine, open, all time 3 · not_json 2");
    for (const address of ["waiting", "quarantine", "refetches", "lost", "walks", "works", "requests"]) {
      expect(markup).toContain(`href="/ops/${address}?source=live"`);
    }
    expect(markup).toContain('href="/ops/quarantine?source=live&reason=not_json"');
  });

  it("says who spends the budget, and what is being read beside live polling", () => {
    const text = show({
      requests: [
        { policy: "order-list", purpose: "live", requests: 120 },
        { policy: "sustained", purpose: "live", requests: 5 },
        { policy: "order-list", purpose: "backfill", requests: 30 },
      ],
      listReads: { sent: 109, allowed: 1_080 },
      works: [
        {
          kind: "backfill",
          id: "12",
          sourceId: "live",
          since: 0n,
          until: 100n * NANOS,
          running: true,
          share: 0.25,
          orders: 500,
          elapsedSeconds: 50,
          lastError: null,
        },
      ],
    });
    expect(text).toContain("Budget? 89 % left of the rate of order lists that is ours, last 10 min");
    expect(text).toContain("109 of 1,080 All requests by purpose, last hour live 125 · backfill 30");
    expect(text).toMatch(/backfill 12 .* 25 % 500 orders · 10 orders\/s · about 2 min 30 s left/);
  });

  it("shows a history that is not caught up with, until it lacks less than an hour", () => {
    const standing = (missingSeconds: number) => ({
      historySince: BigInt(LOOKED_AT - 36_000) * NANOS,
      safeThrough: BigInt(LOOKED_AT - missingSeconds) * NANOS,
    });
    expect(show({ standing: standing(3_600) })).toContain("history");
    expect(show({ standing: standing(3_600) })).toContain("90 %");
    expect(show({ standing: standing(3_599) })).not.toContain("90 %");
  });

  it("has each alert say what to do, and lead somewhere; without any it is in sync", () => {
    expect(show({ figures: { safeThrough: LOOKED_AT } })).toContain("In sync : no gap, nothing stuck");
    expect(show({})).toContain("Not proved yet of live :");
    const markup = renderState({ sources: [makeSourceView({ alerts: ALERTS })] }).markup;
    expect(markup.match(/class="alert"/g)?.length).toBeGreaterThanOrEqual(ALERTS.length);
    expect(markup.match(/>Look<\/a\s*>/g)).toHaveLength(ALERTS.length);
    expect(read(markup)).not.toContain("In sync");
  });

  it("tells a source at rest from one that is polled", () => {
    expect(show({ standing: { pausedAt: 1_763_632_800n * NANOS } })).toContain("Paused by a person since");
    expect(show({})).not.toContain("Paused");
  });
});

describe("the overview", () => {
  const page = (lastError: string | null) =>
    renderOverview({
      collected: { sources: [makeSourceView({ figures: { lastError } })] },
      lines: [],
      filter: { source: null, via: null, verdict: null },
      asOf: "2026-11-20T14:32:07Z",
      viewer: { role: "viewer" },
    });

  it("shows what a provider's error says as text", () => {
    expect(page("<script>alert(1)</script>")).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
    expect(read(page(null))).toContain("viewer (read-only)");
  });

  it("has no script, style or handler of its own, and nothing from elsewhere", () => {
    expect(PAGE_POLICY).not.toMatch(/unsafe|https?:|\*|sha256/);
    expect(PAGE_POLICY).toContain("default-src 'none'");
    expect(page(null)).not.toMatch(/<style|<script(?! src="\/ops\/assets\/)|style="|\son\w+=|https?:/);
  });
});
