import { expect, it } from "vitest";
import { readHealthOnce } from "../../../src/health/health.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { fillMirror, fillOutgoing } from "../../support/pages/opsMirror.ts";
import { openOpsPages } from "../../support/pages/opsServer.ts";

const { pool, read, post } = await openOpsPages();
await fillMirror(pool);
await fillOutgoing(pool, "<script>no</script>");
await pool.query("update mirror.coverage set ended_at = now() - interval '20 minutes'");
await pool.query(
  `insert into mirror.refetches (source_id, reference, reason, claim_version, attempts, requested_at, next_attempt_at)
   select 'live', 'LATE-' || n, 'late event', 1, 3, now() - interval '40 minutes', now() + interval '1 hour'
   from generate_series(1, 21) n`,
);
const one = async (sql: string) => (await pool.query<Record<string, unknown>>(sql)).rows[0];
const OF = { source: "live", endpoint: "erp" } as const;

/**
 * An operator's actions: the page that offers each, what that says once it is done and how to take it back, what the audit
 * log says, and what came of it.
 */
const REMEDIES = [
  {
    name: "gap",
    done: "The gaps are requested",
    of: "source",
    page: "/ops",
    says: "Read gaps live source live 1 ",
    sql: "select kind, source_id, (until - since)::text as length, state from mirror.period_requests",
    result: { kind: "backfill", source_id: "live", length: "600000000000", state: "requested" },
  },
  {
    name: "reread",
    done: "These orders are due now",
    of: "source",
    page: "/ops",
    says: "Reread live source live 21 ",
    sql: "select count(*)::int as due from mirror.refetches where next_attempt_at <= now() and claim_version = 1",
    result: { due: 21 },
  },
  {
    name: "pause",
    done: "Polling is paused",
    undo: "resume",
    of: "source",
    page: "/ops/sources/live",
    says: "Pause live source live 1 ",
    sql: "select paused_at is not null as paused from mirror.sources",
    result: { paused: true },
  },
  {
    name: "resume",
    done: "Polling is no longer paused",
    undo: "pause",
    of: "source",
    page: "/ops/sources/live",
    says: "Resume live source live 1 ",
    sql: "select paused_at is not null as paused from mirror.sources",
    result: { paused: false },
  },
  {
    name: "outgoing-pause",
    done: "The endpoint is paused",
    undo: "outgoing-resume",
    of: "endpoint",
    page: "/ops/outgoing",
    says: "Pause endpoint – endpoint erp 1 ",
    sql: "select paused_at is not null as paused from mirror.outgoing_endpoints",
    result: { paused: true },
  },
  {
    name: "outgoing-resume",
    done: "The endpoint is no longer paused",
    undo: "outgoing-pause",
    of: "endpoint",
    page: "/ops/outgoing",
    says: "Resume endpoint – endpoint erp 1 ",
    sql: "select paused_at is not null as paused from mirror.outgoing_endpoints",
    result: { paused: false },
  },
  {
    name: "outgoing-retry",
    done: "The messages that were given up wait again",
    of: "endpoint",
    page: "/ops/outgoing",
    before: "update mirror.outgoing_deliveries set state = 'dead'",
    says: "Retry endpoint – endpoint erp 2 ",
    sql: "select distinct state, attempts from mirror.outgoing_deliveries",
    result: { state: "pending", attempts: 0 },
  },
  {
    name: "outgoing-now",
    done: "What waits is due now",
    of: "endpoint",
    page: "/ops/outgoing",
    before:
      "update mirror.outgoing_deliveries set state = 'pending', next_attempt_at = now() + interval '1 hour'",
    says: "Hasten endpoint – endpoint erp 2 ",
    sql: "select count(*)::int as waiting from mirror.outgoing_deliveries where next_attempt_at > now()",
    result: { waiting: 0 },
  },
  {
    name: "outgoing-test",
    done: "A test waits",
    of: "endpoint",
    page: "/ops/outgoing",
    says: "Test endpoint – endpoint erp 1 ",
    sql: "select state, source_id from mirror.outgoing_deliveries where event_type = 'test'",
    result: { state: "pending", source_id: "live" },
  },
  {
    name: "outgoing-remove",
    done: "The endpoint and its messages are forgotten",
    of: "endpoint",
    page: "/ops/outgoing",
    before: "update mirror.outgoing_endpoints set listed_at = now() - interval '2 minutes'",
    warns: "deleted for good",
    says: "Remove endpoint – endpoint erp 1 ",
    sql: "select count(*)::int as left from mirror.outgoing_endpoints",
    result: { left: 0 },
  },
] as const;

/** The sentence on top of a page about what was done, and the names of its buttons. */
function readDone(page: string) {
  const [done = ""] = /<div class="done[^]*?<\/div>/.exec(page) ?? [];
  const said = done.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  return { said, buttons: [...done.matchAll(/action="\/ops\/([\w-]+)"/g)].map(([, name]) => name) };
}

