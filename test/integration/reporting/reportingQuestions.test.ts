import { afterAll, expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource, type OrderSketch } from "../../support/mirror/orders.ts";
import { prove } from "../../support/mirror/tables.ts";
import { makeReader, readAs, readQuestions } from "../../support/mirror/reporting.ts";

/** A Wednesday, two in the afternoon in Amsterdam. */
const NOW = "2026-06-17T12:00:00Z";
const QUESTIONS = readQuestions(NOW);

const { pool, tell, show } = await openLiveMirror();

const minutesAfter = (instant: string, minutes: number) =>
  formatInstant(parseInstant(instant) + BigInt(minutes) * 60_000_000_000n);

/** Minutes after the planned pickup; a real pickup and delivery happen with their statuses. */
type Statuses = Readonly<Record<string, number>>;
type Branch = "Centre" | "Harbour";
/**
 * Reference; planned pickup in summer time, half an hour before the delivery; branch; statuses; and one that a read
 * brings first.
 */
type Plan = readonly [string, string, Branch, Statuses, string?];

const DONE = { created: -20, arrived_for_pickup: -4, picked_up: 0, arrived_for_delivery: 25 };
/** Branch Centre with the fleet North, branch Harbour with the fleet South. */
const PLANS: readonly Plan[] = [
  ["M1", "2026-05-12T12:00", "Centre", { ...DONE, delivered: 40 }],
  ["M2", "2026-05-12T13:00", "Centre", { created: -20, arrived_for_pickup: -2, cancelled: 8 }],
  ["M3", "2026-05-31T23:30", "Harbour", { ...DONE, delivered: 35 }],
  ["L1", "2026-06-09T10:00", "Centre", { created: -20, cancelled: -10 }],
  ["Y1", "2026-06-16T18:00", "Centre", { ...DONE, delivered: 50 }],
  ["Y2", "2026-06-16T19:00", "Harbour", { ...DONE, delivered: 33 }, "picked_up"],
  ["T1", "2026-06-17T09:00", "Centre", { ...DONE, delivered: 29 }],
  ["T2", "2026-06-17T12:00", "Harbour", { created: -20, arrived_for_pickup: -10, picked_up: 0 }],
  ["T3", "2026-06-17T13:00", "Centre", { created: -20 }],
];

