import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { secondsAgo } from "../../support/pages/opsMirror.ts";
import { addSource, makeEventBody } from "../../support/mirror/orders.ts";
import { refusal, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";
import type { ScriptedProvider } from "../../support/providers/scriptedProvider.ts";
import { openSurfaces } from "../../support/pages/surfaces.ts";
import type { Surfaces } from "../../support/pages/surfaces.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const WAIT = { timeout: 60_000, interval: 500 };
const OTHER_SECRET = `whsec_${Buffer.from("another secret of the same length").toString("base64")}`;

let database: TestDatabase;
let env: Record<string, string>;
let surfaces: Surfaces;
/** Refuses immediately: doctor would ask an unreachable one four times, with pauses. */
let provider: ScriptedProvider;

beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
  provider = await startScriptedProvider();
  provider.script(refusal(404, "not_found"));
  env = {
    DATABASE_URL: database.url,
    DELIVERY_BASE_URL: provider.url,
    DELIVERY_LIVE_API_KEY: "dos_live_sandbox",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    LOCAL_TRUST: "true",
  };
  surfaces = await openSurfaces(env);
});
afterAll(async () => {
  await surfaces.close();
  await provider.close();
  await database.drop();
});
beforeEach(() => run(WELL));

const run = (statement: string) => database.pool.query(statement);
const NANOS = "(extract(epoch from clock_timestamp()) * 1000000000)::bigint";
const MINUTE = 60_000_000_000n;

/** A source with a leader and polling, complete up to a minute ago, that has received every event. */
const WELL = `
  truncate mirror.inbox, mirror.pending, mirror.history, mirror.coverage_breaches, mirror.quarantine, mirror.refetches, mirror.poll_state, mirror.coverage,
    mirror.leases, mirror.alerts, mirror.unannounced_changes, mirror.announced_statuses, mirror.event_delays,
    mirror.webhook_calls, mirror.provider_requests, mirror.provider_behaviour, mirror.outgoing_deliveries;
  delete from mirror.outgoing_endpoints;
  update mirror.sources set created_at = now() - interval '30 days', paused_at = null;
  insert into mirror.leases (name, holder, fence, expires_at)
    values ('poll:live', 'host:1', 1, now() + interval '1 hour');
  insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_ended_at)
    values ('live', ${NANOS} - ${600n * MINUTE}, ${NANOS}, ${NANOS} - ${MINUTE}, now());
  insert into mirror.announced_statuses values ('live', 'assigned', 'order.assigned', 100, now(), now());
  insert into mirror.event_delays values ('live', date_trunc('hour', now()), false, 5, 100);`;

const poll = (change: string) => `update mirror.poll_state set ${change};`;
const failing = (trouble: string, since: string) =>
  poll(
    `last_error = 'GET /v1/orders failed', trouble = '${trouble}', failing_since = now() - interval '${since}'`,
  );
const lost = (count: number, ago: string) => `
  insert into mirror.unannounced_changes (source_id, reference, status, version, via, found_at, state)
  select 'live', 'R' || n, 'assigned', n, 'poll', now() - interval '${ago}', 'lost' from generate_series(1, ${count}) n;`;
const calls = (outcome: string, count: number, slow = 0) => `
  insert into mirror.webhook_calls values
    ('live', date_trunc('minute', now()) - interval '3 minutes', '${outcome}', ${count}, ${slow}, now());`;
const delivery = (state: string) => `
  insert into mirror.outgoing_endpoints (endpoint_id, failures_in_row) values ('erp', ${state === "dead" ? 0 : 4});
  insert into mirror.outgoing_deliveries
    (endpoint_id, source_id, position, reference, event_type, state, last_attempt_at, created_at)
  values ('erp', 'live', 1, 'R', 'order.new', '${state}', now(), now() - interval '11 minutes');`;

