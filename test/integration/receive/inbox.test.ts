import { createHash } from "node:crypto";
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
  return {
    sourceId,
    eventId,
    body,
    bodyHash: createHash("sha256").update(body).digest(),
    secretIndex: 0,
    headers: "{}",
  };
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
    const pools = [1, 2, 3].map((number) =>
      makePool({ url: database.url, purpose: `writer ${number}`, max: 2, statementTimeoutMs: 10_000 }),
    );
    onTestFinished(async () => {
      for (const pool of pools) await pool.end();
    });
    for (let round = 0; round < 20; round += 1) {
      const events = Array.from({ length: 60 }, (_, n) => makeEvent(`evt_${round}_${(n * 7_919) % 61}`));
      const orders = [events, events.toReversed(), [...events.slice(30), ...events.slice(0, 30)]];
      const results = await Promise.all(
        pools.flatMap((pool, at) => [
          insertEvents(pool, orders[at] ?? []),
          insertEvents(pool, (orders[at] ?? []).toReversed()),
        ]),
      );
      expect(results.flat()).toHaveLength(60);
    }
  });
});

describe("takeOverdue", () => {
  const query = { sourceIds: ["live"], olderThanSeconds: 5, limit: 10 };
  const age = (seq: number, seconds: number) =>
    database.pool.query(
      "update mirror.pending set received_at = clock_timestamp() - make_interval(secs => $2) where seq = $1",
      [seq, seconds],
    );

  it("returns events that are old enough, oldest first", async () => {
    const stored = await insertEvents(
      database.pool,
      ["a", "b", "c"].map((id) => makeEvent(id)),
    );
    const seqs = stored.map(({ seq }) => seq);
    for (const seq of seqs.slice(0, 2)) await age(seq, 5.001);
    await age(seqs[2] ?? 0, 4);
    expect(await takeOverdue(database.pool, query)).toEqual(seqs.slice(0, 2));
    expect(await takeOverdue(database.pool, { ...query, limit: 1 })).toEqual(seqs.slice(0, 1));
    expect(await takeOverdue(database.pool, { ...query, afterSeq: seqs[0] ?? 0 })).toEqual(seqs.slice(1, 2));
  });

  it("returns events that were received before the clock was set back", async () => {
    const [stored] = await insertEvents(database.pool, [makeEvent("a")]);
    await database.pool.query(
      "update mirror.pending set received_at = clock_timestamp() + interval '1 hour'",
    );
    const query = { sourceIds: ["live"], olderThanSeconds: 5, limit: 9 };
    expect(await takeOverdue(database.pool, query)).toEqual([stored?.seq]);
  });

  it("can begin at the first event that awaits a decision, or beyond all of them", async () => {
    const [one, two] = await insertEvents(database.pool, [makeEvent("a"), makeEvent("b")]);
    const query = { sourceIds: ["live"], afterSeq: 0 };
    const first = () => findFirstPending(database.pool, query);
    expect(await first()).toBe(one!.seq - 1);
    await database.pool.query("delete from mirror.pending where seq = $1", [one!.seq]);
    expect(await first()).toBe(two!.seq - 1);
    expect(await findFirstPending(database.pool, { ...query, sourceIds: ["test"] })).toBe(two!.seq);
    await database.pool.query("delete from mirror.pending");
    expect(await first()).toBe(two!.seq);
  });

  it("returns nothing for other sources", async () => {
    const [stored] = await insertEvents(database.pool, [makeEvent("a", "a", "test")]);
    await age(stored?.seq ?? 0, 60);
    expect(await takeOverdue(database.pool, query)).toEqual([]);
    expect(await takeOverdue(database.pool, { ...query, sourceIds: ["test"] })).toEqual([stored?.seq]);
  });
});