function sketch([reference, pickup, at, statuses]: Plan, status: string): OrderSketch {
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

const seeByPoll = (order: OrderSketch, minutes: number) =>
  show(parseInstant(minutesAfter(order.updatedAt, minutes)), [order]);

await addSource(pool, "test", "test");
await pool.query(
  `insert into mirror.branches (source_id, branch_id, name, raw)
     values ('live', 'Centre', 'Centre', '{}'), ('live', 'Harbour', 'Harbour', '{}')`,
);
for (const plan of PLANS) {
  const [, , , statuses, byRead] = plan;
  for (const status of Object.keys(statuses)) {
    const order = sketch(plan, status);
    await (status === byRead ? seeByPoll(order, 1) : tell(order));
  }
}
// A read showed it first, and a false event said that it was cancelled.
const corrected = sketch(["C1", "2026-06-15T10:00", "Centre", { created: -20 }], "created");
await seeByPoll(corrected, 10);
await tell({ ...corrected, status: "cancelled", updatedAt: minutesAfter(corrected.updatedAt, 20) });
await seeByPoll(corrected, 60);
await prove(pool, "2026-06-16T23:00:00Z", { history_since: parseInstant("2026-01-01T00:00:00Z") });
// As if it had all been learned when it happened, by a mirror that is older.
await pool.query(`update mirror.sources set created_at = '2026-01-01';
  update mirror.history set seen_at = mirror.instant_at(version) + interval '1 second';
  update mirror.inbox i set received_at = h.seen_at from mirror.history h where h.inbox_seq = i.seq`);
const reader = await makeReader(pool, "live");
afterAll(() => reader.drop());

/** The answer as a reader gets it, as a table. */
async function ask(sql: string): Promise<string> {
  const as = { role: reader.role, settings: "set local timezone = 'Europe/Amsterdam'" };
  const [row] = await readAs(pool, as, `select coalesce(json_agg(a), '[]') as answer from (${sql}) a`);
  const answer = row?.["answer"] as object[];
  const lines = [Object.keys(answer[0] ?? {}), ...answer.map(Object.values)];
  return lines.map((cells) => cells.join(" | ")).join("\n   ");
}

/** The answers, in the order of the questions: the names of the columns, then a line for each row. */
const ANSWERS: readonly string[] = [
  `day | branch_name | orders | is_final
   2026-05-31 | Harbour | 1 | true
   2026-06-09 | Centre | 1 | true
   2026-06-15 | Centre | 1 | true
   2026-06-16 | Centre | 1 | true
   2026-06-16 | Harbour | 1 | true`,
  `branch_name | orders | cancelled_percent
   Centre | 2 | 50
   Harbour | 1 | 0`,
  `reference | branch_name | fleet_name | delivery_time | late_minutes
   Y1 | Centre | North | 2026-06-16T18:30:00+02:00 | 20
   Y2 | Harbour | South | 2026-06-16T19:30:00+02:00 | 3`,
  // 60 and 55 minutes; 70, 53 and 49, of which the last one was in time.
  `month | deliveries | average_minutes | late_percent
   2026-05-01 | 2 | 58 | 100
   2026-06-01 | 3 | 57 | 66.7`,
  // Of M3, L1, Y1, Y2, T1 and T2: 16, 10, 16, 16, 16 and 10 minutes.
  // Not the one that was cancelled while created.
  // 10, 25, 8 and 4 minutes.
  `status | orders | median_seconds | p90_seconds
   created | 5 | 960 | 960
   arrived_for_pickup | 5 | 240 | 456
   picked_up | 4 | 1500 | 1500
   arrived_for_delivery | 4 | 540 | 1230`,
  // M3 was picked up half an hour before midnight.
  `status_then | orders
   arrived_for_delivery | 1
   cancelled | 1
   delivered | 1`,
  // M1 four, M2 two, M3 three; L1, and M3's delivery after midnight, one; Y1, Y2 and T1 four each, T2 two.
  `month | changes | by_webhook_percent
   2026-05-01 | 9 | 100
   2026-06-01 | 16 | 93.75`,
  `fleet_name | deliveries | late_percent | minutes_late_on_average
   South | 2 | 100 | 4
   North | 2 | 50 | 20`,
  `bucket | lateness | deliveries
   0 | on time | 1
   1 | up to 5 minutes | 2
   3 | more | 1`,
  `weekday | hour | orders
   1 | 10 | 1
   2 | 10 | 1
   2 | 18 | 1
   2 | 19 | 1
   3 | 9 | 1
   3 | 12 | 1
   3 | 13 | 1
   7 | 23 | 1`,
  // Harbour: M3, Y2 and T2 with 4, 4 and 10 minutes; Centre: Y1 and T1 with 4.
  `branch_name | pickups | average_seconds
   Harbour | 3 | 360
   Centre | 2 | 240`,
  `status_before | orders
   arrived_for_pickup | 1`,
  `month | fleet_name | orders
   2026-05-01 | North | 2
   2026-05-01 | South | 1
   2026-06-01 | North | 5
   2026-06-01 | South | 2`,
  `is_this_week | orders | cancelled | late
   true | 6 | 0 | 2
   false | 1 | 1 | 0`,
  `reference | status | branch_name | fleet_name | delivery_time | late_minutes
   T2 | picked_up | Harbour | South | 2026-06-17T12:30:00+02:00 | 90
   T3 | created | Centre | North | 2026-06-17T13:30:00+02:00 | 30`,
  `reference | status | branch_name | fleet_name | pickup_time
   T3 | created | Centre | North | 2026-06-17T13:00:00+02:00`,
  `branch_name | deliveries | median_minutes
   Centre | 1 | 40
   Harbour | 1 | 35`,
  `reference | status | corrections | updated_at
   C1 | created | 1 | 2026-06-15T09:40:00+02:00`,
  `day | orders | first_seen_by_a_read
   2026-05-31 | 1 | 0
   2026-06-09 | 1 | 0
   2026-06-15 | 1 | 1
   2026-06-16 | 2 | 0
   2026-06-17 | 3 | 0`,
  `source_id | safe_through | exceptions | gaps
   live | 2026-06-17T01:00:00+02:00 | 0 | 0`,
];

it("the questions of a merchant are twenty", () => {
  expect([QUESTIONS.length, ANSWERS.length]).toEqual([20, 20]);
});

it.each(QUESTIONS.map(({ question, sql }, index) => ({ question, sql, answer: ANSWERS[index] })))(
  "the question of a merchant is answered: $question",
  async ({ sql, answer }) => {
    expect(await ask(sql)).toBe(answer);
  },
);
