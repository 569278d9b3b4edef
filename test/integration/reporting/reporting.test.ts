import { randomUUID } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readSnapshot } from "../../../src/wire/order.ts";
import { EMPTY_MIRROR, prove } from "../../support/mirror/tables.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource, at, makeOrder, readAt, type OrderSketch } from "../../support/mirror/orders.ts";

const { database, pool, apply, read, tell, show } = await openLiveMirror({ max: 2 });
await addSource(pool, "test", "test");
beforeEach(() => pool.query(EMPTY_MIRROR));

const seeByEvent = (eventId: string, order: OrderSketch) => tell(order, { eventId });
/** Late enough that the read settles what it shows. */
const seeByPoll = (order: OrderSketch) =>
  show(parseInstant(order.updatedAt) + 5_000_000_001n, [order], { marginSeconds: 5 });

const utc = (text: string) => `${text.replace("T", " ").replace("Z", "")}+00`;

/** Columns whose names say all. */
const PLAIN = `breach_id cancelled_orders city connected_zone_count created_to_delivery_seconds created_to_pickup_seconds
  endpoint_id event_id event_received_at event_type failures_in_row last_cycle_ended_at last_cycle_started_at last_error_at
  last_seen_at late_deliveries late_seconds learned_at livemode meaning mode name newest_updated_at oldest_pending_at
  open_orders order_updated_at orders pending_count postcode reason safe_through_after safe_through_age_seconds
  safe_through_before schedule_mode span_seconds step street zone_name`;

it("every view and function of the schema, every table of the mirror and every other column has a comment", async () => {
  const silent = await read(
    `select distinct a.attname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relnamespace = 'reporting'::regnamespace and col_description(c.oid, a.attnum) is null
     union all
     select proname from pg_proc where pronamespace = 'reporting'::regnamespace and obj_description(oid, 'pg_proc') is null
     union all
     select relname from pg_class where obj_description(oid, 'pg_class') is null
       and (relnamespace = 'reporting'::regnamespace or relnamespace = 'mirror'::regnamespace and relkind in ('r', 'p'))`,
  );
  expect(silent.map(({ name }) => String(name)).toSorted()).toEqual(PLAIN.split(/\s+/));
});

it("orders show the latest state", async () => {
  const branch = { id: "b9", reference: "X" };
  await seeByPoll({ reference: "A", updatedAt: at(1), more: { branch, realPickupTime: at(0) } });
  const times = {
    pickup_time: "2026-03-01 09:20:00+00",
    real_pickup_time: utc(at(0)),
    updated_at: utc(at(1)),
    version: parseInstant(at(1)).toString(),
  };
  const named = { external_order_id: "shop-A", branch_id: "b9", branch_reference: "X", branch_name: null };
  expect(await read("select * from reporting.orders")).toMatchObject([
    { ...named, ...times, settled: true, first_seen_via: "poll" },
  ]);
});

