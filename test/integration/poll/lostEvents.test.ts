import { beforeEach, expect, it, onTestFinished } from "vitest";
import { formatInstant, instantFromMillis, parseInstant } from "../../../src/domain/order/instant.ts";
import type { Via } from "../../../src/domain/order/observation.ts";
import { readStandings } from "../../../src/health/conditions/standing.ts";
import { countAnnouncements } from "../../../src/poll/lostEvents.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeEventBody, putIntoInbox, type OrderSketch } from "../../support/mirror/orders.ts";
import { EMPTY_MIRROR, emptying, lost } from "../../support/mirror/tables.ts";

const { pool, apply, read, tell: sendEvent, show } = await openLiveMirror({ statementTimeoutMs: 10_000 });
beforeEach(async () => {
  await pool.query(EMPTY_MIRROR);
  await pool.query(
    "update mirror.sources set created_at = now() - interval '10 days', event_grace = default",
  );
});

const START = Date.now();
/** The provider's time, so many minutes ago. */
const ago = (minutes: number) => formatInstant(instantFromMillis(START - minutes * 60_000));
let events = 0;
const receive = (order: OrderSketch) => {
  const id = `waiting_${(events += 1)}`;
  return putIntoInbox(pool, [{ eventId: id, body: makeEventBody({ id, order }) }]);
};
const see = (via: Exclude<Via, "webhook">) => (order: OrderSketch) =>
  // Soon after the change, so that no read refutes a later event.
  show(parseInstant(order.updatedAt) + 10_000_000_000n, [order], { via, marginSeconds: 5 });
const poll = see("poll");
/** Everything that is in the database happened so much earlier. */
const age = (minutes: number) =>
  pool.query(`
    update mirror.inbox set received_at = received_at - interval '${minutes} minutes';
    update mirror.pending set received_at = received_at - interval '${minutes} minutes';
    update mirror.history set seen_at = seen_at - interval '${minutes} minutes'`);

async function look(graceSeconds?: number) {
  await countAnnouncements(pool, "live", graceSeconds);
  // The statuses that are announced are known from the count before.
  await countAnnouncements(pool, "live");
  const [standing] = await readStandings(pool, "live");
  const { announced, late, lost, lostSinceLastEvent } = standing!;
  return { announced, late, lost, lostSinceLastEvent };
}
const NOTHING = { announced: 0, late: 0, lost: 0, lostSinceLastEvent: 0 };
const created = (reference: string): OrderSketch => ({ reference, updatedAt: ago(30), status: "created" });
const pickedUp = (reference: string): OrderSketch => ({ reference, updatedAt: ago(20), status: "picked_up" });
/** An order whose pick-up an event announces. */
async function announce(reference: string): Promise<void> {
  await poll(created(reference));
  await sendEvent(pickedUp(reference));
}

it("counts nothing as lost or late that waited for our worker", async () => {
  await announce("A");
  for (const reference of ["B", "C"]) await poll(created(reference));
  // The worker stands still: events are received and wait, while polls find their changes.
  const waiting = [...(await receive(pickedUp("B"))), ...(await receive(pickedUp("C")))];
  for (const reference of ["B", "C"]) await poll(pickedUp(reference));
  await age(9);
  expect(await look()).toMatchObject({ announced: 1, late: 0, lost: 0 });
  await apply.applyEvents(waiting);
  expect(await look()).toMatchObject({ late: 0, lost: 0, lostSinceLastEvent: 0 });
});

it("names the waiting of applied events as ours", async () => {
  await poll(created("A"));
  // Received two minutes after the change, applied nine minutes later.
  const waiting = await receive({ ...pickedUp("A"), updatedAt: ago(11) });
  await age(9);
  await apply.applyEvents(waiting);
  expect(await look()).toEqual({ ...NOTHING, announced: 1 });
  expect(await read("select up_to_seconds from mirror.webhook_hours")).toEqual([{ up_to_seconds: 300 }]);
});

it("counts a change that only a poll showed as lost after the grace period, and as late once its event comes", async () => {
  await announce("A");
  await age(20);
  await poll(created("B"));
  await poll(pickedUp("B"));
  expect(await look()).toEqual({ ...NOTHING, announced: 1 });
  await age(6);
  expect(await look()).toEqual({ ...NOTHING, announced: 1, lost: 1, lostSinceLastEvent: 1 });
  // What came after the grace period excuses nothing by its waiting.
  await receive(created("C"));
  expect(await look()).toMatchObject({ lost: 1 });
  await sendEvent(pickedUp("B"));
  expect(await look()).toEqual({ ...NOTHING, announced: 2, late: 1 });
});

it("counts a change as lost as soon as a source's own grace period is over", async () => {
  await announce("A");
  await poll(created("B"));
  await poll(pickedUp("B"));
  await age(2);
  expect(await look()).toMatchObject({ lost: 0 });
  expect(await look(60)).toMatchObject({ lost: 1 });
});

