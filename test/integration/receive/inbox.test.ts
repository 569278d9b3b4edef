import { hash } from "node:crypto";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import {
  findFirstPending,
  insertEvents,
  takeOverdue,
  type IncomingEvent,
} from "../../../src/receive/inbox.sql.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { refuseEvents } from "../../support/faults/events.ts";
import { emptying } from "../../support/mirror/tables.ts";

const { database } = await openTestDatabase();
await database.pool.query(
  "insert into mirror.sources values ('live', 'live', 'http://x'), ('test', 'test', 'http://x')",
);
beforeEach(() => database.pool.query(emptying("inbox pending", { restartsIdentity: true })));

function makeEvent(eventId: string, text = eventId, sourceId = "live"): IncomingEvent {
  const body = Buffer.from(text);
  return { sourceId, eventId, body, bodyHash: hash("sha256", body, "buffer"), secretIndex: 0, headers: "{}" };
}

async function readRows(): Promise<{ event_id: string; body: string; pending: boolean }[]> {
  const { rows } = await database.pool.query<{ event_id: string; body: Buffer; pending: boolean }>(
    `select event_id, body, pending.seq is not null as pending
     from mirror.inbox left join mirror.pending using (seq) order by event_id, body`,
  );
  return rows.map((row) => ({ ...row, body: row.body.toString() }));
}

describe("insertEvents", () => {
  it("does not make a decided event pending again", async () => {
    await insertEvents(database.pool, [makeEvent("a")]);
    await database.pool.query("delete from mirror.pending");
    expect(await insertEvents(database.pool, [makeEvent("a")])).toEqual([]);
    expect((await readRows()).map((row) => row.pending)).toEqual([false]);
  });

  it("stores all or none", async () => {
    onTestFinished(await refuseEvents(database.pool, "b"));
    const storing = insertEvents(database.pool, [makeEvent("a"), makeEvent("b")]);
    await expect(storing).rejects.toMatchObject({ code: "23514" });
    expect(await readRows()).toEqual([]);
  });

  it("stores both bodies that come under one event id", async () => {
    const stored = await insertEvents(database.pool, [makeEvent("a", "one"), makeEvent("a", "two")]);
    expect(stored).toHaveLength(2);
    expect((await readRows()).map((row) => [row.event_id, row.body, row.pending])).toEqual([
      ["a", "one", true],
      ["a", "two", true],
    ]);
  });

  it("does not deadlock with a process that stores the same events in another sequence", async () => {
    const writers = makePool({ url: database.url, purpose: "writers", max: 6, statementTimeoutMs: 10_000 });
    onTestFinished(() => writers.end());
    for (let round = 0; round < 20; round += 1) {
      const events = Array.from({ length: 60 }, (_, n) => makeEvent(`evt_${round}_${(n * 7_919) % 61}`));
      const orders = [events, [...events.slice(30), ...events.slice(0, 30)]];
      const results = await Promise.all(
        [0, 1, 2].flatMap(() =>
          orders.flatMap((order) => [
            insertEvents(writers, order),
            insertEvents(writers, order.toReversed()),
          ]),
        ),
      );
      expect(results.flat()).toHaveLength(60);
    }
  });
});

it("finds events that are old enough or were received before the clock was set back, oldest first", async () => {
  const names = ["old", "older", "young", "of a clock that was set back"];
  const events = [...names.map((name) => makeEvent(name)), makeEvent("other", "other", "test")];
  const seqs: number[] = [];
  for (const [place, seconds] of [5.001, 60, 4, -3_600, 60].entries()) {
    const [stored] = await insertEvents(database.pool, [events[place]!]);
    seqs.push(stored!.seq);
    await database.pool.query(
      "update mirror.pending set received_at = clock_timestamp() - make_interval(secs => $2) where seq = $1",
      [stored!.seq, seconds],
    );
  }
  const [old, older, , setBack, other] = seqs;
  const find = (more: Partial<Parameters<typeof takeOverdue>[1]> = {}) =>
    takeOverdue(database.pool, { sourceIds: ["live"], olderThanSeconds: 5, limit: 10, ...more });
  expect(await find()).toEqual([old, older, setBack]);
  expect(await find({ limit: 1 })).toEqual([old]);
  expect(await find({ afterSeq: old! })).toEqual([older, setBack]);
  expect(await find({ sourceIds: ["test"] })).toEqual([other]);
});

it("finds the first event that awaits a decision, or the end of all", async () => {
  const [one, two] = await insertEvents(database.pool, [makeEvent("a"), makeEvent("b")]);
  const first = (...sourceIds: string[]) => findFirstPending(database.pool, { sourceIds, afterSeq: 0 });
  expect(await first("live")).toBe(one!.seq - 1);
  await database.pool.query("delete from mirror.pending where seq = $1", [one!.seq]);
  expect(await first("live")).toBe(two!.seq - 1);
  expect(await first("test")).toBe(two!.seq);
  await database.pool.query("delete from mirror.pending");
  expect(await first("live")).toBe(two!.seq);
});
