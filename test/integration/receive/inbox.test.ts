import { createHash } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { insertEvents, takeOverdue } from "../../../src/receive/inbox.sql.ts";
import type { IncomingEvent } from "../../../src/receive/inbox.sql.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { refuseEvents } from "../../support/faults/refuseEvents.ts";
import { emptying } from "../../support/mirror/emptying.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
  await database.pool.query(
    "insert into mirror.sources values ('live', 'live', 'http://x'), ('test', 'test', 'http://x')",
  );
});
afterAll(() => database.drop());
beforeEach(() => database.pool.query(emptying("inbox pending", { restartsIdentity: true })));

function makeEvent(eventId: string, text = eventId, sourceId = "live"): IncomingEvent {
  const body = Buffer.from(text);
  return { sourceId, eventId, body, bodyHash: createHash("sha256").update(body).digest(), secretIndex: 0 };
}

async function readRows(): Promise<{ event_id: string; body: string; pending: boolean }[]> {
  const { rows } = await database.pool.query<{ event_id: string; body: Buffer; pending: boolean }>(
    `select event_id, body, pending.seq is not null as pending
     from mirror.inbox left join mirror.pending using (seq) order by event_id, body`,
  );
  return rows.map((row) => ({ ...row, body: row.body.toString() }));
}

describe("insertEvents", () => {
  it("stores each event's bytes as pending and returns the position of each input", async () => {
    const events = [
      makeEvent("c", "third"),
      makeEvent("a", ""),
      makeEvent("b", "\0\u00ff é 𝄞"),
      makeEvent("d", "x".repeat(3_000)),
    ];
    const stored = await insertEvents(database.pool, events);
    expect(new Set(stored.map(({ index }) => index))).toEqual(new Set([0, 1, 2, 3]));
    for (const { seq, index } of stored) {
      const { rows } = await database.pool.query<{ event_id: string; body: Buffer; body_hash: Buffer }>(
        "select event_id, body, body_hash from mirror.inbox where seq = $1",
        [seq],
      );
      expect(rows[0]?.event_id).toBe(events[index]?.eventId);
      expect(rows[0]?.body.equals(events[index]?.body ?? Buffer.of(1))).toBe(true);
      expect(rows[0]?.body_hash.equals(events[index]?.bodyHash ?? Buffer.of(1))).toBe(true);
    }
    expect((await readRows()).every((row) => row.pending)).toBe(true);
  });

  it("skips stored events, and repetitions within one call", async () => {
    await insertEvents(database.pool, [makeEvent("a")]);
    const stored = await insertEvents(database.pool, [makeEvent("b"), makeEvent("a"), makeEvent("b")]);
    expect(stored.map(({ index }) => index)).toEqual([0]);
    expect((await readRows()).map((row) => row.event_id)).toEqual(["a", "b"]);
  });

  it("does not make a decided event pending again", async () => {
    await insertEvents(database.pool, [makeEvent("a")]);
    await database.pool.query("delete from mirror.pending");
    expect(await insertEvents(database.pool, [makeEvent("a")])).toEqual([]);
    expect((await readRows()).map((row) => row.pending)).toEqual([false]);
  });

  it("stores another body under the same id, and the same event for another source", async () => {
    const events = [makeEvent("a", "1"), makeEvent("a", "2"), makeEvent("a", "1", "test")];
    expect(await insertEvents(database.pool, events)).toHaveLength(3);
  });

  it("stores all or none", async () => {
    onTestFinished(await refuseEvents(database.pool, "b"));
    const storing = insertEvents(database.pool, [makeEvent("a"), makeEvent("b")]);
    await expect(storing).rejects.toMatchObject({ code: "23514" });
    expect(await readRows()).toEqual([]);
  });

  it("does nothing without events", async () => {
    expect(await insertEvents(database.pool, [])).toEqual([]);
  });

  it("does not deadlock with a process that stores the same events in another sequence", async () => {
    const pools = [1, 2, 3].map((number) =>
      makePool({ url: database.url, purpose: `writer ${number}`, max: 2, statementTimeoutMs: 10_000 }),
    );
    onTestFinished(async () => {
      for (const pool of pools) await pool.end();
    });
    for (let round = 0; round < 60; round += 1) {
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

  it("returns nothing for other sources", async () => {
    const [stored] = await insertEvents(database.pool, [makeEvent("a", "a", "test")]);
    await age(stored?.seq ?? 0, 60);
    expect(await takeOverdue(database.pool, query)).toEqual([]);
    expect(await takeOverdue(database.pool, { ...query, sourceIds: ["test"] })).toEqual([stored?.seq]);
  });
});
