import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";

let database: TestDatabase;
let pool: Pool;
let board: Awaited<ReturnType<typeof openBoardQueue>>;
let server: TestServer;

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "ops", max: 2, statementTimeoutMs: 5_000 });
  await fillMirror(database.pool);
  await database.pool.query("update mirror.coverage set ended_at = now() - interval '20 minutes'");
  board = await openBoardQueue(database.url, "remedies");
  const config = { opsPassword: "operate", opsViewerPassword: "look", localTrust: true };
  server = await serve(makeOpsRouter({ pool, queue: board.queue, config, logger: silentLogger }));
});
afterAll(async () => {
  await server.close();
  await board.close();
  await pool.end();
  await database.drop();
});

const as = (role: "operator" | "viewer") => ({
  Authorization: `Basic ${btoa(`${role}:${role === "operator" ? "operate" : "look"}`)}`,
});
const read = async (path: string, role: "operator" | "viewer" = "operator") => {
  const response = await fetch(server.url + path, { headers: as(role) });
  const page = await response.text();
  return { page, text: page.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ") };
};
const post = async (path: string, role: "operator" | "viewer" = "operator") => {
  const body = new URLSearchParams({ source: "live" });
  const answer = await fetch(server.url + path, {
    method: "POST",
    body,
    headers: as(role),
    redirect: "manual",
  });
  return { status: answer.status, to: answer.headers.get("location") };
};

describe("remedies on the overview", () => {
  it("requests the gaps after listing them, and confirms it", async () => {
    const { page } = await read("/ops");
    expect(page).toMatch(/data-condition="OrderMirrorGaps"[^]*href="\/ops\/gap\?source=live"/);
    const { text } = await read("/ops/gap?source=live");
    expect(text).toMatch(/[-\d]+ [:\d]+ to [-\d]+ [:\d]+ Each becomes a backfill/);
    const { status, to } = await post("/ops/gap");
    expect(status).toBe(303);
    expect((await read(to ?? "")).text).toContain("Done: Read gaps, source live: 1 affected.");
    const { rows } = await database.pool.query(
      "select kind, source_id, until - since as length, state from mirror.period_requests",
    );
    expect(rows).toEqual([
      { kind: "backfill", source_id: "live", length: "600000000000", state: "requested" },
    ]);
  });

  it("resumes polling", async () => {
    expect((await read("/ops/resume?source=live")).text).toContain("There is nothing to do.");
    expect(await post("/ops/resume")).toMatchObject({ status: 409 });
    await database.pool.query("update mirror.sources set paused_at = now()");
    expect((await read("/ops/resume?source=live")).text).toContain("Polling is paused.");
    const { to } = await post("/ops/resume");
    expect((await read(to ?? "")).text).toContain("Done: Resumed polling, source live: 1 affected.");
    const { rows } = await database.pool.query("select paused_at from mirror.sources");
    expect(rows).toEqual([{ paused_at: null }]);
  });

  it("shows a viewer the button disabled, with the reason, and refuses the action", async () => {
    const { page, text } = await read("/ops/gap?source=live", "viewer");
    expect(page).toMatch(/<button disabled>Read 1 gap now/);
    expect(page).not.toContain('action="/ops/gap"');
    expect(text).toContain("Only operators of this source may do this.");
    expect((await post("/ops/gap", "viewer")).status).toBe(405);
    const overview = await read("/ops", "viewer");
    expect(overview.page).not.toContain('href="/ops/gap?');
    expect(overview.text).toContain("Read this gap now… only for its operators");
  });

  it("makes the single reads due of orders that the proof excludes, after naming them", async () => {
    await database.pool.query(
      `insert into mirror.refetches (source_id, reference, reason, claim_version, attempts, requested_at, next_attempt_at)
       select 'live', 'LATE-' || n, 'late event', 1, 3, now() - interval '40 minutes', now() + interval '1 hour'
       from generate_series(1, 21) n`,
    );
    await expect
      .poll(async () => (await read("/ops")).page)
      .toMatch(/data-condition="OrderMirrorExceptions"[^]*href="\/ops\/reread\?source=live"/);
    const { text } = await read("/ops/reread?source=live");
    expect(text).toMatch(/LATE-1 .* and 1 more .* Read 21 orders again now/);
    const { to } = await post("/ops/reread");
    expect((await read(to ?? "")).text).toContain("Done: Read orders again, source live: 21 affected.");
    const { rows } = await database.pool.query(
      "select count(*)::int as due from mirror.refetches where next_attempt_at <= now() and claim_version = 1",
    );
    expect(rows).toEqual([{ due: 21 }]);
    await database.pool.query("truncate mirror.refetches");
  });

  it("offers nothing for a source that does not exist", async () => {
    expect((await read("/ops/gap?source=nowhere")).text).toContain("There is nothing to do.");
  });
});
