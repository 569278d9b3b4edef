import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openBoardQueue } from "../../support/pages/boardQueue.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { serve } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const CONFIG = { opsPassword: "change", opsViewerPassword: "look", localTrust: true };
const basic = (user: string, password: string) => ({ Authorization: `Basic ${btoa(`${user}:${password}`)}` });
const OPERATOR = basic("operator", "change");
const VIEWER = basic("viewer", "look");

const { database, pool } = await openTestDatabase({ purpose: "ops", max: 3, statementTimeoutMs: 5_000 });
let notified: number[] = [];

const board = await openBoardQueue(database.url, "quarantine");
await fillMirror(database.pool);
const notify = (seqs: readonly number[]) => void notified.push(...seqs);
const server = await serve(
  makeOpsRouter({ pool, queues: () => [board.queue], config: CONFIG, logger: silentLogger, notify }),
);
afterAll(async () => {
  await server.close();
  await board.close();
});

/** Each test begins with two quarantined events of different kinds and a read that names no order. */
beforeEach(async () => {
  notified = [];
  await database.pool.query(emptying("quarantine", { restartsIdentity: true }));
  await database.pool.query(emptying("ops_actions", { restartsIdentity: true }));
  await database.pool.query(emptying("pending"));
  await database.pool.query(`
    insert into mirror.quarantine (source_id, via, inbox_seq, reason, detail, reference)
    select 'live', 'webhook', seq, case event_id when 'evt_bad' then 'unreadable_order' else 'not_json' end,
      'what exactly', case event_id when 'evt_bad' then 'ORD-9' end
    from mirror.inbox where event_id in ('evt_bad', 'evt_text') order by event_id`);
  await database.pool.query(`
    insert into mirror.quarantine (source_id, via, reason, raw) values ('live', 'poll', 'unreadable_order', '{"customer":"Ada"}')`);
});

