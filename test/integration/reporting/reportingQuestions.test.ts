import { afterAll, describe, expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { keepFacts } from "../../support/mirror/facts.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { makeReader } from "../../support/mirror/reader.ts";
import { readQuestions } from "../../support/mirror/reportingQueries.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

/** A Wednesday, two in the afternoon in Amsterdam. */
const NOW = "2026-06-17T12:00:00Z";
const QUESTIONS = readQuestions(NOW);

const { database } = await openTestDatabase();

const minutesAfter = (instant: string, minutes: number) =>
  formatInstant(parseInstant(instant) + BigInt(minutes) * 60_000_000_000n);

interface Plan {
  readonly reference: string;
  /** Planned pickup in summer time; the delivery is planned half an hour later. */
  readonly pickup: string;
  readonly at: "Centre" | "Harbour";
  /** Minutes of its statuses after the planned pickup; a real pickup and delivery happen with them. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Statuses that a read brings first. */
  readonly byRead?: readonly string[];
}

const DONE = { created: -20, arrived_for_pickup: -4, picked_up: 0, arrived_for_delivery: 25 };
/** Branch Centre with the fleet North, branch Harbour with the fleet South. */
const PLANS: readonly Plan[] = [
  { reference: "M1", pickup: "2026-05-12T12:00", at: "Centre", statuses: { ...DONE, delivered: 40 } },
  {
    reference: "M2",
    pickup: "2026-05-12T13:00",
    at: "Centre",
    statuses: { created: -20, arrived_for_pickup: -2, cancelled: 8 },
  },
  { reference: "M3", pickup: "2026-05-31T23:30", at: "Harbour", statuses: { ...DONE, delivered: 35 } },
  { reference: "L1", pickup: "2026-06-09T10:00", at: "Centre", statuses: { created: -20, cancelled: -10 } },
  { reference: "Y1", pickup: "2026-06-16T18:00", at: "Centre", statuses: { ...DONE, delivered: 50 } },
  {
    reference: "Y2",
    pickup: "2026-06-16T19:00",
    at: "Harbour",
    statuses: { ...DONE, delivered: 33 },
    byRead: ["picked_up"],
  },
  { reference: "T1", pickup: "2026-06-17T09:00", at: "Centre", statuses: { ...DONE, delivered: 29 } },
  {
    reference: "T2",
    pickup: "2026-06-17T12:00",
    at: "Harbour",
    statuses: { created: -20, arrived_for_pickup: -10, picked_up: 0 },
  },
  { reference: "T3", pickup: "2026-06-17T13:00", at: "Centre", statuses: { created: -20 } },
];

function sketch({ reference, pickup, at, statuses }: Plan, status: string): OrderSketch {
  const planned = formatInstant(parseInstant(`${pickup}:00+02:00`));
  const real = (name: string) => {
    const after = statuses[name];
    const reached = after !== undefined && after <= (statuses[status] ?? 0);
    return reached ? minutesAfter(planned, after) : null;
  };
  return {
    reference,
    status,
    updatedAt: minutesAfter(planned, statuses[status] ?? 0),
    more: {
      pickupTime: planned,
      deliveryTime: minutesAfter(planned, 30),
      realPickupTime: real("picked_up"),
      realDeliveryTime: real("delivered"),
      branch: { id: at },
      fleet: { name: at === "Centre" ? "North" : "South" },
    },
  };
}

async function seeByEvent(order: OrderSketch): Promise<void> {
  const eventId = `evt_${order.reference}_${order.status}`;
  const body = makeEventBody({ id: eventId, order });
  await apply.applyEvents(await putIntoInbox(database.pool, [{ eventId, body }]));
}
const seeByPoll = (order: OrderSketch, requestedAt: string) =>
  apply.applyReads({
    sourceId: "live",
    via: "poll",
    snapshots: [makeSnapshot(order)],
    time: readAt(parseInstant(requestedAt)),
  });

/** An order that a read showed first, and of which a false event said that it was cancelled. */
async function correctOne(): Promise<void> {
  const plan: Plan = {
    reference: "C1",
    pickup: "2026-06-15T10:00",
    at: "Centre",
    statuses: { created: -20 },
  };
  const order = sketch(plan, "created");
  await seeByPoll(order, minutesAfter(order.updatedAt, 10));
  await seeByEvent({ ...order, status: "cancelled", updatedAt: minutesAfter(order.updatedAt, 20) });
  await seeByPoll(order, minutesAfter(order.updatedAt, 60));
}

await addSource(database.pool, "live");
await addSource(database.pool, "test", "test");
const apply = makeLiveApply(database.pool);
await database.pool.query(
  `insert into mirror.branches (source_id, branch_id, name, raw)
     values ('live', 'Centre', 'Centre', '{}'), ('live', 'Harbour', 'Harbour', '{}')`,
);
for (const plan of PLANS) {
  for (const status of Object.keys(plan.statuses)) {
    const order = sketch(plan, status);
    if (plan.byRead?.includes(status) === true) await seeByPoll(order, minutesAfter(order.updatedAt, 1));
    else await seeByEvent(order);
  }
}
await correctOne();
await database.pool.query(
  `insert into mirror.poll_state (source_id, history_since, safe_through)
     values ('live', $1, $2)`,
  ["2026-01-01T00:00:00Z", "2026-06-16T23:00:00Z"].map((text) => String(parseInstant(text))),
);
await keepFacts(database.pool);
const reader = await makeReader(database.pool, "live");
afterAll(() => reader.drop());

async function ask(sql: string): Promise<unknown> {
  const client = await database.pool.connect();
  try {
    await client.query(`begin; set local role ${reader.role}; set local timezone = 'Europe/Amsterdam'`);
    const { rows } = await client.query<{ answer: unknown }>(
      `select coalesce(json_agg(a), '[]') as answer from (${sql}) a`,
    );
    return rows[0]?.answer;
  } finally {
    await client.query("rollback");
    client.release();
  }
}

/** The answers, in the order of the questions. */
const ANSWERS: readonly (readonly object[])[] = [
  [
    { day: "2026-05-31", branch_name: "Harbour", orders: 1, is_final: true },
    { day: "2026-06-09", branch_name: "Centre", orders: 1, is_final: true },
    { day: "2026-06-15", branch_name: "Centre", orders: 1, is_final: true },
    { day: "2026-06-16", branch_name: "Centre", orders: 1, is_final: true },
    { day: "2026-06-16", branch_name: "Harbour", orders: 1, is_final: true },
  ],
  [
    { branch_name: "Centre", orders: 2, cancelled_percent: 50 },
    { branch_name: "Harbour", orders: 1, cancelled_percent: 0 },
  ],
  [
    {
      reference: "Y1",
      branch_name: "Centre",
      fleet_name: "North",
      delivery_time: "2026-06-16T18:30:00+02:00",
      late_minutes: 20,
    },
    {
      reference: "Y2",
      branch_name: "Harbour",
      fleet_name: "South",
      delivery_time: "2026-06-16T19:30:00+02:00",
      late_minutes: 3,
    },
  ],
  [
    // 60 and 55 minutes; 70, 53 and 49, of which the last one was in time.
    { month: "2026-05-01", deliveries: 2, average_minutes: 58, late_percent: 100 },
    { month: "2026-06-01", deliveries: 3, average_minutes: 57, late_percent: 66.7 },
  ],
  [
    // Of M3, L1, Y1, Y2, T1 and T2: 16, 10, 16, 16, 16 and 10 minutes.
    // Not the one that was cancelled while created.
    { status: "created", orders: 5, median_seconds: 960, p90_seconds: 960 },
    { status: "arrived_for_pickup", orders: 5, median_seconds: 240, p90_seconds: 456 },
    { status: "picked_up", orders: 4, median_seconds: 1_500, p90_seconds: 1_500 },
    // 10, 25, 8 and 4 minutes.
    { status: "arrived_for_delivery", orders: 4, median_seconds: 540, p90_seconds: 1_230 },
  ],
  [
    // M3 was picked up half an hour before midnight.
    { status_then: "after the documented statuses", orders: 1 },
    { status_then: "arrived_for_delivery", orders: 1 },
    { status_then: "cancelled", orders: 1 },
  ],
  [
    // M1 and M3 four each, M2 two; L1 one, Y1, Y2 and T1 four each, T2 two.
    { month: "2026-05-01", statuses: 10, by_event_percent: 100 },
    { month: "2026-06-01", statuses: 15, by_event_percent: 93.33 },
  ],
  [
    { fleet_name: "South", deliveries: 2, late_percent: 100, minutes_late_on_average: 4 },
    { fleet_name: "North", deliveries: 2, late_percent: 50, minutes_late_on_average: 20 },
  ],
  [
    { bucket: 0, lateness: "on time", deliveries: 1 },
    { bucket: 1, lateness: "up to 5 minutes", deliveries: 2 },
    { bucket: 3, lateness: "more", deliveries: 1 },
  ],
  [
    { weekday: 1, hour: 10, orders: 1 },
    { weekday: 2, hour: 10, orders: 1 },
    { weekday: 2, hour: 18, orders: 1 },
    { weekday: 2, hour: 19, orders: 1 },
    { weekday: 3, hour: 9, orders: 1 },
    { weekday: 3, hour: 12, orders: 1 },
    { weekday: 3, hour: 13, orders: 1 },
    { weekday: 7, hour: 23, orders: 1 },
  ],
  [
    // Harbour: M3, Y2 and T2 with 4, 4 and 10 minutes; Centre: Y1 and T1 with 4.
    { branch_name: "Harbour", pickups: 3, average_seconds: 360 },
    { branch_name: "Centre", pickups: 2, average_seconds: 240 },
  ],
  [{ status_before: "arrived_for_pickup", orders: 1 }],
  [
    { month: "2026-05-01", fleet_name: "North", orders: 2 },
    { month: "2026-05-01", fleet_name: "South", orders: 1 },
    { month: "2026-06-01", fleet_name: "North", orders: 5 },
    { month: "2026-06-01", fleet_name: "South", orders: 2 },
  ],
  [
    { is_this_week: true, orders: 6, cancelled: 0, late: 2 },
    { is_this_week: false, orders: 1, cancelled: 1, late: 0 },
  ],
  [
    {
      reference: "T2",
      status: "picked_up",
      branch_name: "Harbour",
      fleet_name: "South",
      delivery_time: "2026-06-17T12:30:00+02:00",
      late_minutes: 90,
    },
    {
      reference: "T3",
      status: "created",
      branch_name: "Centre",
      fleet_name: "North",
      delivery_time: "2026-06-17T13:30:00+02:00",
      late_minutes: 30,
    },
  ],
  [
    {
      reference: "T3",
      status: "created",
      branch_name: "Centre",
      fleet_name: "North",
      pickup_time: "2026-06-17T13:00:00+02:00",
    },
  ],
  [
    { branch_name: "Centre", deliveries: 1, median_minutes: 40 },
    { branch_name: "Harbour", deliveries: 1, median_minutes: 35 },
  ],
  [{ reference: "C1", status: "created", corrections: 1, updated_at: "2026-06-15T09:40:00+02:00" }],
  [
    { day: "2026-05-31", orders: 1, first_seen_by_a_read: 0 },
    { day: "2026-06-09", orders: 1, first_seen_by_a_read: 0 },
    { day: "2026-06-15", orders: 1, first_seen_by_a_read: 1 },
    { day: "2026-06-16", orders: 2, first_seen_by_a_read: 0 },
    { day: "2026-06-17", orders: 3, first_seen_by_a_read: 0 },
  ],
  [
    {
      source_id: "live",
      safe_through: "2026-06-17T01:00:00+02:00",
      facts_through: "2026-06-17T01:00:00+02:00",
      exceptions: 0,
      gaps: 0,
    },
  ],
];

describe("the questions of a merchant", () => {
  it("are twenty", () => {
    expect(QUESTIONS).toHaveLength(20);
    expect(ANSWERS).toHaveLength(20);
  });

  it.each(QUESTIONS.map(({ question, sql }, index) => ({ question, sql, answer: ANSWERS[index] })))(
    "$question",
    async ({ sql, answer }) => {
      expect(await ask(sql)).toEqual(answer);
    },
  );
});
