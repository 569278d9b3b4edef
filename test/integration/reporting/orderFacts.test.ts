import fc from "fast-check";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { removeChanges, removeHistory, removeSuperseded } from "../../../src/retention/retention.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { keepFacts, rebuildFacts } from "../../support/mirror/facts.ts";
import { at, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { database, pool, apply } = await openLiveMirror();
const empty = () =>
  pool.query(
    emptying(
      "orders history changes pending inbox branches poll_state coverage coverage_breaches refetches retention_walks erasures order_facts leases",
      { restartsIdentity: true },
    ),
  );
beforeEach(empty);

async function read(text: string, values: unknown[] = []) {
  const { rows } = await pool.query<Record<string, unknown>>(text, values);
  return rows;
}
const facts = () => read("select * from reporting.order_facts order by reference");

let events = 0;
async function seeByEvent(order: OrderSketch): Promise<void> {
  const eventId = `evt_${(events += 1)}`;
  await apply.applyEvents(
    await putIntoInbox(pool, [{ eventId, body: makeEventBody({ id: eventId, order }) }]),
  );
}
/** `atSecond` is when the list was requested; it shows with certainty what is older by the margin. */
const seeByPoll = (order: OrderSketch, atSecond: number, marginSeconds = 5) =>
  apply.applyReads({
    sourceId: "live",
    via: "poll",
    snapshots: [makeSnapshot(order)],
    time: readAt(parseInstant(at(atSecond)), marginSeconds),
  });
const miss = (reference: string, atSecond: number) =>
  applyAbsence(pool, {
    sourceId: "live",
    reference,
    via: "refetch",
    horizon: parseInstant(at(atSecond - 900)),
    requestedAt: parseInstant(at(atSecond)),
  });
const utc = (seconds: number) => `${at(seconds).replace("T", " ").replace("Z", "")}+00`;
const age = (span: string) =>
  pool.query(`update mirror.history set seen_at = seen_at - interval '${span}';
    update mirror.changes set changed_at = changed_at - interval '${span}'`);

/** An order from its creation to the delivery; the planned delivery is at second 3,000. */
async function deliver(reference = "A"): Promise<void> {
  await seeByEvent({ reference, updatedAt: at(0) });
  await seeByPoll({ reference, updatedAt: at(100), status: "arrived_for_pickup" }, 130);
  await seeByEvent({
    reference,
    updatedAt: at(160),
    status: "picked_up",
    more: { realPickupTime: at(150) },
  });
  await seeByEvent({
    reference,
    updatedAt: at(3_500),
    status: "delivered",
    more: { realPickupTime: at(150), realDeliveryTime: at(3_400) },
  });
}

describe("order_facts", () => {
  it("has the times, durations, delays and origins of an order's statuses", async () => {
    await read(
      "insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', 'b1', 'C', 'Centre', '{}')",
    );
    await deliver();
    await seeByPoll(
      { reference: "B", updatedAt: at(7), status: "cancelled", more: { branch: { reference: "C" } } },
      9,
    );
    await keepFacts(pool);
    expect(await facts()).toMatchObject([
      {
        source_id: "live",
        reference: "A",
        status: "delivered",
        is_open: false,
        fleet_name: "Northside Couriers",
        created_at: utc(0),
        arrived_for_pickup_at: utc(100),
        picked_up_at: utc(160),
        arrived_for_delivery_at: null,
        other_status_at: utc(3_500),
        cancelled_at: null,
        created_seconds: 100,
        arrived_for_pickup_seconds: 60,
        // Its end is not known: arrived_for_delivery was not seen.
        picked_up_seconds: null,
        arrived_for_delivery_seconds: null,
        created_to_pickup_seconds: 150,
        created_to_delivery_seconds: 3_400,
        transit_seconds: 3_250,
        pickup_delay_seconds: -1_050,
        delivery_delay_seconds: 400,
        is_late: true,
        first_seen_via: "webhook",
        first_seen_by_event: true,
        statuses_by_event: 2,
        statuses_by_read: 1,
        corrections: 0,
        updated_at: utc(3_500),
      },
      {
        reference: "B",
        status: "cancelled",
        branch_id: "b1",
        branch_name: "Centre",
        created_at: null,
        cancelled_at: utc(7),
        is_late: null,
        first_seen_by_event: false,
        statuses_by_event: 0,
        statuses_by_read: 1,
      },
    ]);
  });

  it("has no duration of a status whose following one was not seen", async () => {
    const statuses = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "delivered"];
    const seconds = statuses.slice(0, 4).map((status) => `${status}_seconds`);
    for (const lost of [...statuses, "none"])
      for (const [index, status] of statuses.entries())
        if (status !== lost) await seeByEvent({ reference: lost, updatedAt: at(index * 100), status });
    await keepFacts(pool);
    for (const lost of [...statuses, "none"]) {
      const [row] = (await facts()).filter(({ reference }) => reference === lost);
      const known = statuses.slice(0, 4).map((status, n) => status !== lost && statuses[n + 1] !== lost);
      expect([lost, ...seconds.map((column) => row![column])]).toEqual([
        lost,
        ...known.map((is) => (is ? 100 : null)),
      ]);
    }
  });

  it("includes a state that arrives after a younger one, also when its number is committed late", async () => {
    await seeByEvent({ reference: "A", updatedAt: at(100), status: "picked_up" });
    await keepFacts(pool);
    await seeByEvent({ reference: "A", updatedAt: at(0) });
    await keepFacts(pool);
    expect(await facts()).toMatchObject([{ created_at: utc(0), picked_up_at: utc(100) }]);

    await seeByEvent({ reference: "A", updatedAt: at(50), status: "arrived_for_pickup" });
    // As if its transaction had been open while a later one was committed and read.
    await pool.query("update mirror.order_facts set history_id = 1000");
    await keepFacts(pool);
    expect(await facts()).toMatchObject([{ arrived_for_pickup_at: null }]);
    await age("11 minutes");
    await keepFacts(pool);
    expect(await facts()).toMatchObject([{ arrived_for_pickup_at: utc(50) }]);
    expect(
      await read(
        `select facts_late_state = (select max(history_id) from mirror.history where verdict = 'stale') as done
         from mirror.poll_state`,
      ),
    ).toEqual([{ done: true }]);
  });

  it("leaves out what a read contradicted, and counts the correction", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 900, 900);
    await seeByEvent({ reference: "A", updatedAt: at(60), status: "picked_up" });
    await keepFacts(pool);
    expect(await facts()).toMatchObject([{ status: "picked_up", picked_up_at: utc(60), corrections: 0 }]);
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 1_800, 900);
    await keepFacts(pool);
    expect(await facts()).toMatchObject([
      { status: "created", picked_up_at: null, statuses_by_event: 0, corrections: 1 },
    ]);
  });

  it("leaves out an order while the provider does not have it", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 100);
    await keepFacts(pool);
    await miss("A", 2_000);
    await keepFacts(pool);
    expect(await facts()).toEqual([]);
    await seeByPoll({ reference: "A", updatedAt: at(3_000), status: "cancelled" }, 3_001);
    await keepFacts(pool);
    expect(await facts()).toMatchObject([
      { status: "cancelled", created_at: utc(0), cancelled_at: utc(3_000) },
    ]);
  });

  it("keeps nothing of a person", async () => {
    await deliver();
    await keepFacts(pool);
    const before = await facts();
    await eraseOrder(pool, { sourceId: "live", reference: "A" });
    await rebuildFacts(pool);
    expect(await facts()).toEqual(before);
    expect(JSON.stringify(before)).not.toContain("shop-A");
  });
});

