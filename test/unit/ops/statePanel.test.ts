import { describe, expect, it } from "vitest";
import type { SourceFacts } from "../../../src/health/condition.ts";
import type { Viewer } from "../../../src/ops/auth/viewer.ts";
import { estimateCatchUp } from "../../../src/ops/overview/catchUp.ts";
import { RANGES } from "../../../src/ops/trends/range.ts";
import { judge } from "../../../src/health/judge.ts";
import { renderOverview } from "../../../src/ops/overview/overviewPage.ts";
import { PAGE_POLICY } from "../../../src/ops/html/page.ts";
import { renderState } from "../../../src/ops/overview/statePanel.ts";
import { renderVerdict } from "../../../src/ops/overview/verdict.ts";
import { ago, LOOKED_AT, makeFacts } from "../../support/pages/facts.ts";
import { makeSourceView } from "../../support/pages/sourceView.ts";
import { makeTrend } from "../../support/pages/trend.ts";

const NANOS = 1_000_000_000n;

/** The page's text as a person reads it. */
function read(page: string): string {
  const text = page.replaceAll(/<[^>]+>/g, " ").replaceAll(/&nbsp;|\u00a0/g, " ");
  return text.replaceAll(/\s+/g, " ").replaceAll("&#39;", "'");
}
const OPERATOR: Viewer = { role: "operator", person: null };
const VIEWER: Viewer = { ...OPERATOR, role: "viewer" };
const collect = (...parts: Parameters<typeof makeSourceView>) => {
  const { holding, beginning } = judge(makeFacts(parts[0]?.standing));
  const pace = { arrivingPerSecond: 0, decidedPerSecond: 0 };
  return { now: ago(0), sources: [makeSourceView(...parts)], holding, beginning, pace };
};
const show = (...parts: Parameters<typeof makeSourceView>) => {
  const overview = collect(...parts);
  return read(renderVerdict(overview, OPERATOR).markup + renderState(overview, OPERATOR).markup);
};
const TASK = {
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
} as const;
/** A source of which nothing is known yet. */
const NEW: Partial<SourceFacts> = {
  createdAt: ago(60),
  safeThrough: null,
  historySince: null,
  polledThrough: null,
  lastCycleEndedAt: null,
  lastEventAt: null,
};

