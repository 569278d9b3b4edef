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
const paused = (table: string) => `exists (select from mirror.${table} where paused_at is not null)`;
const messages = (condition: string) => `exists (select from mirror.outgoing_deliveries where ${condition})`;

interface Case {
  readonly name: string;
  /** The page that offers it; default: that of the endpoints. */
  readonly page?: string;
  readonly before?: string;
  readonly warns?: string;
  /** The button that takes it back. */
  readonly undo?: string;
  /** How many things it concerned. */
  readonly many?: number;
  /** SQL: whether it has had its effect. */
  readonly came: string;
}

const REMEDIES: readonly Case[] = [
  {
    name: "gap",
    page: "/ops",
    came: `(select (kind, source_id, until - since, state) = ('backfill', 'live', 600000000000, 'requested')
      from mirror.period_requests)`,
  },
  {
    name: "reread",
    page: "/ops",
    many: 21,
    came: "(select every(next_attempt_at <= now() and claim_version = 1) from mirror.refetches)",
  },
  {
    name: "pause",
    page: "/ops/sources/live",
    undo: "resume",
    came: paused("sources"),
  },
  {
    name: "resume",
    page: "/ops/sources/live",
    undo: "pause",
    came: `not ${paused("sources")}`,
  },
  {
    name: "outgoing-pause",
    undo: "outgoing-resume",
    came: paused("outgoing_endpoints"),
  },
  {
    name: "outgoing-resume",
    undo: "outgoing-pause",
    came: `not ${paused("outgoing_endpoints")}`,
  },
  {
    name: "outgoing-retry",
    before: "update mirror.outgoing_deliveries set state = 'dead'",
    many: 2,
    came: `not ${messages("state <> 'pending' or attempts <> 0")}`,
  },
  {
    name: "outgoing-now",
    before:
      "update mirror.outgoing_deliveries set state = 'pending', next_attempt_at = now() + interval '1 hour'",
    many: 2,
    came: `not ${messages("next_attempt_at > now()")}`,
  },
  {
    name: "outgoing-test",
    came: messages("event_type = 'test' and state = 'pending' and source_id = 'live'"),
  },
  {
    name: "outgoing-remove",
    before: "update mirror.outgoing_endpoints set listed_at = now() - interval '2 minutes'",
    warns: "deleted for good",
    came: "not exists (select from mirror.outgoing_endpoints)",
  },
];

/** The sentence on top of a page about what was done, and the names of its buttons. */
function readDone(page: string) {
  const [done = ""] = /<div class="done[^]*?<\/div>/.exec(page) ?? [];
  const said = done.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
  return { said, buttons: [...done.matchAll(/action="\/ops\/([\w-]+)"/g)].map(([, name]) => name) };
}

it.each(REMEDIES)(
  "$name is offered to an operator only, is carried out, said on the page where it was pressed, and in the audit log",
  async ({ name, page = "/ops/outgoing", before = "", warns = "", undo, many = 1, came }) => {
    await pool.query(before);
    const [of, subject] = name.startsWith("outgoing") ? ["endpoint", "erp"] : ["source", "live"];
    const press = (which: string, more = {}) => post(`/ops/${name}`, { [of]: which }, more);
    const button = `action="/ops/${name}"`;
    expect((await read(page, "viewer")).page).not.toContain(button);
    expect((await press(subject, { role: "viewer" })).status).toBe(405);
    const offered = await read(page);
    expect(offered.page).toContain(button);
    expect(offered.text).toContain(warns);
    const { status, to } = await press(subject, { from: `${page}?range=7d&did=earlier&on=it&many=9` });
    const answer = `^${page}\\?range=7d&did=\\w+&on=${of}\\+${subject}&many=${many}$`;
    expect([status, to]).toEqual([303, expect.stringMatching(answer)]);
    const said = expect.stringMatching(RegExp(`✔ ${of} ${subject}: (?!Nothing)[A-Z].+\\.`)) as string;
    expect(readDone((await read(to ?? "")).page)).toEqual({
      said,
      buttons: undo === undefined ? [] : [undo],
    });
    expect(readDone((await read(to ?? "", "viewer")).page)).toEqual({ said, buttons: [] });
    expect((await pool.query<object>(`select ${came} as came`)).rows).toEqual([{ came: true }]);
    const late = await press("nowhere", { from: page });
    expect(readDone((await read(late.to ?? "")).page).said).toContain("nowhere: Nothing was left to do");
    const log = (await read("/ops/actions")).text;
    const source = of === "source" ? "live" : "–";
    expect(log).toMatch(RegExp(`operator [A-Z][a-z ]+ ${source} ${of} ${subject} ${many} `));
    expect(log).toContain(`${of} nowhere 0 `);
  },
);

it("the gaps are requested once, however many people press", async () => {
  await post("/ops/gap", { source: "live" });
  const { to } = await post("/ops/gap", { source: "live" }, { from: "/ops" });
  expect(readDone((await read(to ?? "")).page).said).toContain("live: Nothing was left to do");
  expect((await pool.query("select from mirror.period_requests")).rows).toHaveLength(1);
});

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
  // Each of these says more than those before.
  for (const [change, words] of [
    ["failures_in_row = 2", "failed 2 times in a row"],
    ["disputed_at = now()", "listed differently by two workers"],
    ["listed_at = now() - interval '2 minutes'", "not listed by a running worker"],
    ["paused_at = now()", "paused by a person"],
  ] as const) {
    await pool.query(`update mirror.outgoing_endpoints set ${change}`);
    expect((await read("/ops/outgoing")).text).toContain(`erp live ▲ ${words} 1 `);
  }
});

it("an endpoint leads to its messages by state, and to how each one ended", async () => {
  const waiting = await read("/ops/outgoing/messages?endpoint=erp&state=pending");
  expect(waiting.text).toMatch(/ORD-1001 live order\.new waiting 2 .* status 500, 40.ms/);
  expect(waiting.page).toContain("&lt;script&gt;no");
  const { text } = await read("/ops/outgoing/messages?endpoint=erp&state=delivered");
  expect(text).toMatch(/ORD-1001 live order\.new delivered 1 \S+ \S+ – /);
  expect(text).not.toContain("order.new waiting");
  expect((await read("/ops/outgoing/messages?endpoint=none")).text).toContain("Nothing matches");
});