describe("order_facts and retention", () => {
  it("keeps what the history no longer has, when the order changes again", async () => {
    await deliver();
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 6_000, 900);
    await seeByEvent({ reference: "A", updatedAt: at(5_900), status: "arrived_for_pickup" });
    await seeByPoll({ reference: "A", updatedAt: at(5_950), status: "picked_up" }, 6_000, 900);
    await seeByEvent({ reference: "A", updatedAt: at(5_990), status: "arrived_for_delivery" });
    await keepFacts(pool);
    const [before] = await facts();
    expect(before).toMatchObject({ corrections: 1, statuses_by_event: 2, statuses_by_read: 1 });
    await age("20 days");
    const rules = [removeSuperseded, removeHistory];
    expect((await removeOlder(pool, rules, { keptDays: 10 })).removed).toBeGreaterThan(4);
    await seeByEvent({ reference: "A", updatedAt: at(9_500), status: "cancelled" });
    for (let pass = 0; pass < 2; pass += 1) {
      await keepFacts(pool);
      expect(await facts()).toMatchObject([
        {
          created_at: before!["created_at"],
          arrived_for_pickup_at: before!["arrived_for_pickup_at"],
          arrived_for_delivery_at: before!["arrived_for_delivery_at"],
          cancelled_at: utc(9_500),
          statuses_by_event: 3,
          statuses_by_read: 1,
          corrections: 1,
        },
      ]);
      await seeByEvent({ reference: "A", updatedAt: at(9_600), status: "cancelled", more: { note: pass } });
    }
    // A read that goes back behind a time that only these rows still had.
    await seeByPoll({ reference: "A", updatedAt: at(10) }, 20_000);
    await keepFacts(pool);
    expect(await facts()).toMatchObject([
      { status: "created", created_at: utc(0), arrived_for_delivery_at: null, cancelled_at: null },
    ]);
  });

  it("examines all orders again when changes were removed before they were read", async () => {
    await deliver("A");
    await keepFacts(pool);
    await deliver("B");
    await age("20 days");
    await removeOlder(pool, [removeChanges], { keptDays: 10 });
    expect(await read("select position from mirror.changes")).toEqual([]);
    await keepFacts(pool, { limit: 1 });
    expect((await facts()).map(({ reference }) => reference)).toEqual(["A", "B"]);
  });
});