describe("the state of a source", () => {
  it("claims nothing about a source that was never polled", () => {
    const text = show({ standing: NEW });
    expect(text).toContain("Complete up to not yet Polled up to never polled");
    expect(text).toContain(
      "Last event, all time none received Webhook lag p50 / p95, last hour no event has changed",
    );
  });

  it("shows up to when the mirror is complete, and how late events are", () => {
    const text = show({
      standing: { safeThrough: ago(12.3), lastEventAt: ago(75), polledThrough: ago(6) },
      lag: { sourceId: "live", events: 1_234, p50Seconds: 0.41, p95Seconds: 2.1 },
    });
    expect(text).toContain("Complete up to 12 s ago Polled up to 6 s ago");
    expect(text).toContain("Last event, all time 1 min 15 s ago");
    expect(text).toContain("410 ms / 2.1 s of 1,234 events");
  });

  it("shows exceptions and withdrawn proofs beside the claim", () => {
    const text = show({ standing: { exceptions: 2, breaches: 3, lastBreachAt: ago(75) } });
    expect(text).toMatch(/ago , ✖ except for 2 orders that were seen but not read or confirmed/);
    expect(text).toContain("Proofs withdrawn ✖ 3 times, last 1 min 15 s ago");
  });

  it("shows the share of lost events of the changes to be announced, both of 24 hours", () => {
    const text = show({ webhooks: "losing", standing: { lost: 3, announced: 397 } });
    expect(text).toContain("Missed webhooks, last 24 h 0.75 % of 400");
  });

  it("shows each count with its scope, and a link to the list", () => {
    const { markup } = renderState(
      collect({
        standing: {
          pending: 1_234,
          oldestPendingAt: ago(75),
          quarantined: 3,
          oldestQuarantinedAt: ago(9),
        },
        quarantinedReasons: [{ sourceId: "live", reason: "not_json", count: 2 }],
      }),
      OPERATOR,
    );
    expect(read(markup)).toContain("Events waiting, now 1,234 , the oldest for 1 min 15 s");
    expect(read(markup)).toContain("In quarantine, open, all time 3 · Not JSON 2");
    for (const address of ["waiting", "quarantine", "lost", "walks", "tasks", "requests"]) {
      expect(markup).toContain(`href="/ops/${address}?source=live"`);
    }
    expect(markup).toContain('href="/ops/quarantine?source=live&amp;reason=not_json"');
    expect(markup).toContain('href="/ops/sources/live"');
  });

  it("shows what uses the budget, and tasks in addition to polling", () => {
    const text = show({
      requests: [
        { policy: "order-list", purpose: "poll", requests: 120 },
        { policy: "sustained", purpose: "poll", requests: 5 },
        { policy: "order-list", purpose: "backfill", requests: 30 },
      ],
      listReads: { sent: 109, allowed: 1_080 },
      tasks: [TASK],
    });
    expect(text).toContain("Rate used");
    expect(text).toContain(" 11 % ");
    expect(text).toContain("All requests by purpose, last hour poll 125 · backfill 30");
    expect(text).toMatch(/backfill 12 .* 25 % 500 orders · 10 orders\/s · about 2 min 30 s left/);
  });

  it("shows the progress of the history until it lacks less than an hour", () => {
    const standing = (missingSeconds: number) => ({
      historySince: BigInt(LOOKED_AT - 36_000) * NANOS,
      safeThrough: BigInt(LOOKED_AT - missingSeconds) * NANOS,
    });
    expect(show({ standing: standing(3_600) })).toContain("history");
    expect(show({ standing: standing(3_600) })).toContain("90 %");
    expect(show({ standing: standing(3_599) })).not.toContain("90 %");
  });

  it("shows up to when everything is good", () => {
    const text = show({ standing: { safeThrough: ago(70) } });
    expect(text).toContain("✔ All good. Complete up to 09:59 (1 min 10 s ago).");
    expect(show({ standing: NEW })).toContain("Starting: live not verified yet.");
  });

  it("shows what is wrong, since when, and the remedy, critical conditions first", () => {
    const standing = {
      quarantined: 2,
      oldestQuarantinedAt: ago(3_600),
      leader: null,
      leaderlessSince: ago(180),
    };
    const { markup } = renderState(collect({ standing }), OPERATOR);
    const text = read(markup);
    expect(text).not.toContain("All good");
    expect(text).toMatch(
      /✖ No poller runs for live\. Details Since 2025-11-20 09:57:30 \(3 min 0 s\)\. Start order-mirror poller/,
    );
    expect(text).toMatch(
      /▲ 2 events or reads of live could not be processed\. Details Since 2025-11-20 09:00:30 \(1 h 0 min\)/,
    );
    expect(markup.indexOf("OrderMirrorNoLeader")).toBeLessThan(markup.indexOf("OrderMirrorQuarantine"));
    expect(markup).toContain('href="/ops/quarantine?source=live"');
  });

  it("answers each question in words, from the conditions that hold", () => {
    expect(show()).toContain("Fresh? ✔ Up to date complete up to");
    expect(show({ standing: NEW })).toContain("Fresh? … Starting not complete yet");
    expect(show({ standing: { safeThrough: ago(359) } })).toContain("Fresh? ✔ Up to date");
    expect(show({ standing: { safeThrough: ago(361) } })).toContain("Fresh? … Behind");
    const stuck = show({ standing: { pending: 5, oldestPendingAt: ago(600) } });
    expect(stuck).toContain("Stuck? ✖ Stuck 5 waiting, 0 in quarantine");
    expect(show()).toContain("Able to catch up? ✔ Yes no backlog, 100 % of the request rate free");
    const dead = show({ standing: { leader: null, leaderlessSince: ago(180) } });
    expect(dead).toContain("Able to catch up? ✖ No live: no poller leads");
  });

  it.each<[string, Parameters<typeof makeSourceView>[0], string, string]>([
    [
      "while polling catches up",
      { standing: { safeThrough: ago(1_800) } },
      "… Not a problem yet: Data of live may be missing since 2025-11-20 09:30:30 . for 30 min 0 s; reported after 1 h 5 min",
      "Fresh? … Catching up complete up to 30 min 0 s ago",
    ],
    [
      "while a gap is new",
      { standing: { gaps: 1, oldestGap: { since: ago(9_000), until: ago(8_000) }, gapFoundAt: ago(60) } },
      "… Not a problem yet: Changes of live may be missing between",
      "Fresh? … Closing a gap",
    ],
    [
      "when a poll has failed",
      { standing: { trouble: "away", lastError: "502", failingSince: ago(20) } },
      "… Not a problem yet: Polls of live get no usable answer from the provider",
      "Able to catch up? … Interrupted live: the provider cannot be reached, or answers 5xx or unreadably",
    ],
    [
      "while more arrives than is decided",
      { standing: { pending: 500, oldestPendingAt: ago(15) } },
      "… Able to catch up? Not at this pace: backlog: 500 events",
      "Able to catch up? … Not at this pace",
    ],
  ])("does not say that all is good %s", (_when, parts, verdict, tile) => {
    const text = show(parts);
    expect(text).toContain(verdict);
    expect(text).toContain(tile);
    expect(text).not.toContain("All good");
  });

  it("says that webhooks arrive only of sources that have received one", () => {
    expect(show()).toContain("Lost? ✔ Webhooks arrive");
    const silent = show({ webhooks: "never-seen", standing: { lastEventAt: null } });
    expect(silent).toContain("Lost? … None yet for live");
    expect(silent).not.toContain("All good");
    const idle = { lastEventAt: null, hasOrders: false, announced: 0 };
    expect(show({ webhooks: "never-seen", standing: idle })).toContain("Lost? … None yet none was due");
    const polled = show({ webhooks: "not-configured", standing: { configured: false, lastEventAt: null } });
    expect(polled).toContain("Lost? ✔ Polled only");
    expect(polled).toContain("All good");
  });

  it("estimates the time to catch up from the pace, the request rate and the progress of tasks", () => {
    const estimate = (parts: Parameters<typeof makeSourceView>[0], decidedPerSecond = 0) =>
      estimateCatchUp({ ...collect(parts), pace: { arrivingPerSecond: 10, decidedPerSecond } });
    expect(estimate({})).toEqual({ parts: [], seconds: 0 });
    const waiting = { standing: { pending: 600, oldestPendingAt: ago(20) } };
    expect(estimate(waiting, 30)).toEqual({ parts: ["600 events"], seconds: 30 });
    expect(estimate(waiting, 10)).toEqual({ parts: ["600 events"], seconds: Infinity });
    // 400 changes a day are a page in twelve hours, which a poll reads at once.
    const behind = estimate({ standing: { safeThrough: ago(7_200) } });
    expect(behind.parts.map(read)).toEqual(["2 h 0 min of changes of live"]);
    expect(behind.seconds).toBe(60);
    expect(estimate({ tasks: [TASK] })).toEqual({ parts: ["backfill 12"], seconds: 150 });
    expect(estimate({ tasks: [TASK, { ...TASK, running: false }] }).seconds).toBeNull();
  });

  it("puts the worst condition's button into the verdict, disabled for those who may not press it", () => {
    const overview = collect({ standing: { pausedAt: ago(900), leader: null, leaderlessSince: ago(900) } });
    const button = '<a class="button" href="/ops/resume?source=live">Resume polling…</a>';
    expect(renderVerdict(overview, OPERATOR).markup).toContain(button);
    const { markup } = renderVerdict(overview, VIEWER);
    expect(markup).not.toContain(button);
    expect(read(markup)).toContain("Resume polling… only for operators");
    expect(markup).toContain("<button disabled>");
  });

  it("explains how to resume a paused source, instead of starting a poller", () => {
    const text = show({ standing: { pausedAt: ago(900), leader: null, leaderlessSince: ago(900) } });
    expect(text).toContain("▲ Polling of live is paused.");
    expect(text).toContain("Resume with order-mirror source resume live");
    expect(text).not.toMatch(/Start order-mirror poller|All good/);
  });
});

describe("the overview", () => {
  const page = (lastError: string | null) =>
    renderOverview({
      overview: collect({
        standing: lastError === null ? {} : { trouble: "other", failingSince: ago(20), lastError },
      }),
      trends: [makeTrend()],
      range: RANGES[1]!,
      lines: [],
      filter: { source: null, via: null, verdict: null },
      viewer: VIEWER,
    });

  it("shows a provider's error as text", () => {
    expect(page("<script>alert(1)</script>")).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
    expect(read(page(null))).toContain("viewer (read-only)");
  });

  it("has no inline script, style or handler, and no external content", () => {
    expect(PAGE_POLICY).not.toMatch(/unsafe|https?:|\*|sha256/);
    expect(PAGE_POLICY).toContain("default-src 'none'");
    expect(page(null)).not.toMatch(/<style|<script(?! src="\/ops\/assets\/)|style="|\son\w+=|https?:/);
  });
});
