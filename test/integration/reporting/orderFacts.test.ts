import { beforeEach, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { missAgain } from "../../support/mirror/liveApply.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, type OrderSketch } from "../../support/mirror/orders.ts";
import { EMPTY_MIRROR, prove as proveSource } from "../../support/mirror/tables.ts";

const { pool, read, tell: seeByEvent, show } = await openLiveMirror();
beforeEach(() => pool.query(EMPTY_MIRROR));

const facts = () => read("select * from reporting.order_facts order by reference");

/** `atSecond` is when the list was requested; it shows with certainty what is older by the margin. */
const seeByPoll = (order: OrderSketch, atSecond: number, marginSeconds = 5) =>
  show(parseInstant(at(atSecond)), [order], { marginSeconds });
const miss = (reference: string, atSecond: number) =>
  missAgain(pool, {
    sourceId: "live",
    reference,
    horizon: parseInstant(at(atSecond - 900)),
    requestedAt: parseInstant(at(atSecond)),
  });
const utc = (seconds: number) => `${at(seconds).replace("T", " ").replace("Z", "")}+00`;

/** An order from its creation to the delivery; the planned delivery is at second 3,000. */
async function deliver(reference = "A"): Promise<void> {
  await seeByEvent({ reference, updatedAt: at(0) });
  await seeByPoll({ reference, updatedAt: at(100), status: "arrived_for_pickup" }, 130);
  const more = { realPickupTime: at(150) };
  await seeByEvent({ reference, updatedAt: at(160), status: "picked_up", more });
  const delivered = { ...more, realDeliveryTime: at(3_400) };
  await seeByEvent({ reference, updatedAt: at(3_500), status: "delivered", more: delivered });
}

describe("order_facts", () => {
  it("has the times, durations, delays and origins of an order's statuses, and keeps nothing of a person", async () => {
    await read(
      "insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', 'b1', 'C', 'Centre', '{}')",
    );
    await deliver();
    await seeByPoll(
      { reference: "B", updatedAt: at(7), status: "cancelled", more: { branch: { reference: "C" } } },
      9,
    );
    expect(await facts()).toMatchObject([
      {
        arrived_for_pickup_at: utc(100),
        arrived_for_delivery_at: null,
        other_status_at: utc(3_500),
        // Its end is not known: arrived_for_delivery was not seen.
        picked_up_seconds: null,
        created_to_pickup_seconds: 150,
        created_to_delivery_seconds: 3_400,
        transit_seconds: 3_250,
        pickup_delay_seconds: -1_050,
        delivery_delay_seconds: 400,
        is_late: true,
        first_seen_via: "webhook",
        first_seen_by_event: true,
      },
      { branch_id: "b1", branch_name: "Centre", created_at: null, is_late: null, first_seen_by_event: false },
    ]);
    const before = await facts();
    for (const reference of ["A", "B"]) await eraseOrder(pool, { sourceId: "live", reference });
    expect(await facts()).toEqual(before.map((row) => ({ ...row, external_order_id: null })));
  });

  it("includes a state that arrives after a younger one", async () => {
    await seeByEvent({ reference: "A", updatedAt: at(100), status: "picked_up" });
    await seeByEvent({ reference: "A", updatedAt: at(0) });
    expect(await facts()).toMatchObject([{ created_at: utc(0), picked_up_at: utc(100) }]);
  });

  it("leaves out what a read contradicted, and counts the correction", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 900, 900);
    await seeByEvent({ reference: "A", updatedAt: at(60), status: "picked_up" });
    expect(await facts()).toMatchObject([{ status: "picked_up", picked_up_at: utc(60), corrections: 0 }]);
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 1_800, 900);
    expect(await facts()).toMatchObject([{ status: "created", picked_up_at: null, corrections: 1 }]);
    await seeByPoll({ reference: "A", updatedAt: at(2_000), status: "cancelled" }, 3_000, 900);
    expect(await read("select status from reporting.orders_as_of($1)", [at(100)])).toEqual([
      { status: "created" },
    ]);
    expect(
      await read(
        "select previous_status as was from reporting.webhook_reliability where status = 'cancelled'",
      ),
    ).toEqual([{ was: "created" }]);
  });

  it("leaves out an order while the provider does not have it", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(0) }, 100);
    await miss("A", 2_000);
    expect(await facts()).toEqual([]);
    await seeByPoll({ reference: "A", updatedAt: at(3_000), status: "cancelled" }, 3_001);
    expect(await facts()).toMatchObject([
      { status: "cancelled", created_at: utc(0), cancelled_at: utc(3_000) },
    ]);
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
    const late = { ...plan("2026-03-01T23:30:00+01:00"), branch: { id: "b1" } };
    for (const [reference, status, more] of [
      ["A", "created", plan("2026-03-01T23:30:00+01:00")],
      ["B", "cancelled", late],
      ["C", "delivered", { ...late, realDeliveryTime: "2026-03-01T23:31:40+01:00" }],
      ["D", "delivered", { ...late, realDeliveryTime: "2026-03-01T23:29:00+01:00" }],
      ["E", "created", plan("2026-03-02T00:10:00+01:00")],
      ["F", "created", { pickupTime: null }],
      // Two that stand for none in some programs: the ends of 64 bits of nanoseconds.
      ["G", "created", plan("2262-04-11T23:47:16.854775807Z")],
      ["H", "created", plan("1677-09-21T00:12:43.145224193Z")],
    ] as const) {
      const begun = { ...more, realDeliveryTime: null };
      await seeByEvent({ reference, updatedAt: "2026-03-01T22:00:00Z", more: begun });
      if (status !== "created")
        await seeByPoll({ reference, updatedAt: "2026-03-01T22:40:00Z", status, more }, 99_999);
    }
    const counts = { orders: "3", open_orders: "0", cancelled_orders: "1", delivered_orders: "2" };
    const sums = { late_deliveries: "1", late_seconds: 100, timed_deliveries: "2", delivery_seconds: 3_640 };
    expect(await daily("Europe/Amsterdam")).toMatchObject([
      { day: "2026-03-01", branch_id: "b1", branch_reference: "C", ...counts, ...sums },
      { day: "2026-03-01", branch_id: null, orders: "1", open_orders: "1", delivered_orders: "0" },
      { day: "2026-03-02", orders: "1" },
    ]);
    expect((await daily()).map(({ day, orders }) => [day, orders])).toEqual([
      ["2026-03-01", "3"],
      ["2026-03-01", "2"],
    ]);
  });

  it("are final once the proof has passed the end of the day, until a breach withdraws it", async () => {
    const final = async (zone: string) => (await daily(zone)).map(({ is_final }) => is_final);
    const prove = (through: string) =>
      proveSource(pool, through, { history_since: parseInstant("2026-02-28T23:00:00Z") });
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
    expect(await read("select * from reporting.coverage_breaches")).toMatchObject([
      {
        since: "2026-03-02 10:00:00+00",
        updated_at: "2026-03-02 10:00:00+00",
        reproved_at: null,
        safe_through_before: "2026-03-03 00:00:00+00",
        safe_through_after: "2026-03-02 10:00:00+00",
      },
    ]);
    expect(await final("Europe/Amsterdam")).toEqual([false, true, false]);
    await prove("2026-03-03T00:00:00Z");
    expect(await final("Europe/Amsterdam")).toEqual([false, true, true]);
  });
});