async function read(path: string, headers: Record<string, string> = OPERATOR) {
  const response = await fetch(server.url + path, { headers });
  const page = await response.text();
  return { status: response.status, page, text: page.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ") };
}

async function send(
  path: string,
  fields: Record<string, string>,
  headers: Record<string, string> = OPERATOR,
) {
  const body = new URLSearchParams(fields);
  const response = await fetch(server.url + path, { method: "POST", body, headers, redirect: "manual" });
  return { status: response.status, place: response.headers.get("location") };
}

const states = async () => {
  const { rows } = await database.pool.query<{ state: string }>(
    "select quarantine_id || ' ' || state as state from mirror.quarantine order by quarantine_id",
  );
  return rows.map(({ state }) => state);
};
const actions = async () => {
  const { rows } = await database.pool.query<Record<string, unknown>>(
    `select role, person, action, source_id as "sourceId", target, note, affected::float8
     from mirror.ops_actions order by action_id desc`,
  );
  return rows;
};

describe("the quarantine's pages", () => {
  it("list open rows, newest first, optionally by reason", async () => {
    const { text, page } = await read("/ops/quarantine");
    expect(text).toContain("Quarantine Authenticated input");
    expect([...page.matchAll(/href="\/ops\/quarantine\/(\d+)"/g)].map(([, id]) => id)).toEqual([
      "3",
      "2",
      "1",
    ]);
    const some = await read("/ops/quarantine?reason=not_json&source=live");
    expect([...some.page.matchAll(/href="\/ops\/quarantine\/(\d+)"/g)].map(([, id]) => id)).toEqual(["2"]);
    expect((await read("/ops/quarantine?state=dismissed")).text).toContain("Nothing matches this choice.");
  });

  it("continue where a page ends", async () => {
    await database.pool.query(`
      insert into mirror.quarantine (source_id, via, reason, raw)
      select 'live', 'poll', 'wrong_mode', n::text::bytea from generate_series(1, 60) n`);
    const first = await read("/ops/quarantine?reason=wrong_mode");
    const next = /href="(\/ops\/quarantine\?[^"]*after=\d+[^"]*)"/.exec(first.page)?.[1] ?? "";
    const second = await read(next.replaceAll("&amp;", "&"));
    const ids = (page: string) => [...page.matchAll(/href="\/ops\/quarantine\/(\d+)"/g)].map(([, id]) => id);
    expect(new Set([...ids(first.page), ...ids(second.page)]).size).toBe(60);
    expect(second.page).not.toContain("after=");
  });

  it("show the exact count on the source's page and before an action", async () => {
    await database.pool.query(`
      insert into mirror.quarantine (source_id, via, reason, reference, raw)
      select 'live', 'poll', 'wrong_mode', 'ORD-' || n, n::text::bytea from generate_series(1, 10100) n`);
    expect((await read("/ops/sources/live")).text).toContain(
      "In quarantine 10,103 · Test/live mix-up 10,100 · Unreadable order 2 · Not JSON 1",
    );
    expect((await read("/ops/quarantine/all")).text).toContain("10,103 in quarantine");
  });

  it("show a row with its reason and without personal data", async () => {
    const { text, page } = await read("/ops/quarantine/1");
    expect(text).toContain("Unreadable order : A field that is needed to compare orders");
    expect(text).toContain("what exactly");
    expect(text).toContain("data.reference : 9 ");
    expect(text).toContain("data.customer : not shown");
    expect(page).not.toContain("Ada");
    expect((await read("/ops/quarantine/2")).page).not.toMatch(/Ada|Analytical/);
    expect((await read("/ops/quarantine/3")).page).not.toContain("Ada");
    expect((await read("/ops/quarantine/999")).status).toBe(404);
    expect((await read("/ops/quarantine/x")).status).toBe(404);
  });

  it("show a viewer everything but no button", async () => {
    for (const path of ["/ops/quarantine", "/ops/quarantine/1"]) {
      const { status, page } = await read(path, VIEWER);
      expect(status).toBe(200);
      expect(page).not.toMatch(/action="\/ops\/quarantine\/(retry|dismiss)"|href="\/ops\/quarantine\/all/);
    }
    expect((await send("/ops/quarantine/retry", { id: "1", through: "1" }, VIEWER)).status).toBe(405);
    expect(await states()).toEqual(["1 open", "2 open", "3 open"]);
  });
});

describe("an operator", () => {
  it("can retry one, and workers are notified", async () => {
    expect(await send("/ops/quarantine/retry", { id: "1", through: "1" })).toEqual({
      status: 303,
      place: "/ops/actions?did=1",
    });
    expect(await states()).toEqual(["2 open", "3 open"]);
    const { rows } = await database.pool.query<{ seq: string }>("select seq from mirror.pending");
    expect(notified).toEqual(rows.map(({ seq }) => Number(seq)));
    expect(notified).toHaveLength(1);
    expect(await actions()).toMatchObject([
      { action: "retry", target: "quarantine 1", affected: 1, role: "operator" },
    ]);
  });

  it("sees the exact count before retrying all, and later rows stay untouched", async () => {
    const { text, page } = await read("/ops/quarantine/all");
    expect(text).toContain("3 in quarantine");
    expect(text).toContain("2 events would be processed again.");
    expect(text).toContain("1 came from reads and name no order");
    const through = /name="through" value="(\d+)"/.exec(page)?.[1] ?? "";
    await database.pool.query(`
      insert into mirror.quarantine (source_id, via, reason, reference, raw) values ('live', 'poll', 'wrong_mode', 'ORD-5', 'later')`);
    await send("/ops/quarantine/retry", { through, source: "", reason: "" });
    expect(await states()).toEqual(["3 open", "4 open"]);
    expect(await actions()).toMatchObject([
      { action: "retry", target: "quarantine all reasons, through 3", affected: 2 },
    ]);
  });

  it("retries only what matches the filter", async () => {
    await send("/ops/quarantine/retry", { through: "3", source: "live", reason: "not_json" });
    expect(await states()).toEqual(["1 open", "3 open"]);
  });

  it("can dismiss only with a reason, and can still view a dismissed row", async () => {
    expect((await send("/ops/quarantine/dismiss", { id: "2", through: "2", because: " " })).status).toBe(400);
    expect((await send("/ops/quarantine/dismiss", { because: "no number" })).status).toBe(400);
    expect(await states()).toEqual(["1 open", "2 open", "3 open"]);
    await send("/ops/quarantine/dismiss", { id: "2", through: "2", because: "asked <them>, a test" });
    expect(await states()).toEqual(["1 open", "2 dismissed", "3 open"]);
    expect((await read("/ops/quarantine/2")).text).toMatch(/Dismissed .* Reason: asked &lt;them&gt;, a test/);
    expect(await actions()).toMatchObject([
      { action: "dismiss", target: "quarantine 2", note: "asked <them>, a test", affected: 1 },
    ]);
  });

  it("finds all actions in the audit log, including those on queues", async () => {
    await send("/ops/quarantine/dismiss", { through: "3", source: "live", because: "a test" });
    await send("/ops/queues/api/queues/pages/pause", {});
    expect((await actions())[0]).toMatchObject({ action: "queue", target: "pages pause" });
    const { text } = await read("/ops/actions", VIEWER);
    expect(text).toContain("operator Queue – pages pause");
    expect(text).toContain("operator Dismissed live quarantine all reasons, through 3 3 a test");
  });
});