it.each(REMEDIES)(
  "$name is offered to an operator only, is carried out, said on the page where it was pressed, and in the audit log",
  async ({ name, of, page, says, sql, result, done, ...more }) => {
    if ("before" in more) await pool.query(more.before);
    const button = `action="/ops/${name}"`;
    expect((await read(page, "viewer")).page).not.toContain(button);
    expect((await post(`/ops/${name}`, { [of]: OF[of] }, { role: "viewer" })).status).toBe(405);
    const offered = await read(page);
    expect(offered.page).toContain(button);
    expect(offered.text).toContain("warns" in more ? more.warns : "");
    const from = `${page}?range=7d&did=earlier&on=it&many=9`;
    const { status, to } = await post(`/ops/${name}`, { [of]: OF[of] }, { from });
    expect([status, to]).toEqual([
      303,
      expect.stringMatching(`^${page}\\?range=7d&did=\\w+&on=\\w+\\+\\w+&many=\\d+$`),
    ]);
    const { said, buttons } = readDone((await read(to ?? "")).page);
    expect(said).toContain(`✔ ${of} ${OF[of]}: ${done}`);
    expect(buttons).toEqual("undo" in more ? [more.undo] : []);
    expect(readDone((await read(to ?? "", "viewer")).page)).toEqual({
      said: expect.stringContaining(done),
      buttons: [],
    });
    expect((await read("/ops/actions")).text).toContain(`operator ${says}`);
    expect(await one(sql)).toEqual(result);
    const late = await post(`/ops/${name}`, { [of]: "nowhere" }, { from: page });
    expect(readDone((await read(late.to ?? "")).page).said).toContain("nowhere: Nothing was left to do");
    expect((await read("/ops/actions")).text).toContain(`${of} nowhere 0 `);
  },
);

it("an endpoint is not late at once after its pause, during which nothing was sent", async () => {
  const look = async () => (await readHealthOnce({ pool, clock: systemClock, sources: [] })).holding;
  const names = async () =>
    (await look()).map(({ condition }) => condition.name).filter((name) => name.includes("Outgoing"));
  await pool.query(`insert into mirror.outgoing_endpoints (endpoint_id, source_ids, position) values ('slow', '{live}', 9999);
    insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type, created_at)
    values ('slow', 'live', 1, 'R', 'order.new', now() - interval '1 hour')`);
  expect(await names()).toEqual(["OrderMirrorOutgoingLate"]);
  await post("/ops/outgoing-pause", { endpoint: "slow" });
  expect(await names()).toEqual(["OrderMirrorOutgoingPaused"]);
  await post("/ops/outgoing-resume", { endpoint: "slow" });
  expect(await names()).toEqual([]);
  await pool.query("update mirror.outgoing_endpoints set failures_in_row = 3 where endpoint_id = 'slow'");
  expect(await names()).toEqual([]);
  await pool.query("delete from mirror.outgoing_endpoints where endpoint_id = 'slow'");
});

it("an endpoint is listed with its state and its backlog", async () => {
  await pool.query("delete from mirror.outgoing_deliveries; delete from mirror.outgoing_endpoints");
  await fillOutgoing(pool, "<script>no</script>");
  const { page, text } = await read("/ops/outgoing");
  expect(page).toContain('href="/ops/outgoing/messages?endpoint=erp"');
  expect(page).toContain('aria-current="page"\n>Outgoing');
  expect(text).toMatch(/erp live ✔ ok 1 \S+ \S+ \S+ \S+ 0 /);
  await pool.query("update mirror.outgoing_endpoints set failures_in_row = 2");
  expect((await read("/ops/outgoing")).text).toContain("▲ failed 2 times in a row");
});

it("an endpoint leads to its messages by state and by pages, and to how each one ended", async () => {
  await pool.query(
    `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type)
     select 'erp', 'live', n, 'R' || n, 'order.new' from generate_series(3, 62) n`,
  );
  const countRows = ({ page }: { page: string }) => page.match(/data-label="Kind"/g)?.length ?? 0;
  const first = await read("/ops/outgoing/messages?endpoint=erp");
  const next = /href="([^"]+)" rel="next"/.exec(first.page)?.[1]?.replaceAll("&amp;", "&") ?? "";
  const second = await read(next);
  expect([countRows(first), countRows(second)]).toEqual([50, 12]);
  expect(second.page).toContain("&lt;script&gt;no");
  expect(second.page).not.toContain("<script>no");
  expect(second.text).toMatch(/status 500, 40.ms/);
  expect(countRows(await read("/ops/outgoing/messages?endpoint=erp&state=delivered"))).toBe(1);
  expect((await read("/ops/outgoing/messages?endpoint=none")).text).toContain("Nothing matches");
});