const FAULTS: readonly (readonly [name: string, severity: "critical" | "warning", statement: string])[] = [
  ["NoLeader", "critical", "update mirror.leases set expires_at = now() - interval '3 minutes'"],
  ["NotPolled", "critical", poll("last_cycle_ended_at = now() - interval '6 minutes'")],
  ["Paused", "warning", "update mirror.sources set paused_at = now(); delete from mirror.leases"],
  ["KeyRefused", "critical", failing("key_refused", "2 minutes")],
  ["ProviderAway", "warning", failing("away", "11 minutes")],
  ["ProviderSlow", "warning", failing("slow", "11 minutes")],
  ["RateLimited", "warning", failing("rate_limited", "2 minutes")],
  [
    "RateLimited",
    "warning",
    "insert into mirror.provider_requests values ('live', now() - interval '3 minutes', 'order-list', 'live', 20, 6)",
  ],
  ["PollFailing", "warning", failing("other", "11 minutes")],
  ["Incomplete", "warning", poll(`safe_through = ${NANOS} - ${70n * MINUTE}`)],
  [
    "Gaps",
    "warning",
    `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at, ended_at)
     values ('live', ${NANOS} - ${30n * 1_000_000_000n}, ${NANOS}, 'delayed', true, 1, 1, 0, now(), now() - interval '16 minutes')`,
  ],
  [
    "ProviderChanged",
    "warning",
    "insert into mirror.provider_behaviour values ('live', 'sort', 'descending', now(), 'ascending', now())",
  ],
  ["LateArrivals", "warning", poll("overlap_seconds = 60, late_tail_seconds = 50")],
  ["EventsWait", "critical", "insert into mirror.pending values (1, 'live', now() - interval '7 minutes')"],
  [
    "Quarantine",
    "warning",
    "insert into mirror.quarantine (source_id, via, reason) values ('live', 'webhook', 'not_json')",
  ],
  [
    "ClaimsRefuted",
    "warning",
    `insert into mirror.history (source_id, reference, via, verdict, refuted)
     values ('live', 'DO-1', 'webhook', 'refuted', false), ('live', 'DO-1', 'webhook', 'applied', true),
       ('live', 'DO-2', 'webhook', 'stale', true), ('live', 'DO-3', 'webhook', 'applied', false)`,
  ],
  [
    "Exceptions",
    "warning",
    `insert into mirror.refetches (source_id, reference, reason, claim_version, requested_at)
     values ('live', 'DO-1', 'late_event', 1, now() - interval '31 minutes')`,
  ],
  [
    "ProofTakenBack",
    "warning",
    `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
     values ('live', 1, 2, 'missed_change', 'DO-1', 1, 'poll', 'The mirror did not have the order.')`,
  ],
  ["BadSignatures", "warning", calls("wrong_signature", 21)],
  ["EventsRefused", "critical", calls("not_stored", 1)],
  ["SlowAnswers", "warning", calls("accepted", 100, 5)],
  [
    "EventsStopped",
    "critical",
    "update mirror.announced_statuses set last_at = now() - interval '20 hours'; insert into mirror.event_delays values ('live', date_trunc('hour', now()), false, 1, 900);" +
      lost(3, "20 minutes"),
  ],
  ["EventsLost", "warning", lost(2, "20 minutes")],
  [
    "EventsLate",
    "warning",
    "insert into mirror.event_delays values ('live', date_trunc('hour', now()), true, 60, 50)",
  ],
  ["OutgoingFailing", "warning", delivery("pending")],
  ["OutgoingGivenUp", "warning", delivery("dead")],
];

const everywhere = (...said: string[]) => ({
  page: said,
  status: said,
  doctor: said,
  readyz: said,
  metrics: said,
});

it.each(FAULTS)(
  "%s is %s on every surface, is told once, and is over everywhere",
  async (name, severity, fault) => {
    const condition = `${severity} OrderMirror${name}`;
    const before = (await surfaces.tell()).length;
    await run(fault);
    expect(await surfaces.look()).toEqual(everywhere(condition));
    await surfaces.tell();
    expect((await surfaces.tell()).slice(before)).toEqual([`alert.firing ${condition}`]);
    const alerts = await run("table mirror.alerts");
    await run(WELL);
    await database.pool.query(
      "insert into mirror.alerts select * from json_populate_recordset(null::mirror.alerts, $1)",
      [JSON.stringify(alerts.rows)],
    );
    expect(await surfaces.look()).toEqual(everywhere());
    expect((await surfaces.tell()).slice(before)).toEqual([
      `alert.firing ${condition}`,
      `alert.resolved ${condition}`,
    ]);
  },
);