describe("order_history", () => {
  it("has a row per decision, with the observed order", async () => {
    const more = { realPickupTime: "2026-03-01T10:00:00.1234567+01:00" };
    const pickedUp = { reference: "A", updatedAt: at(2), status: "picked_up", more };
    await seeByEvent("evt_2", pickedUp);
    await seeByEvent("evt_1", { reference: "A", updatedAt: at(1) });
    await seeByPoll(pickedUp);
    const rows = await read(
      "select * from reporting.order_history where source_id = 'live' and reference = 'A' order by history_id",
    );
    expect(rows).toMatchObject([
      {
        via: "webhook",
        verdict: "applied",
        event_id: "evt_2",
        event_type: "order.picked_up",
        status: "picked_up",
        updated_at: utc(at(2)),
        has_content: true,
        fleet_name: "Northside Couriers",
        pickup_time: "2026-03-01 09:20:00+00",
        real_pickup_time: "2026-03-01 09:00:00.123456+00",
      },
      { via: "webhook", verdict: "stale", event_id: "evt_1", status: "created", has_content: true },
      { via: "poll", verdict: "confirmed", event_id: null, received_at: null, has_content: false },
    ]);
    expect(rows[0]!["received_at"]).not.toBeNull();
  });

  it("reads snapshots with a NUL, half a surrogate pair or an invalid time", async () => {
    const order = makeOrder({
      reference: "A",
      updatedAt: at(1),
      more: { pickupTime: "2026-02-30T10:00:00Z", deliveryTime: "yesterday" },
    });
    const raw = JSON.stringify(order).replace(
      '"Northside',
      '"\\u0000\\ud83d \\ud83d\\ude00 \\\\u0000 \\\\ud83d\\ude00',
    );
    const snapshots = [readSnapshot(raw, JSON.parse(raw))];
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(parseInstant(at(2))) });
    expect(await read("select * from reporting.order_history")).toMatchObject([
      {
        fleet_name: "\ufffd\ufffd 😀 \\u0000 \\ud83d\ufffd Couriers",
        pickup_time: null,
        delivery_time: null,
      },
    ]);
  });
});

it("webhook_reliability shows what reported each change first, whether an event arrived, and whether one was expected", async () => {
  await pool.query("update mirror.sources set created_at = $1", [at(0)]);
  await seeByEvent("evt_1", { reference: "A", updatedAt: at(1) });
  await seeByPoll({ reference: "A", updatedAt: at(1) });
  await seeByPoll({ reference: "A", updatedAt: at(2), status: "picked_up" });
  await seeByEvent("evt_2", { reference: "A", updatedAt: at(2), status: "picked_up" });
  await seeByPoll({ reference: "A", updatedAt: at(3), status: "cancelled" });
  // An event that says the time with fewer digits; and none is expected of our own reads and writes.
  const fine = { reference: "B", updatedAt: at(2.123456), status: "picked_up" };
  await seeByPoll({ reference: "B", updatedAt: at(1) });
  await seeByPoll(fine);
  await seeByEvent("evt_cut", { ...fine, updatedAt: at(2.123) });
  for (const [second, via] of [
    [3, "backfill"],
    [4, "write"],
  ] as const)
    await show(parseInstant(at(second + 10)), [{ reference: "B", updatedAt: at(second), status: via }], {
      via,
      marginSeconds: 5,
    });
  const rows = await read(
    `select status, previous_status, learned_via, learned_by_webhook, announced, event_id, expected
     from reporting.webhook_reliability where learned_delay_seconds > 0 order by reference, version`,
  );
  expect(rows.map((row) => Object.values(row))).toEqual([
    ["created", null, "webhook", true, true, "evt_1", false],
    ["picked_up", "created", "poll", false, true, "evt_2", true],
    ["cancelled", "picked_up", "poll", false, false, null, true],
    ["created", null, "poll", false, false, null, false],
    ["picked_up", "created", "poll", false, true, "evt_cut", true],
    ["backfill", "picked_up", "backfill", false, false, null, false],
    ["write", "backfill", "write", false, false, null, false],
  ]);
});

it("sync_status has a row for every source, with safe_through as a time", async () => {
  await prove(pool, at(10).replace("Z", ".000000999Z"), { history_since: null });
  await seeByPoll({ reference: "A", updatedAt: at(7) });
  // B is one exception; of two entries without a name, each may be another order.
  await read(`
    insert into mirror.quarantine (source_id, via, reference, reason, state) select 'live', 'poll', * from (values
      ('B', 'unreadable_order', 'open'), ('C', 'unreadable_order', 'dismissed'), (null, 'unreadable_order', 'open'),
      (null, 'unreadable_order', 'open')) entries;
    insert into mirror.refetches (source_id, reference, reason, claim_version, requested_at) values
      ('live', 'B', 'test', 1, now() - interval '1 hour'), ('live', 'D', 'test', 1, now()), ('live', 'E', 'test', null, now());
    insert into mirror.refetches (source_id, reference, reason, next_attempt_at) values ('live', 'F', 'kept', 'infinity')`);
  expect(await read("select kind from mirror.exceptions where reference in ('B', 'D') order by 1")).toEqual([
    { kind: "late_event" },
    { kind: "unreadable_order" },
  ]);
  expect(await read("select * from reporting.sync_status order by source_id")).toMatchObject([
    {
      source_id: "live",
      safe_through: utc(at(10)),
      newest_updated_at: utc(at(7)),
      pending_event_count: "0",
      quarantined_count: "3",
      refetch_count: "3",
      exceptions: "5",
    },
    { source_id: "test", mode: "test", safe_through: null, newest_updated_at: null },
  ]);
});