describe("the progress of order_facts", () => {
  const known = async () =>
    (await read("select facts_through from reporting.sync_status"))[0]!["facts_through"];
  const prove = (seconds: number) =>
    read(
      `insert into mirror.poll_state (source_id, history_since, safe_through) values ('live', $1, $2)
       on conflict (source_id) do update set safe_through = excluded.safe_through`,
      [String(parseInstant(at(-86_400))), String(parseInstant(at(seconds)))],
    );

  it("is complete after batches of any size, and another pass writes no row", async () => {
    for (const reference of ["A", "B", "C"]) await deliver(reference);
    await keepFacts(pool, { limit: 1 });
    const rows = await read("select f.*, xmin from mirror.order_facts f order by reference");
    expect(rows).toHaveLength(3);
    await pool.query("update mirror.poll_state set facts_position = 0, facts_late_state = 0");
    await keepFacts(pool, { limit: 2 });
    expect(await read("select f.*, xmin from mirror.order_facts f order by reference")).toEqual(rows);
  });

  it("follows a proof that moves without changes", async () => {
    await deliver();
    for (const seconds of [10, 20]) {
      await prove(seconds);
      await keepFacts(pool);
      expect(await known()).toBe(utc(seconds));
    }
  });

  it("shows how far it is current, and not beyond a writer that is still open", async () => {
    await deliver();
    expect(await known()).toBeNull();
    await prove(10);
    await keepFacts(pool);
    expect(await known()).toBe(utc(10));
    const writer = await database.pool.connect();
    await writer.query("begin");
    await writer.query(
      "insert into mirror.changes (source_id, reference, revision, history_id, status, via, version, verdict) select 'live', 'X', 1, 1, 'created', 'poll', 1, 'applied' where false",
    );
    await seeByEvent({ reference: "B", updatedAt: at(15) });
    await prove(20);
    await keepFacts(pool);
    expect(await known()).toBe(utc(10));
    await writer.query("commit");
    writer.release();
    await keepFacts(pool);
    expect(await known()).toBe(utc(20));
    expect(await facts()).toHaveLength(2);
  });

  it("goes back with a breach until the missed change is included, also when the period is proved again", async () => {
    await prove(100);
    await keepFacts(pool);
    await read(
      `insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
       values ('live', $1, $2, 'missed_change', 'A', $1, 'poll', '')`,
      [String(parseInstant(at(40))), String(parseInstant(at(50)))],
    );
    expect(await known()).toBe(utc(40));
    await keepFacts(pool);
    expect(await known()).toBe(utc(100));
  });
});