it("shows until when the mirror is complete while nothing is wrong", async () => {
  expect(await surfaces.look()).toEqual(everywhere());
  expect(await surfaces.readPage()).toMatch(/✔ All good\. Complete up to \d\d:\d\d \(1(?:&nbsp;|.)min/);
});

it("reports everywhere that all webhooks are refused while polling finds their changes", async () => {
  const url = `${surfaces.url}/webhooks/live`;
  const order = { reference: "R1", status: "assigned", updatedAt: secondsAgo(5) };
  const body = makeEventBody({ id: "evt_1", order });
  for (let n = 0; n < 4; n += 1)
    expect(await sendEvent(url, { id: `evt_${n}`, body }, OTHER_SECRET)).toBe(401);
  const counted = async () =>
    (await run("select calls::int from mirror.webhook_calls where outcome = 'wrong_signature'")).rows as {
      calls: number;
    }[];
  await expect.poll(counted, WAIT).toEqual([{ calls: 4 }]);
  // The state two minutes later.
  await run(
    `update mirror.webhook_calls set minute = minute - interval '3 minutes';
    update mirror.announced_statuses set last_at = now() - interval '10 minutes';` + lost(1, "1 minute"),
  );
  await run("update mirror.unannounced_changes set state = 'waiting'");
  expect(await surfaces.look()).toEqual(everywhere("critical OrderMirrorWebhooksRefused"));
  expect(await surfaces.readPage()).toContain("Every webhook of live is refused (4 calls)");

  expect(await sendEvent(url, { id: "evt_9", body })).toBe(200);
  await run("truncate mirror.pending");
  expect(await surfaces.look()).toEqual(everywhere());
});

it("distinguishes forged calls by strangers from a wrong secret", async () => {
  await run(
    "update mirror.announced_statuses set last_at = now() - interval '10 minutes';" +
      calls("wrong_signature", 5),
  );
  expect(await surfaces.look()).toEqual(everywhere());
});

it("reports everywhere that the queue is unreachable when Redis is", async () => {
  const away = await openSurfaces({ ...env, REDIS_URL: `redis://127.0.0.1:${await findFreePort()}` });
  onTestFinished(() => away.close());
  const condition = "warning OrderMirrorQueueAway";
  expect(await away.look()).toEqual(everywhere(condition));
  expect(await away.tell()).toEqual([`alert.firing ${condition}`]);
});

it("reports everywhere the transaction that readers of the feed wait for", async () => {
  const client = await database.pool.connect();
  await client.query("begin");
  await client.query(
    `insert into mirror.changes (source_id, reference, revision, history_id, status, via, version, verdict)
     values ('live', 'X', 1, 1, 'created', 'poll', 1, 'applied')`,
  );
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  await expect
    .poll(() => surfaces.look(), { timeout: 60_000, interval: 500 })
    .toEqual(everywhere("warning OrderMirrorFeedHeldUp"));
  expect(await surfaces.readPage()).toContain(`the transaction of backend ${rows[0]!.pid}`);
  await client.query("rollback");
  client.release();
  expect(await surfaces.look()).toEqual(everywhere());
});

it("reports everywhere that a replica is behind", async () => {
  const replica = await makeTestDatabase();
  onTestFinished(() => replica.drop());
  await addSource(replica.pool, "live");
  await replica.pool.query(
    "insert into mirror.poll_state (source_id, last_cycle_ended_at) values ('live', now() - interval '3 minutes')",
  );
  const behind = await openSurfaces({ ...env, DATABASE_READ_URL: replica.url });
  onTestFinished(() => behind.close());
  expect(await behind.look()).toEqual(everywhere("warning OrderMirrorReplicaBehind"));
  await replica.pool.query("update mirror.poll_state set last_cycle_ended_at = now()");
  await run(poll("last_cycle_ended_at = now() - interval '1 second'"));
  expect(await behind.look()).toEqual(everywhere());
});