it("coverage_gaps shows every gap per source, from the intended start of the history; a fast sweep proves nothing", async () => {
  const cover = (since: number, until: number, { sourceId = "live", proved = true } = {}) =>
    read(
      `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
       values ($1, mirror.nanos_of($2), mirror.nanos_of($3), 'delayed', $4, 1, 1, 0)`,
      [sourceId, at(since), at(until), proved],
    );
  const gaps = () => read("select source_id, since, until, span_seconds from reporting.coverage_gaps");
  await cover(0, 10);
  await cover(10, 60, { proved: false });
  await cover(0, 60, { sourceId: "test" });
  expect(await gaps()).toEqual([]);
  await cover(12, 20);
  await cover(20.5, 30);
  expect(await gaps()).toEqual([
    { source_id: "live", since: utc(at(10)), until: utc(at(12)), span_seconds: 2 },
    { source_id: "live", since: utc(at(20)), until: utc(at(20.5)), span_seconds: 0.5 },
  ]);
  await prove(pool, null, { history_since: parseInstant(at(-100)) });
  await cover(10, 30);
  expect(await gaps()).toMatchObject([{ since: utc(at(-100)), until: utc(at(0)) }]);
  await cover(-100, 0);
  expect(await gaps()).toEqual([]);
});

it("orders_as_of returns the last state at the instant, including late observations", async () => {
  await seeByPoll({ reference: "A", updatedAt: at(30), status: "cancelled", more: { pickupTime: at(5) } });
  await seeByPoll({ reference: "B", updatedAt: at(11), status: "created" });
  await seeByEvent("evt_1", { reference: "A", updatedAt: at(10), status: "created" });
  await seeByEvent("evt_2", { reference: "A", updatedAt: at(20), status: "picked_up" });
  // Of two events with one updatedAt, the later status is the order's, whichever came last.
  for (const status of ["cancelled", "picked_up"])
    await seeByEvent(`evt_${status}`, { reference: "B", updatedAt: at(40), status });
  await seeByPoll({ reference: "B", updatedAt: at(50), status: "delivered" });
  for (const [instant, states] of [
    ["-infinity", []],
    [at(9.999999), []],
    [at(10), ["A created"]],
    [at(19.999999), ["A created", "B created"]],
    [at(20.0000005), ["A picked_up", "B created"]],
    [at(30), ["A cancelled", "B created"]],
    [at(40), ["A cancelled", "B cancelled"]],
    ["infinity", ["A cancelled", "B delivered"]],
  ] as const) {
    const rows = await read("select * from reporting.orders_as_of($1) order by reference", [instant]);
    expect([instant, rows.map(({ reference, status }) => `${String(reference)} ${String(status)}`)]).toEqual([
      instant,
      states,
    ]);
  }
  const columns =
    "external_order_id as id, pickup_time from reporting.orders_as_of($1) where reference = 'A'";
  for (const [second, pickup] of [
    [20, "2026-03-01 09:20:00+00"],
    [30, utc(at(5))],
  ] as const)
    expect(await read(`select ${columns}`, [at(second)])).toEqual([{ id: "shop-A", pickup_time: pickup }]);
});

