import { describe, expect, it } from "vitest";
import type { SourceState } from "../../../src/mirror/readOverview.ts";
import { renderOverview } from "../../../src/ops/overviewPage.ts";
import { PAGE_POLICY } from "../../../src/ops/page.ts";

const BACKLOG = { asOf: "2026-11-20T14:32:07Z", pending: 0, oldestPendingAgeSeconds: null, quarantined: 0 };
const OPERATOR = { role: "operator" } as const;
const NEVER: SourceState = {
  sourceId: "live",
  mode: "live",
  safeThrough: null,
  safeThroughAgeSeconds: null,
  pollStartedAgeSeconds: null,
  pollEndedAgeSeconds: null,
  lastError: null,
  lastErrorAgeSeconds: null,
};

/** The page's text as a person reads it. */
function read(page: string): string {
  const text = page.replace(/<style>[^]*<\/style>/, "").replaceAll(/<[^>]+>/g, " ");
  return text.replaceAll(/\s+/g, " ").replaceAll("&#39;", "'");
}
const show = (source: Partial<SourceState>, backlog = {}) =>
  read(
    renderOverview({
      sources: [{ ...NEVER, ...source }],
      backlog: { ...BACKLOG, ...backlog },
      viewer: OPERATOR,
    }),
  );

describe("the overview", () => {
  it("claims nothing of a source that was never polled", () => {
    expect(show({})).toContain("(safe through) not known yet Last poll never Last poll error, all time none");
  });

  it("says up to when everything is here, and when it was polled last", () => {
    const text = show({
      safeThrough: 1_763_632_800_999_999_999n,
      safeThroughAgeSeconds: 12.3,
      pollStartedAgeSeconds: 9,
      pollEndedAgeSeconds: 8,
    });
    expect(text).toContain("2025-11-20 10:00:00 UTC · 12 s ago");
    expect(text).toContain("Last poll ended 8 s ago Last");
  });

  it("tells a poll that runs from one that ended", () => {
    const running = show({ pollStartedAgeSeconds: 3, pollEndedAgeSeconds: 40 });
    expect(running).toContain("Last poll ended 40 s ago, one more started 3 s ago");
    expect(show({ pollStartedAgeSeconds: 3 })).toContain(
      "Last poll none has ended, one more started 3 s ago",
    );
  });

  it("shows what a provider's error says as text", () => {
    const page = renderOverview({
      sources: [{ ...NEVER, lastError: "<script>alert(1)</script>", lastErrorAgeSeconds: 5 }],
      backlog: BACKLOG,
      viewer: { role: "viewer" },
    });
    expect(page).not.toContain("<script");
    expect(read(page)).toContain("&lt;script&gt;");
    expect(read(page)).toContain("viewer (read-only)");
  });

  it("prints each count with its scope", () => {
    const text = show({}, { pending: 1234, oldestPendingAgeSeconds: 75, quarantined: 2 });
    expect(text).toContain(
      "1,234 events without a decision: the oldest came 1 min 15 s ago now, all sources",
    );
    expect(text).toContain(
      "2 in quarantine: could not be applied and need a person open, all time, all sources",
    );
    expect(show({})).toContain("0 events without a decision: nothing waits");
  });

  it("has no script, style or handler of its own, and nothing from elsewhere", () => {
    const page = renderOverview({ sources: [], backlog: BACKLOG, viewer: OPERATOR });
    expect(PAGE_POLICY).not.toMatch(/unsafe|https?:|\*|sha256/);
    expect(PAGE_POLICY).toContain("default-src 'none'");
    expect(page).not.toMatch(/<style|<script(?! type="module" src="\/ops\/)|style="|\son\w+=|https?:/);
    expect(page).toContain("None was ever configured.");
  });
});