const onHold = (reference: string, minutes: number): OrderSketch => ({
  reference,
  updatedAt: ago(minutes),
  status: "on hold",
});

it.each(["poll", "refetch", "verify"] as const)(
  "counts a change as lost that a %s found, although an event had announced an earlier status of the order",
  async (via) => {
    await announce("A");
    await sendEvent(created("B"));
    await see(via)(pickedUp("B"));
    await age(6);
    expect(await look()).toEqual({ ...NOTHING, announced: 1, lost: 1, lostSinceLastEvent: 1 });
  },
);

it("counts a status that comes again, and the status created, although earlier events announced both", async () => {
  await sendEvent(created("A"));
  await sendEvent(onHold("A", 28));
  await poll({ ...created("A"), updatedAt: ago(26) });
  await poll(onHold("A", 24));
  await age(6);
  expect(await look()).toMatchObject({ announced: 1, late: 0, lost: 2 });
  await sendEvent(onHold("A", 24));
  expect(await look()).toMatchObject({ announced: 2, late: 1, lost: 1 });
});

it("takes the event of a change for its own although reads show fewer digits of updatedAt", async () => {
  await announce("A");
  const fine = `${ago(20).slice(0, 19)}.987654Z`;
  const cut = `${ago(20).slice(0, 19)}Z`;
  await poll(created("B"));
  await poll({ ...pickedUp("B"), updatedAt: cut });
  await sendEvent({ ...pickedUp("B"), updatedAt: fine });
  await age(6);
  expect(await look()).toMatchObject({ late: 1, lost: 0 });
  // Events first: the reads bring nothing.
  await sendEvent({ ...pickedUp("C"), status: "created", updatedAt: ago(30) });
  await sendEvent({ ...pickedUp("C"), updatedAt: fine });
  await poll({ ...pickedUp("C"), updatedAt: cut });
  await age(6);
  expect(await look()).toMatchObject({ announced: 3, late: 1, lost: 0 });
});

type Step = readonly [(order: OrderSketch) => Promise<unknown>, OrderSketch];
const seen: Step = [poll, created("B")];
const moved = pickedUp("B");
const pollAgo = (minutes: number) => (order: OrderSketch) =>
  show(parseInstant(ago(minutes)), [order], { marginSeconds: 5 });
const ahead = { ...moved, updatedAt: ago(-2) };
const quarantine = async (order: OrderSketch) =>
  expect(await sendEvent(order)).toMatchObject([{ verdict: "quarantined" }]);
const makeSourceYounger = () =>
  pool.query("update mirror.sources set created_at = now() - interval '15 minutes'");

it.each<[string, ...Step[]]>([
  ["a creation", seen],
  ["the first state of an order", [poll, moved]],
  ["another field", seen, [poll, { ...created("B"), updatedAt: ago(25) }]],
  ["a change that a backfill brought", seen, [see("backfill"), moved]],
  ["a change of our own", seen, [see("write"), moved]],
  ["a change whose event is in quarantine", seen, [quarantine, ahead], [poll, ahead]],
  [
    "what came back after a list that was late had refuted its event and the next one",
    seen,
    [sendEvent, moved],
    [sendEvent, { ...moved, updatedAt: ago(19), status: "cancelled" }],
    [pollAgo(18), created("B")],
    [pollAgo(17), moved],
  ],
  ["a status that no event announces", seen, [poll, { ...moved, status: "arrived_for_pickup" }]],
  ["what is older than the source", seen, [poll, moved], [makeSourceYounger, moved]],
])("expects no event for %s", async (_, ...steps) => {
  await announce("A");
  await age(6);
  for (const [happen, order] of steps) await happen(order);
  await age(6);
  expect(await look()).toMatchObject({ late: 0, lost: 0, lostSinceLastEvent: 0 });
});

it("counts nothing of a source that is polled only", async () => {
  await announce("A");
  await pool.query("update mirror.sources set receives_events = false");
  onTestFinished(async () => void (await pool.query("update mirror.sources set receives_events = null")));
  await look();
  expect(await read("select from mirror.webhook_hours")).toEqual([]);
});

it("keeps the number of what is older than the history, and of months", async () => {
  await announce("A");
  await poll(created("B"));
  await poll(pickedUp("B"));
  await age(60);
  expect(await look()).toMatchObject({ announced: 1, lost: 1 });
  await pool.query(emptying("history inbox"));
  await pool.query("update mirror.webhook_hours set hour = hour - interval '31 days'");
  await look();
  const { rows } = await pool.query("select hour::text, outcome from mirror.webhook_hours order by outcome");
  expect(rows).toEqual([
    { hour: "-infinity", outcome: "announced" },
    { hour: "-infinity", outcome: "lost" },
  ]);
  expect((await readStandings(pool, "live"))[0]).toMatchObject({ lostEver: 1, lost: 0 });
  // A later month is added.
  await pool.query(lost(2, "31 days", { status: "picked_up" }));
  await look();
  expect((await readStandings(pool, "live"))[0]).toMatchObject({ lostEver: 3, lost: 0 });
});
