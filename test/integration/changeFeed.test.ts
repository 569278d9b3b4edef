import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { makeApply } from "../../src/apply/apply.ts";
import { parseInstant } from "../../src/domain/order/instant.ts";
import { makePool } from "../../src/database/database.ts";
import type { Pool } from "../../src/database/database.ts";
import { FEED_START, readChanges } from "../../src/changes/changeFeed.sql.ts";
import { settleFeed } from "../../src/changes/feedEpoch.sql.ts";
import { silentLogger } from "../../src/runtime/telemetry/logger.ts";
import { readSnapshot } from "../../src/wire/order.ts";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeOrder,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../support/orders.ts";
import type { OrderSketch } from "../support/orders.ts";
import { makeTestReport } from "../support/report.ts";
import { serve } from "../support/serve.ts";
import type { TestServer } from "../support/serve.ts";

interface FeedBody {
  data: { position: string; reference: string; revision: number; [name: string]: unknown }[];
  hasMore: boolean;
  next: string;
  request_id: string;
}

const modes = new Map([
  ["live", "live"],
  ["test", "test"],
] as const);

let database: TestDatabase;
let pool: Pool;
let server: TestServer;

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "test", max: 4, statementTimeoutMs: 10_000 });
  server = await serve(makeTestReport({ pool }));
  await addSource(pool, "live");
  await addSource(pool, "test", "test");
});
afterAll(async () => {
  await server.close();
  await pool.end();
  await database.drop();
});
beforeEach(async () => {
  await pool.query(
    "truncate mirror.orders, mirror.history, mirror.changes, mirror.pending, mirror.inbox restart identity",
  );
});

const get = (query: string, headers: Record<string, string> = {}) =>
  fetch(`${server.url}/v1/changes${query}`, { headers });

async function read(query = "", headers: Record<string, string> = {}): Promise<FeedBody> {
  const response = await get(query, headers);
  expect(response.status).toBe(200);
  return (await response.json()) as FeedBody;
}

const apply = () => makeApply({ pool, logger: silentLogger, modes });

async function seeByPoll(...orders: OrderSketch[]): Promise<void> {
  const snapshots = orders.map(makeSnapshot);
  const requestedAt = snapshots[0]!.version + 10n ** 10n;
  await apply().applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(requestedAt) });
}

describe("the list of changes", () => {
  it("tells before and after, what changed, what brought it, and both times", async () => {
    const body = makeEventBody({ id: "evt_1", order: { reference: "A", updatedAt: at(1) } });
    await apply().applyEvents(await putIntoInbox(pool, [{ eventId: "evt_1", body }]));
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
    expect(data[0]!["changedFields"]).toContain("/fleet");
    expect(Math.abs(Date.parse(String(data[0]!["changedAt"])) - Date.now())).toBeLessThan(60_000);
  });

  it("shows orders character for character as the provider sent them", async () => {
    const raw = `{ "reference":"A",\n "2":"y", "total": 12345678901234567890.10, "updatedAt":"${at(1)}" }`;
    const snapshots = [readSnapshot(raw, JSON.parse(raw))];
    const requestedAt = parseInstant(at(9));
    await apply().applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(requestedAt) });
    expect(await (await get("")).text()).toContain(`"after":${raw}}`);
  });

  it("has no entry for what changed nothing", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(2) });
    await seeByPoll({ reference: "A", updatedAt: at(2) });
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    expect((await read()).data).toHaveLength(1);
  });

  it("goes on behind a position, page by page, to the end and beyond", async () => {
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

  it("starts behind what there is with after=latest, also when there is nothing", async () => {
    const empty = await read("?after=latest");
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    expect((await read(`?after=${empty.next}`)).data).toHaveLength(1);
    const latest = await read("?after=latest");
    expect(latest.data).toEqual([]);
    await seeByPoll({ reference: "B", updatedAt: at(1) });
    expect((await read(`?after=${latest.next}`)).data).toMatchObject([{ reference: "B" }]);
  });

  it("keeps the sources apart", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    expect((await read("", { "x-source": "test" })).data).toEqual([]);
    expect((await read("", { "x-source": "live" })).data).toHaveLength(1);
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
    ["?after=a&after=b", "after"],
  ])("refuses %s", async (query, name) => {
    const response = await get(query);
    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request" } });
    expect((await (await get(query)).json()) as unknown).toMatchObject({
      error: { message: expect.stringMatching(new RegExp(`^${name} must be`)) as unknown },
    });
  });

  it("tells a reader to begin anew when its position was removed by retention, and only then", async () => {
    await seeByPoll(...["A", "B", "C"].map((reference) => ({ reference, updatedAt: at(1) })));
    const [a, b] = (await read()).data;
    await pool.query(
      `with removed as (delete from mirror.changes where reference in ('A', 'B') returning tx, position)
       insert into mirror.feed_removals
       select 'live', tx, position from removed order by tx desc, position desc limit 1`,
    );
    expect((await get(`?after=${a!.position}`)).status).toBe(410);
    expect((await read(`?after=${b!.position}`)).data).toMatchObject([{ reference: "C" }]);
    expect((await read()).data).toMatchObject([{ reference: "C" }]);
    await pool.query("truncate mirror.feed_removals");
  });
});

