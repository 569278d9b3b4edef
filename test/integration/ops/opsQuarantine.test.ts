import { beforeEach, describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { fillMirror } from "../../support/pages/opsMirror.ts";
import { emptying } from "../../support/mirror/tables.ts";

let notified: number[] = [];
const { pool, read, post } = await openOpsPages({ max: 3, notify: (seqs) => void notified.push(...seqs) });
await fillMirror(pool);

/** Each test begins with two quarantined events of different kinds and a read that names no order. */
beforeEach(async () => {
  notified = [];
  await pool.query(emptying("quarantine ops_actions pending", { restartsIdentity: true }));
  await pool.query(`
    insert into mirror.quarantine (source_id, via, inbox_seq, reason, detail, reference)
    select 'live', 'webhook', seq, case event_id when 'evt_bad' then 'unreadable_order' else 'not_json' end,
      'what exactly', case event_id when 'evt_bad' then 'ORD-9' end
    from mirror.inbox where event_id in ('evt_bad', 'evt_text') order by event_id;
    insert into mirror.quarantine (source_id, via, reason, raw) values ('live', 'poll', 'unreadable_order', '{"customer":"Ada"}')`);
});

const ids = (page: string) => [...page.matchAll(/href="\/ops\/quarantine\/(\d+)"/g)].map(([, id]) => id);
const query = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows;
const states = async () =>
  (
    await query("select quarantine_id || ' ' || state as state from mirror.quarantine order by quarantine_id")
  ).map(({ state }) => state);
const actions = () =>
  query(
    `select role, action, target, note, affected::float8 from mirror.ops_actions order by action_id desc`,
  );
const ALL_OPEN = ["1 open", "2 open", "3 open"];

describe("the quarantine's pages", () => {
  it("list open rows, newest first, optionally by reason", async () => {
    const all = await read("/ops/quarantine");
    expect(ids(all.page)).toEqual(["3", "2", "1"]);
    expect(all.text).toContain(" Quarantine 3 Queue Outgoing ");
    expect(ids((await read("/ops/quarantine?reason=not_json&source=live")).page)).toEqual(["2"]);
    expect((await read("/ops/quarantine?state=dismissed")).text).toContain("Nothing matches this choice.");
  });

  it("show a row with its reason and without personal data", async () => {
    const { text } = await read("/ops/quarantine/1");
    for (const said of [
      "Unreadable order : A field that is needed to compare orders",
      "what exactly",
      "data.reference : 9 ",
      "data.customer : not shown",
    ])
      expect(text).toContain(said);
    for (const id of [1, 2, 3])
      expect((await read(`/ops/quarantine/${id}`)).page).not.toMatch(/Ada|Analytical/);
    const unnamed = await read("/ops/quarantine/3");
    expect(unnamed.text).toContain("It names no order, so it cannot be read again alone;");
    expect(unnamed.page).not.toContain('action="/ops/quarantine/retry"');
    for (const id of ["999", "x"]) expect((await read(`/ops/quarantine/${id}`)).status).toBe(404);
  });
});

describe("an operator", () => {
  it("can have one processed again, and workers are notified", async () => {
    const from = "/ops/quarantine/1";
    const { to } = await post("/ops/quarantine/retry", { id: "1", through: "1" }, { from });
    // Its own page is no more.
    expect(await read(to ?? "")).toMatchObject({
      status: 200,
      text: expect.stringContaining("✔ quarantine 1: To be processed again"),
    });
    expect(await states()).toEqual(["2 open", "3 open"]);
    const [pending] = await query("select array_agg(seq::int) as seqs from mirror.pending");
    expect([notified, notified.length]).toEqual([pending!["seqs"], 1]);
    expect(await actions()).toMatchObject([
      { action: "retry", target: "quarantine 1", affected: 1, role: "operator" },
    ]);
  });

  it("sees the exact count before all are processed again, and later rows stay untouched", async () => {
    const { text, page } = await read("/ops/quarantine");
    expect(text).toMatch(
      /would be processed again: 2; .* name no order, and stay here: 1\..* Process 2 again .* Dismiss 3 /,
    );
    const through = /name="through" value="(\d+)"/.exec(page)?.[1] ?? "";
    await query(`insert into mirror.quarantine (source_id, via, reason, reference, raw)
      values ('live', 'poll', 'wrong_mode', 'ORD-5', 'later')`);
    await post("/ops/quarantine/retry", { through, source: "live", reason: "not_json" });
    expect(await states()).toEqual(["1 open", "3 open", "4 open"]);
    await post("/ops/quarantine/retry", { through, source: "", reason: "" });
    expect(await states()).toEqual(["3 open", "4 open"]);
    expect((await actions())[0]).toMatchObject({
      action: "retry",
      target: "quarantine all reasons, through 3",
      affected: 1,
    });
  });

  it("can dismiss only with a reason, can still view a dismissed row, and finds each action in the audit log", async () => {
    for (const fields of [{ id: "2", through: "2", because: " " }, { because: "no number" }])
      expect((await post("/ops/quarantine/dismiss", { ...fields })).status).toBe(400);
    expect(await states()).toEqual(ALL_OPEN);
    await post("/ops/quarantine/dismiss", { id: "2", through: "2", because: "asked <them>, a test" });
    expect(await states()).toEqual(["1 open", "2 dismissed", "3 open"]);
    expect((await read("/ops/quarantine/2")).text).toMatch(/Dismissed .* Reason: asked &lt;them&gt;, a test/);
    expect(await actions()).toMatchObject([
      { action: "dismiss", target: "quarantine 2", note: "asked <them>, a test", affected: 1 },
    ]);
    const done = (on: string, who: "operator" | "viewer") =>
      read(`/ops/quarantine?did=dismiss&many=1&on=${encodeURIComponent(on)}`, who);
    const undo = /class="done[^]*name="id" value="2"[^]*<button>Process again/;
    expect((await done("quarantine 2", "operator")).page).toMatch(undo);
    expect((await done("quarantine 2", "viewer")).page).not.toMatch(undo);
    expect((await done("quarantine not_json, through 3", "operator")).text).toContain("See them");
    await post("/ops/quarantine/dismiss", { through: "3", source: "live", because: "a test" });
    await post("/ops/queues/api/queues/apply/resume", {});
    expect((await actions())[0]).toMatchObject({ action: "queue", target: "apply resume" });
    const { text } = await read("/ops/actions", "viewer");
    expect(text).toContain("operator Queue – apply resume");
    expect(text).toContain("operator Dismiss live quarantine all reasons, through 3 2 a test");
  });
});