describe("a reader", () => {
  const login = `reader_${randomUUID().replaceAll("-", "")}`;
  const url = new URL(database.url);
  [url.username, url.password] = [login, "reader"];
  const reader = new pg.Pool({ connectionString: url.href, max: 1 });

  beforeAll(async () => {
    await database.pool.query(`create role ${login} login password 'reader'`);
    await database.pool.query("call mirror.admit_reader($1)", [login]);
  });
  afterAll(async () => {
    await reader.end();
    await database.pool.query(`drop role ${login}`);
  });

  it("may read views and functions without naming their schema, also views of a later migration", async () => {
    await read("create view reporting.later as select 1 as one");
    for (const name of ["orders", "later", "orders_as_of(now())"])
      await expect(reader.query(`select * from ${name}`)).resolves.toBeDefined();
    await read("drop view reporting.later");
  });

  it("may read nothing else", async () => {
    const tables = await read(
      `select has_any_column_privilege($1, c.oid, 'select, insert, update') as open
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind in ('r', 'v', 'm', 'p') and n.nspname not in ('reporting', 'pg_catalog', 'information_schema', 'pg_toast')`,
      [login],
    );
    expect(tables.length).toBeGreaterThan(12);
    expect(tables.filter(({ open }) => open !== false)).toEqual([]);
    await expect(reader.query("select from mirror.orders")).rejects.toMatchObject({ code: "42501" });
  });

  it("cannot write, even after switching read-only off, nor take the locks of writers", async () => {
    // The template's settings of the database itself, outside its schemas, are not copied.
    await database.pool.query("call mirror.prepare_reader()");
    await expect(reader.query("create temporary table t (a int)")).rejects.toMatchObject({ code: "25006" });
    await reader.query("set default_transaction_read_only = off");
    for (const statement of [
      "create table reporting.t (a int)",
      "create table public.t (a int)",
      "create temporary table t (a int)",
      "insert into mirror.sources values ('x', 'live', 'x')",
      "update reporting.branches set name = 'x'",
      "delete from reporting.orders",
      "call mirror.prepare_reader()",
      "select nextval('mirror.history_id')",
      "select lo_create(0)",
      "select lo_creat(-1)",
      "select lo_from_bytea(0, 'x')",
      "select pg_advisory_lock((select oid from pg_class where relname = 'changes')::integer, n) from generate_series(0, 99) n",
      "select pg_try_advisory_lock_shared(1)",
      "select pg_advisory_xact_lock(1)",
      "select pg_logical_emit_message(false, 'x', repeat('x', 1000))",
    ])
      await expect(reader.query(statement)).rejects.toMatchObject({ code: /^42501$|^55000$/ });
  });

  it("has limits for connections, times and temporary files, unless an administrator has set others", async () => {
    await database.pool.query("call mirror.prepare_reader()");
    for (const [name, value] of [
      ["statement_timeout", "1min"],
      ["idle_in_transaction_session_timeout", "1min"],
      ["lock_timeout", "5s"],
      // A sort cannot fill the disk; this limit is not theirs to raise.
      ["temp_file_limit", "1GB"],
    ] as const)
      expect((await reader.query(`show ${name}`)).rows).toEqual([{ [name]: value }]);
    await expect(reader.query("set temp_file_limit = -1")).rejects.toMatchObject({ code: "42501" });

    const readRole = async () =>
      (await read("select rolconnlimit, rolconfig from pg_roles where rolname = $1", [login]))[0];
    expect(await readRole()).toMatchObject({ rolconnlimit: 5 });
    await database.pool.query(`alter role ${login} set statement_timeout = '5min'`);
    await database.pool.query(`alter role ${login} connection limit 7`);
    await database.pool.query("call mirror.admit_reader($1)", [login]);
    const row = await readRole();
    expect(row).toMatchObject({ rolconnlimit: 7 });
    for (const setting of ["statement_timeout=5min", "default_transaction_read_only=on"])
      expect(row!["rolconfig"]).toContain(setting);
  });
});