describe("daily", () => {
  const daily = async (zone = "UTC") => {
    const results: unknown = await pool.query(`set local timezone = '${zone}';
      select d.*, d.day::text as day from reporting.daily d order by d.day, d.branch_id`);
    return (results as { rows: Record<string, unknown>[] }[])[1]!.rows;
  };
  const plan = (pickupTime: string) => ({ pickupTime, deliveryTime: pickupTime });

  it("counts the orders of each day in the zone of the session, by branch and fleet", async () => {
    await read(
      "insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', 'b1', 'C', 'Centre', '{}')",
    );
    const branch = { branch: { id: "b1" } };
    const late = plan("2026-03-01T23:30:00+01:00");
    for (const [reference, status, more] of [
      ["A", "created", late],
      ["B", "cancelled", { ...late, ...branch }],
      ["C", "delivered", { ...late, ...branch, realDeliveryTime: "2026-03-01T23:31:40+01:00" }],
      ["D", "delivered", { ...late, ...branch, realDeliveryTime: "2026-03-01T23:29:00+01:00" }],
      ["E", "created", plan("2026-03-02T00:10:00+01:00")],
      ["F", "created", { pickupTime: null }],
    ] as const) {
      await seeByEvent({
        reference,
        updatedAt: "2026-03-01T22:00:00Z",
        more: { ...more, realDeliveryTime: null },
      });
      if (status !== "created")
        await seeByPoll({ reference, updatedAt: "2026-03-01T22:40:00Z", status, more }, 99_999);
    }
    await keepFacts(pool);
    const [other, centre, next] = await daily("Europe/Amsterdam");
    expect([other, centre, next]).toMatchObject([
      { day: "2026-03-01", branch_id: "b1" },
      { day: "2026-03-01", branch_id: null, orders: "1", open_orders: "1", delivered_orders: "0" },
      { day: "2026-03-02", orders: "1" },
    ]);
    expect(other).toMatchObject({
      source_id: "live",
      branch_name: "Centre",
      branch_reference: "C",
      fleet_name: "Northside Couriers",
      orders: "3",
      open_orders: "0",
      cancelled_orders: "1",
      delivered_orders: "2",
      late_deliveries: "1",
      late_seconds: 100,
      timed_deliveries: "2",
      delivery_seconds: 1_800 + 100 + 1_740,
      statuses_by_event: "0",
      statuses_by_read: "3",
      corrections: "0",
    });
    expect((await daily()).map(({ day, orders }) => [day, orders])).toEqual([
      ["2026-03-01", "3"],
      ["2026-03-01", "2"],
    ]);
  });

  it("are final once the proof has passed the end of the day, until a breach withdraws it", async () => {
    const final = async (zone: string) => (await daily(zone)).map(({ is_final }) => is_final);
    const prove = async (through: string) => {
      await read(
        `insert into mirror.poll_state (source_id, history_since, safe_through) values ('live', $1, $2)
         on conflict (source_id) do update set safe_through = excluded.safe_through`,
        [parseInstant("2026-02-28T23:00:00Z"), parseInstant(through)].map(String),
      );
      await keepFacts(pool);
    };
    for (const hour of ["2026-02-28T12", "2026-03-01T12", "2026-03-02T12"])
      await seeByEvent({ reference: hour, updatedAt: at(0), more: plan(`${hour}:00:00Z`) });
    await prove("2026-03-01T22:59:59.999999999Z");
    expect(await final("Europe/Amsterdam")).toEqual([false, false, false]);
    await prove("2026-03-01T23:00:00Z");
    expect(await final("Europe/Amsterdam")).toEqual([false, true, false]);
    expect(await final("Etc/UTC")).toEqual([false, false, false]);
    await prove("2026-03-03T00:00:00Z");
    expect(await final("Europe/Amsterdam")).toEqual([false, true, true]);

    const [taken] = await read(
      "select mirror.withdraw_proof('live', $1, 'missed_change', 'X', 'poll', '') as taken",
      [String(parseInstant("2026-03-02T10:00:00Z"))],
    );
    expect(taken).toEqual({ taken: true });
    expect(await final("Europe/Amsterdam")).toEqual([false, true, false]);
    await prove("2026-03-03T00:00:00Z");
    expect(await final("Europe/Amsterdam")).toEqual([false, true, true]);
  });
});

it("is kept up to date by the leading poller", async () => {
  const provider = makeMemoryProvider();
  provider.put("A", secondsAgo(1_800), { status: "picked_up" });
  const poller = makeLivePoller({ client: provider, pool, intervalSeconds: 0.05, backfillSince: "PT1H" });
  onTestFinished(() => poller.close());
  poller.start();
  const wait = (condition: string) =>
    vi.waitUntil(
      async () =>
        (
          await read(`select from reporting.order_facts join reporting.sync_status using (source_id)
        where ${condition}`)
        ).length > 0,
      { timeout: 60_000, interval: 20 },
    );
  await wait("status = 'picked_up' and facts_through > now() - interval '1 minute'");
  provider.put("A", secondsAgo(2), { status: "cancelled" });
  await wait("status = 'cancelled'");
  expect(await facts()).toMatchObject([{ statuses_by_read: 2 }]);
});

it("is the same row by row as when computed at the end, whatever comes between", async () => {
  const statuses = ["created", "arrived_for_pickup", "picked_up", "delivered", "cancelled"];
  const step = fc.record({
    what: fc.constantFrom("event", "event", "poll", "poll", "miss", "facts"),
    reference: fc.constantFrom("A", "B"),
    version: fc.integer({ min: 0, max: 12 }),
    status: fc.constantFrom(...statuses),
    later: fc.integer({ min: 0, max: 20 }),
    limit: fc.integer({ min: 1, max: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      await empty();
      for (const { what, reference, version, status, later, limit } of steps) {
        const order = { reference, updatedAt: at(version * 100), status };
        const atSecond = (version + later) * 100 + 1;
        if (what === "event") await seeByEvent(order);
        if (what === "poll") await seeByPoll(order, atSecond);
        if (what === "miss") await miss(reference, atSecond);
        if (what === "facts") await keepFacts(pool, { limit });
      }
      await keepFacts(pool, { limit: 2 });
      const kept = await read("select * from mirror.order_facts order by reference");
      await rebuildFacts(pool);
      expect(kept).toEqual(await read("select * from mirror.order_facts order by reference"));
    }),
    { numRuns: 40 },
  );
});
