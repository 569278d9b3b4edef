import pg from "pg";
import { afterAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { beginFeedEpoch, readFeedFence, readMirrorId } from "../../../src/changes/changeFeed.sql.ts";
import { asPool, makeTestDatabase } from "../../support/servers/database.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeOrder, type OrderSketch } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { serve } from "../../support/http/serve.ts";
import { EMPTY_MIRROR, emptying } from "../../support/mirror/tables.ts";

interface FeedBody {
  data: { position: string; reference: string; revision: number; [name: string]: unknown }[];
  hasMore: boolean;
  next: string;
  request_id: string;
}

const { database, pool, tell, show } = await openLiveMirror();
await addSource(pool, "test", "test");
const server = await serve(makeTestApi({ pool }));
afterAll(() => server.close());
beforeEach(() => pool.query(EMPTY_MIRROR));

const get = (query: string, headers: Record<string, string> = {}) =>
  fetch(`${server.url}/v1/changes${query}`, { headers });

async function read(query = "", headers: Record<string, string> = {}): Promise<FeedBody> {
  const response = await get(query, headers);
  expect(response.status).toBe(200);
  return (await response.json()) as FeedBody;
}

const names = ({ data }: FeedBody) => data.map(({ reference, revision }) => `${reference}${revision}`);

const seeByPoll = (...orders: OrderSketch[]) => show(parseInstant(orders[0]!.updatedAt) + 10n ** 10n, orders);

/** Applies observations on one connection, in a transaction that the test ends. */
async function makeWriter() {
  const client = await database.pool.connect();
  onTestFinished(() => client.release(true));
  const writer = makeObserver(asPool(client), makeLiveApply(asPool(client)));
  await client.query("begin");
  return {
    client,
    write: (reference: string, seconds: number) =>
      writer.show(parseInstant(at(seconds + 100)), [{ reference, updatedAt: at(seconds) }]),
    commit: () => client.query("commit"),
  };
}

describe("the list of changes", () => {
  it("shows each change with its state before and after, the changed fields, the cause and both times", async () => {
    await tell({ reference: "A", updatedAt: at(1) }, { eventId: "evt_1" });
    const more = { realPickupTime: at(2) };
    await seeByPoll({
      reference: "A",
      updatedAt: "2026-03-01T09:00:02.123456789Z",
      status: "picked_up",
      more,
    });
    const { data, hasMore, next, request_id } = await read();
    expect({ hasMore, next }).toEqual({ hasMore: false, next: data[1]!.position });
    expect(request_id).toMatch(/^req_/);
    expect(data).toMatchObject([
      {
        reference: "A",
        revision: 1,
        status: "created",
        previousStatus: null,
        cause: { via: "webhook", eventId: "evt_1", eventType: "order.created" },
        updatedAt: "2026-03-01T09:00:01Z",
        before: null,
        after: makeOrder({ reference: "A", updatedAt: at(1) }),
      },
      {
        revision: 2,
        status: "picked_up",
        previousStatus: "created",
        cause: { via: "poll" },
        updatedAt: "2026-03-01T09:00:02.123456789Z",
        changedFields: ["/status", "/realPickupTime", "/updatedAt"],
        before: { status: "created" },
        after: { status: "picked_up", realPickupTime: at(2) },
      },
    ]);
    expect([data[0]!["changedFields"], data[1]!["cause"]]).toEqual([
      expect.arrayContaining(["/fleet"]),
      { via: "poll" },
    ]);
    expect(Math.abs(Date.parse(String(data[0]!["changedAt"])) - Date.now())).toBeLessThan(60_000);
  });

  it("continues after a position, page by page, to the end and beyond", async () => {
    await seeByPoll(...["A", "B", "C"].map((reference) => ({ reference, updatedAt: at(1) })));
    const first = await read("?limit=2");
    expect(first).toMatchObject({ hasMore: true, data: [{ reference: "A" }, { reference: "B" }] });
    const second = await read(`?limit=2&after=${first.next}`);
    expect(second).toMatchObject({ hasMore: false, data: [{ reference: "C" }] });
    const third = await read(`?after=${second.next}`);
    expect(third).toMatchObject({ hasMore: false, data: [], next: second.next });
    await seeByPoll({ reference: "A", updatedAt: at(5) });
    expect(await read(`?after=${third.next}`)).toMatchObject({ data: [{ reference: "A", revision: 2 }] });
  });

  it("ends a page early when its orders are large, and never without one", async () => {
    const more = { note: "x".repeat(1_500_000) };
    await seeByPoll(...["A", "B", "C"].map((reference) => ({ reference, updatedAt: at(1), more })));
    await seeByPoll({ reference: "A", updatedAt: at(2), more: { note: "y".repeat(5_000_000) } });
    const references: unknown[] = [];
    let after = "";
    for (const [length, hasMore] of [
      [2, true],
      [1, true],
      [1, false],
    ] as const) {
      const page = await read(after === "" ? "" : `?after=${after}`);
      expect({ length: page.data.length, hasMore: page.hasMore }).toEqual({ length, hasMore });
      references.push(...page.data.map(({ reference }) => reference));
      after = page.next;
    }
    expect(references).toEqual(["A", "B", "C", "A"]);
  });

  it.each([
    ["?limit=0", "limit"],
    ["?limit=501", "limit"],
    ["?limit=1&limit=2", "limit"],
    ["?after=12", "after"],
    ["?after=0123456789ab.1.99999999999999999999", "after"],
    ["?after=0123456789ab.9999999999999999999", "after"],
    ["?after=a&after=b", "after"],
  ])("refuses %s", async (query, name) => {
    const response = await get(query);
    const message = expect.stringMatching(new RegExp(`^${name} must be`)) as unknown;
    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request", message } });
  });

  it("accepts each position that it gave, also when nothing is left and while changes are written", async () => {
    const beginning = (await read("?after=latest")).next;
    for (const reference of ["A", "B"]) await seeByPoll({ reference, updatedAt: at(1) });
    const last = (await read()).next;
    await pool.query(
      `with removed as (delete from mirror.changes returning position)
       update mirror.sources set removed_position = (select max(position) from removed) where source_id = 'live'`,
    );
    await moveServer("1/00000006");
    const emptied = (await read("?after=latest")).next;
    // An open transaction has taken a position, and nothing before it is left.
    const writer = await makeWriter();
    await writer.write("C", 1);
    for (const place of [last, emptied, (await read("?after=latest")).next])
      expect(await read(`?after=${place}`)).toMatchObject({ data: [] });
    await writer.commit();
    for (const place of [last, emptied])
      expect(await read(`?after=${place}`)).toMatchObject({ data: [{ reference: "C" }] });
    expect((await get(`?after=${beginning}`)).status).toBe(410);
  });
});

describe("a transaction that is still open", () => {
  const described = async () => names(await read());

  it("hides its own change and later ones, but no earlier one", async () => {
    await seeByPoll({ reference: "Z", updatedAt: at(1) });
    const early = await makeWriter();
    await early.write("A", 1);
    await seeByPoll({ reference: "B", updatedAt: at(1) });
    // A reader that uses `position > cursor` would continue after B and never see A.
    const { rows } = await pool.query("select reference from mirror.changes order by position");
    expect(rows).toEqual([{ reference: "Z" }, { reference: "B" }]);
    expect(await described()).toEqual(["Z1"]);
    const latest = (await read("?after=latest")).next;
    await early.commit();
    expect(await described()).toEqual(["Z1", "A1", "B1"]);
    expect((await read(`?after=${latest}`)).data.map(({ reference }) => reference)).toEqual(["A", "B"]);
  });

  it("comes after the change it waited for, although it began earlier", async () => {
    const [early, quick] = [await makeWriter(), await makeWriter()];
    await early.client.query("select pg_current_xact_id()");
    await quick.write("A", 1);
    const waiting = early.write("A", 2);
    await quick.commit();
    await waiting;
    await early.commit();
    expect(await described()).toEqual(["A1", "A2"]);
  });

  it("hides nothing when it belongs to another program, in this or another database of the server", async () => {
    const other = await makeTestDatabase();
    onTestFinished(() => other.drop());
    for (const stranger of [await database.pool.connect(), await other.pool.connect()]) {
      onTestFinished(() => stranger.release(true));
      await stranger.query("begin; create temporary table mine (id int); select pg_current_xact_id()");
    }
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    expect(await described()).toEqual(["A1"]);
  });

  it("hides nothing when its login cannot write changes, whatever locks it holds", async () => {
    await pool.query(`drop role if exists feed_stranger; create role feed_stranger login password 'feed_stranger';
      grant connect on database "${new URL(database.url).pathname.slice(1)}" to feed_stranger;
      grant execute on function pg_advisory_xact_lock_shared(int, int) to feed_stranger`);
    const url = new URL(database.url);
    [url.username, url.password] = ["feed_stranger", "feed_stranger"];
    const client = new pg.Client(url.href);
    await client.connect();
    const { rows } = await pool.query<{ key: number }>("select 'mirror.changes'::regclass::oid::int as key");
    const lock = `begin; select pg_advisory_xact_lock_shared(${rows[0]!.key}, 0)`;
    await client.query(lock);
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    expect(await described()).toEqual(["A1"]);
    await client.end();
    // The same lock, held by a login that can write: the fence must respect it even though no change was written.
    const writer = await database.pool.connect();
    onTestFinished(() => writer.release(true));
    await writer.query(lock);
    expect(await described()).toEqual([]);
    await pool.query("drop owned by feed_stranger; drop role feed_stranger");
  });

  it("is recognized by its position even when the lock key cannot hold all its bits", async () => {
    for (const beginning of [2n ** 31n - 2n, 3n * 2n ** 31n - 1n]) {
      await pool.query(emptying("orders history changes"));
      await pool.query(`alter table mirror.changes alter column position restart with ${beginning}`);
      await seeByPoll({ reference: "Z", updatedAt: at(1) });
      const early = await makeWriter();
      await early.write("A", 1);
      for (const reference of ["B", "C", "D"]) await seeByPoll({ reference, updatedAt: at(1) });
      expect(await described()).toEqual(["Z1"]);
      await early.commit();
      expect(await described()).toEqual(["Z1", "A1", "B1", "C1", "D1"]);
    }
  });

  it("the fence stays before a position that is taken while the locks are read", async () => {
    const client = await pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("begin");
    const newest = await readFeedFence(client);
    // Another transaction takes a position just after the locks were read, as these show none of it.
    await client.query(`
      create or replace function mirror.feed_writers() returns table (pid integer, after_position_bits bigint)
      language plpgsql volatile as $$
      begin
        perform nextval('mirror.changes_position_seq');
      end $$`);
    expect(await readFeedFence(client)).toBe(newest);
    expect(await readFeedFence(client)).toBe(newest + 1n);
  });
});

/**
 * Simulates starting the data directory, or a dump of it, as the server with the identity `server`: no session of the pool
 * continues on it. `lost` is SQL that removes what the new server lacks, in the same transaction.
 */
async function moveServer(server: string, lost = ""): Promise<void> {
  const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()));
  await clients[0]?.query(`${lost}; update mirror.feed set server = '${server}', server_started = 'epoch'`);
  for (const client of clients) client.release(true);
}

