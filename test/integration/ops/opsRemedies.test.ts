import { describe, expect, it } from "vitest";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";

const { pool, read, post } = await openOpsPages();
await fillMirror(pool);
await pool.query("update mirror.coverage set ended_at = now() - interval '20 minutes'");
await pool.query(
  `insert into mirror.refetches (source_id, reference, reason, claim_version, attempts, requested_at, next_attempt_at)
   select 'live', 'LATE-' || n, 'late event', 1, 3, now() - interval '40 minutes', now() + interval '1 hour'
   from generate_series(1, 21) n`,
);
const one = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows[0];

describe("remedies on the overview", () => {
  it.each([
    [
      "gap",
      "OrderMirrorGaps",
      "Read gaps: source live (1).",
      "select kind, source_id, (until - since)::text as length, state from mirror.period_requests",
      { kind: "backfill", source_id: "live", length: "600000000000", state: "requested" },
    ],
    [
      "reread",
      "OrderMirrorExceptions",
      "Read orders again: source live (21).",
      "select count(*)::int as due from mirror.refetches where next_attempt_at <= now() and claim_version = 1",
      { due: 21 },
    ],
  ])("carry out %s, and say what was done", async (name, condition, said, sql, result) => {
    expect((await read("/ops")).page).toMatch(
      new RegExp(`data-condition="${condition}"[^]*action="/ops/${name}"`),
    );
    const { status, to } = await post(`/ops/${name}`, { source: "live" });
    expect(status).toBe(303);
    expect((await read(to ?? "")).text).toContain(said);
    expect(await one(sql)).toEqual(result);
  });

  it("pause and resume polling, on the page of the source", async () => {
    for (const [name, said, next] of [
      ["pause", "Paused polling: source live (1).", "Resume polling"],
      ["resume", "Resumed polling: source live (1).", "Pause polling"],
    ] as const) {
      const { to } = await post(`/ops/${name}`, { source: "live" });
      expect((await read(to ?? "")).text).toContain(said);
      expect((await read("/ops/sources/live")).text).toContain(next);
    }
    expect(await one("select paused_at from mirror.sources")).toEqual({ paused_at: null });
  });

  it("are shown to a viewer disabled, with the reason, and refused", async () => {
    const { page, text } = await read("/ops/sources/live", "viewer");
    expect(page).toContain("<button disabled>Pause polling</button>");
    expect(page).not.toContain('action="/ops/pause"');
    expect(text).toContain("Only operators may do this.");
    expect((await post("/ops/pause", { source: "live" }, "viewer")).status).toBe(405);
  });

  it("affect nothing of a source that does not exist", async () => {
    for (const name of ["gap", "pause", "resume", "reread"]) {
      const { to } = await post(`/ops/${name}`, { source: "nowhere" });
      expect((await read(to ?? "")).text).toContain("source nowhere (0).");
    }
  });
});
