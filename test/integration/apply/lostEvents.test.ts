import { beforeEach, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { advanceLostEvents } from "../../../src/poll/ledger/lostEvents.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { at, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/emptying.ts";

/** Earlier changes than the source's configuration are not announced to it. */
const BASE = "2026-03-01T00:00:00Z";
const when = (seconds: number) => at(seconds, BASE);

const { database, pool, apply } = await openLiveMirror({ statementTimeoutMs: 10_000 });
await pool.query("update mirror.sources set created_at = $1", [BASE]);
beforeEach(async () => {
  await pool.query(
    emptying(
      "orders history changes pending inbox announced_statuses unannounced_changes lost_event_cursor event_delays",
      { restartsIdentity: true },
    ),
  );
});

const sendEvent = async (id: string, order: { reference: string; updatedAt: string; status: string }) =>
  apply.applyEvents(await putIntoInbox(pool, [{ eventId: id, body: makeEventBody({ id, order }) }]));
const poll = (order: { reference: string; updatedAt: string; status?: string }) =>
  apply.applyReads({
    sourceId: "live",
    via: "poll",
    snapshots: [makeSnapshot(order)],
    time: readAt(parseInstant(when(9_999)), 5),
  });
const advance = (graceSeconds: number) => advanceLostEvents(pool, { sourceId: "live", graceSeconds });
const states = async () =>
  (await pool.query("select reference, status, state from mirror.unannounced_changes order by reference"))
    .rows as {
    reference: string;
    status: string;
    state: string;
  }[];

it("counts a change that only a poll showed as a lost event after the grace period, if such changes are announced", async () => {
  await sendEvent("e1", { reference: "A", updatedAt: when(1), status: "picked_up" });
  await poll({ reference: "B", updatedAt: when(1) });
  await poll({ reference: "B", updatedAt: when(2), status: "picked_up" });
  expect(await advance(60)).toMatchObject({ found: 1, lost: 0, waits: true });
  expect(await states()).toEqual([{ reference: "B", status: "picked_up", state: "waiting" }]);
  expect(await advance(0)).toMatchObject({ found: 0, lost: 1 });
  expect(await states()).toEqual([{ reference: "B", status: "picked_up", state: "lost" }]);
  expect(await advance(0)).toEqual({ read: 0, found: 0, late: 0, lost: 0, waits: false });
});

it("does not count a change as lost when no event has ever announced that status", async () => {
  await poll({ reference: "B", updatedAt: when(1) });
  await poll({ reference: "B", updatedAt: when(2), status: "arrived_for_pickup" });
  expect(await advance(0)).toMatchObject({ found: 1, lost: 0 });
  expect(await states()).toMatchObject([{ state: "not_announced" }]);
});

it("reports an event that arrives after the read as late, even if it was counted as lost", async () => {
  await sendEvent("e0", { reference: "A", updatedAt: when(1), status: "picked_up" });
  for (const reference of ["B", "C"]) {
    await poll({ reference, updatedAt: when(1) });
    await poll({ reference, updatedAt: when(2), status: "picked_up" });
  }
  await advance(60);
  await sendEvent("eB", { reference: "B", updatedAt: when(2), status: "picked_up" });
  expect(await advance(0)).toMatchObject({ late: 1, lost: 1 });
  await sendEvent("eC", { reference: "C", updatedAt: when(2), status: "picked_up" });
  expect(await advance(0)).toMatchObject({ late: 1, lost: 0 });
  expect((await states()).map((row) => row.state)).toEqual(["late", "late"]);
});

it("expects no event for a creation, a change before the source was configured, or a change of other fields", async () => {
  await sendEvent("e0", { reference: "A", updatedAt: when(1), status: "picked_up" });
  await poll({ reference: "new", updatedAt: when(1), status: "created" });
  await poll({ reference: "old", updatedAt: "2001-01-01T00:00:00Z", status: "picked_up" });
  await poll({ reference: "new", updatedAt: when(2), status: "created" });
  expect(await advance(0)).toMatchObject({ found: 0, lost: 0 });
});

it("counts an order that was first seen after its creation status", async () => {
  await sendEvent("e0", { reference: "A", updatedAt: when(1), status: "picked_up" });
  await poll({ reference: "B", updatedAt: when(2), status: "picked_up" });
  expect(await advance(0)).toMatchObject({ found: 1, lost: 1 });
});

it("reads each change once and waits for open writers", async () => {
  const blocker = await database.pool.connect();
  await blocker.query("begin");
  // A writer that has taken its place in the feed and is still open.
  await blocker.query(
    "insert into mirror.changes (source_id, reference, revision, history_id, status, via, version, verdict) select 'live', 'X', 1, 1, 'created', 'poll', 1, 'applied' where false",
  );
  await sendEvent("e0", { reference: "A", updatedAt: when(1), status: "picked_up" });
  expect(await advance(0)).toMatchObject({ read: 0 });
  await blocker.query("commit");
  blocker.release();
  expect(await advance(0)).toMatchObject({ read: 1 });
  expect(await advance(0)).toMatchObject({ read: 0 });
});