describe("a change by a transaction that began early", () => {
  /** Applies within a transaction of the test's, on one connection. */
  async function makeWriter() {
    const client = await database.pool.connect();
    const within = { query: (config: unknown) => client.query(config as string) } as unknown as Pool;
    const writer = makeApply({ pool: within, logger: silentLogger, modes });
    return {
      client,
      write: (reference: string, seconds: number) =>
        writer.applyReads({
          sourceId: "live",
          via: "poll",
          snapshots: [makeSnapshot({ reference, updatedAt: at(seconds) })],
          time: readAt(parseInstant(at(seconds + 100))),
        }),
    };
  }
  const readAll = () => readChanges(pool, { sourceId: "live", after: FEED_START, limit: 100 });
  const described = async () =>
    (await readAll()).changes.map((change) => `${change.reference}${change.revision}`);

  it("is not read, nor what comes after it, until it has ended", async () => {
    const early = await makeWriter();
    await early.client.query("begin");
    await early.write("A", 1);
    await seeByPoll({ reference: "B", updatedAt: at(1) });
    // What `position > cursor` would read now, and go on from: it never returns for A.
    const { rows } = await pool.query("select reference from mirror.changes order by position");
    expect(rows).toEqual([{ reference: "B" }]);
    expect(await described()).toEqual([]);
    await early.client.query("commit");
    early.client.release();
    expect(await described()).toEqual(["A1", "B1"]);
  });

  it("comes after the change it waited for, though its number is smaller and another one is still running", async () => {
    const [early, running, quick] = [await makeWriter(), await makeWriter(), await makeWriter()];
    const number = "select pg_current_xact_id()::text as number";
    const start = async ({ client }: typeof early) => {
      await client.query("begin");
      return Number((await client.query<{ number: string }>(number)).rows[0]!.number);
    };
    const [earlyNumber, runningNumber, quickNumber] = [
      await start(early),
      await start(running),
      await start(quick),
    ];
    expect([earlyNumber, runningNumber].every((smaller) => smaller < quickNumber)).toBe(true);
    await quick.write("A", 1);
    await quick.client.query("commit");
    await early.write("A", 2);
    await early.client.query("commit");
    // By its own number the second change could be read now, and the first not yet.
    expect(await described()).toEqual([]);
    await running.client.query("commit");
    expect(await described()).toEqual(["A1", "A2"]);
    for (const { client } of [early, running, quick]) client.release();
  });
});

describe("a database that was restored", () => {
  it("on another server makes readers begin anew, and every change can be read", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(1) }, { reference: "B", updatedAt: at(1) });
    await seeByPoll({ reference: "A", updatedAt: at(2) });
    const before = await read();
    // A dump carries over the numbers of the old server, which may be far ahead of the new one's.
    await pool.query("update mirror.feed set server = '1/00000001'");
    await pool.query("update mirror.changes set tx = (100000000 - position)::text::xid8");
    await pool.query("update mirror.orders set feed_tx = '100000000'");
    expect((await get(`?after=${before.next}`)).status).toBe(410);
    const error = (await (await get(`?after=${before.next}`)).json()) as unknown;
    expect(error).toMatchObject({ error: { code: "feed_restarted" } });
    const revisions = async () =>
      (await read()).data.map(({ reference, revision }) => `${reference}${revision}`);
    expect(await revisions()).toEqual(["A1", "B1", "A2"]);
    await seeByPoll({ reference: "A", updatedAt: at(3) });
    expect(await revisions()).toEqual(["A1", "B1", "A2", "A3"]);
    const { epoch } = await readChanges(pool, { sourceId: "live", after: FEED_START, limit: 1 });
    expect(before.next.startsWith(epoch)).toBe(false);
    expect(await settleFeed(pool)).toBe(false);
  });

  it("to an earlier moment on its own server makes readers begin anew, with the numbers that are there", async () => {
    await seeByPoll({ reference: "A", updatedAt: at(1) });
    const before = await read();
    const { rows } = await pool.query("select tx from mirror.changes");
    await pool.query("update mirror.feed set server = split_part(server, '/', 1) || '/0000000F'");
    expect(await settleFeed(pool)).toBe(true);
    expect((await get(`?after=${before.next}`)).status).toBe(410);
    expect((await pool.query("select tx from mirror.changes")).rows).toEqual(rows);
  });
});
