import { describe, expect, it } from "vitest";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { pool, read, post } = await openOpsPages();
await fillMirror(pool);
await pool.query("update mirror.coverage set ended_at = now() - interval '20 minutes'");
const SOURCE = { source: "live" };

describe("remedies on the overview", () => {
  it("requests the gaps after listing them, and confirms it", async () => {
    const { page } = await read("/ops");
    expect(page).toMatch(/data-condition="OrderMirrorGaps"[^]*href="\/ops\/gap\?source=live"/);
    const { text } = await read("/ops/gap?source=live");
    expect(text).toMatch(/[-\d]+ [:\d]+ to [-\d]+ [:\d]+ Each becomes a backfill/);
    const { status, to } = await post("/ops/gap", SOURCE);
    expect(status).toBe(303);
    expect((await read(to ?? "")).text).toContain("Read gaps: source live (1).");
    const { rows } = await pool.query(
      "select kind, source_id, until - since as length, state from mirror.period_requests",
    );
    expect(rows).toEqual([
      { kind: "backfill", source_id: "live", length: "600000000000", state: "requested" },
    ]);
  });

  it("resumes polling", async () => {
    expect((await read("/ops/resume?source=live")).text).toContain("There is nothing to do.");
    expect(await post("/ops/resume", SOURCE)).toMatchObject({ status: 409 });
    await pool.query("update mirror.sources set paused_at = now()");
    expect((await read("/ops/resume?source=live")).text).toContain("Polling is paused.");
    const { to } = await post("/ops/resume", SOURCE);
    expect((await read(to ?? "")).text).toContain("Resumed polling: source live (1).");
    const { rows } = await pool.query("select paused_at from mirror.sources");
    expect(rows).toEqual([{ paused_at: null }]);
  });

  it("shows a viewer the button disabled, with the reason, and refuses the action", async () => {
    const { page, text } = await read("/ops/gap?source=live", "viewer");
    expect(page).toMatch(/<button disabled>Read 1 gap now/);
    expect(page).not.toContain('action="/ops/gap"');
    expect(text).toContain("Only operators may do this.");
    expect((await post("/ops/gap", SOURCE, "viewer")).status).toBe(405);
    const overview = await read("/ops", "viewer");
    expect(overview.page).not.toContain('href="/ops/gap?');
    expect(overview.text).toContain("Read this gap now… only for operators");
  });

  it("makes the single reads due of orders that the proof excludes, after naming them", async () => {
    await pool.query(
      `insert into mirror.refetches (source_id, reference, reason, claim_version, attempts, requested_at, next_attempt_at)
       select 'live', 'LATE-' || n, 'late event', 1, 3, now() - interval '40 minutes', now() + interval '1 hour'
       from generate_series(1, 21) n`,
    );
    await expect
      .poll(async () => (await read("/ops")).page)
      .toMatch(/data-condition="OrderMirrorExceptions"[^]*href="\/ops\/reread\?source=live"/);
    const { text } = await read("/ops/reread?source=live");
    expect(text).toMatch(/LATE-1 .* and 1 more .* Read 21 orders again now/);
    const { to } = await post("/ops/reread", SOURCE);
    expect((await read(to ?? "")).text).toContain("Read orders again: source live (21).");
    const { rows } = await pool.query(
      "select count(*)::int as due from mirror.refetches where next_attempt_at <= now() and claim_version = 1",
    );
    expect(rows).toEqual([{ due: 21 }]);
    await pool.query(emptying("refetches"));
  });

  it("offers nothing for a source that does not exist", async () => {
    expect((await read("/ops/gap?source=nowhere")).text).toContain("There is nothing to do.");
  });
});