describe("a database that moved", () => {
  it("to a server with every change: readers resume where they were", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    const before = await read();
    const mirrorId = await readMirrorId(pool);
    await moveServer("1/00000001");
    await seeByPoll({ reference: "B", updatedAt: at(1) });
    const after = await read(`?after=${before.next}`);
    expect(names(after)).toEqual(["B1"]);
    expect(after.next.split(".")[0]).not.toBe(before.next.split(".")[0]);
    expect(names(await read(`?after=${after.next}`))).toEqual([]);
    expect(names(await read())).toEqual(["A1", "B1"]);
    expect(await beginFeedEpoch(pool)).toBe(false);
    const unknown = await get(`?after=${before.next.replace(/^[0-9a-f]{12}/, "000000000000")}`);
    expect([unknown.status, await unknown.json()]).toMatchObject([
      410,
      { error: { code: "feed_restarted" } },
    ]);
    // The keys of its queue are called after it.
    expect(await readMirrorId(pool)).toBe(mirrorId);
  });

  it("to a server that lost the last changes: readers resume after the last common change", async () => {
    for (const reference of ["A", "B", "C", "D"]) await seeByPoll({ reference, updatedAt: at(1) });
    const all = await read();
    const places = all.data.map(({ position }) => position);
    // The server that took over lacks C and D and assigns their positions again.
    await pool.query("delete from mirror.changes where reference in ('C', 'D')");
    await pool.query("delete from mirror.orders where reference in ('C', 'D')");
    await pool.query("alter table mirror.changes alter column position restart with 3");
    await moveServer("1/00000002");
    for (const reference of ["D", "E", "F"]) await seeByPoll({ reference, updatedAt: at(2) });
    const seenAfter = await Promise.all(places.map(async (place) => names(await read(`?after=${place}`))));
    expect(seenAfter).toEqual([
      ["B1", "D1", "E1", "F1"],
      ["D1", "E1", "F1"],
      ["D1", "E1", "F1"],
      ["D1", "E1", "F1"],
    ]);
    // A second move, to a server that has nothing from the second one: readers resume after the last change that all three share.
    await pool.query("delete from mirror.changes where reference <> 'A'");
    await moveServer("1/00000003");
    await seeByPoll({ reference: "G", updatedAt: at(1) });
    for (const place of places) expect(names(await read(`?after=${place}`))).toEqual(["G1"]);
  });

  it("to a server that lags: positions beyond its end continue at its end, with and without a change", async () => {
    for (const reference of ["A", "B", "C"]) await seeByPoll({ reference, updatedAt: at(1) });
    const withChange = (await read()).next;
    const withoutChange = withChange.replace(/\.[0-9a-f]{8}$/, "");
    await pool.query("delete from mirror.changes where reference <> 'A'");
    await pool.query("delete from mirror.orders where reference <> 'A'");
    await pool.query("alter table mirror.changes alter column position restart with 2");
    await moveServer("1/00000004");
    const pages = [await read(`?after=${withChange}`), await read(`?after=${withoutChange}`)];
    expect(pages.flatMap(names)).toEqual([]);
    await seeByPoll({ reference: "D", updatedAt: at(2) });
    for (const place of [withChange, withoutChange, ...pages.map(({ next }) => next)])
      expect(names(await read(`?after=${place}`))).toEqual(["D1"]);
  });

  it("back in time without notice: a position that now names another change, or none, is refused", async () => {
    for (const reference of ["A", "B"]) await seeByPoll({ reference, updatedAt: at(1) });
    const { next, data } = await read();
    await pool.query("delete from mirror.changes where reference = 'B'");
    await pool.query("alter table mirror.changes alter column position restart with 2");
    expect((await get(`?after=${next}`)).status).toBe(410);
    await seeByPoll({ reference: "C", updatedAt: at(1) });
    expect((await get(`?after=${next}`)).status).toBe(410);
    expect(names(await read(`?after=${data[0]!.position}`))).toEqual(["C1"]);
  });

  it("nowhere, but was restarted: nothing changes", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    const { next } = await read();
    await pool.query("update mirror.feed set server_started = 'epoch'");
    expect(await beginFeedEpoch(pool)).toBe(false);
    await pool.query("update mirror.feed set server_started = 'epoch'");
    // The first transaction that records the restart does not block others, however long it is open.
    const { client } = await makeWriter();
    const { rows } = await client.query("select mirror.begin_feed_epoch() as begun");
    expect(rows).toEqual([{ begun: false }]);
    await seeByPoll({ reference: "B", updatedAt: at(1) });
    await client.query("commit");
    const { data } = await read(`?after=${next}`);
    expect(data.map(({ position }) => position.split(".")[0])).toEqual([next.split(".")[0]]);
  });
});
