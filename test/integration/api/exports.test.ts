import { PassThrough } from "node:stream";
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { exportOrders } from "../../../src/orders/exportOrders.sql.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { insertOrder, orderText } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { serve } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/tables.ts";

const BRANCH_ID = "6f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11";

const { database, pool } = await openTestDatabase({ purpose: "read", max: 2, statementTimeoutMs: 120_000 });

const exportPool = makePool({
  url: database.url,
  purpose: "export",
  max: 1,
  statementTimeoutMs: 120_000,
  connectTimeoutMs: 300,
});
const server = await serve(makeTestApi({ pool, exportPool }));
afterAll(async () => {
  await server.close();
  await exportPool.end();
});
beforeEach(() => database.pool.query(emptying("orders poll_state sources")));

const add = (fields: Record<string, unknown>, sourceId = "live") =>
  insertOrder(database.pool, sourceId, orderText(fields));

/** Stores many orders, each with about `bytes` of JSON. */
const addMany = (count: number, bytes: number) =>
  database.pool.query(
    `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw,
       history_id, first_seen_via)
     select 'live', 'R' || lpad(n::text, 6, '0'), n, true, 0, 1, '', 'created', now(),
       json_build_object('reference', n, 'note', repeat('x', $2)), n, 'poll' from generate_series(1, $1) n`,
    [count, bytes],
  );

const get = (path: string, init: RequestInit = {}) => fetch(`${server.url}/v1${path}`, init);

async function lines(path: string): Promise<string[]> {
  const response = await get(path);
  expect(response.status).toBe(200);
  return (await response.text()).split(/\r?\n/).slice(0, -1);
}

const references = async (query: string) =>
  (await lines(`/orders.csv${query}`)).slice(1).map((line) => line.split(",")[1]);

it.each(["/orders.csv", "/orders.ndjson"])("%s says up to when it is complete", async (path) => {
  await database.pool.query(
    "insert into mirror.sources (source_id, mode, base_url) values ('live', 'live', '')",
  );
  await database.pool.query(
    "insert into mirror.poll_state (source_id, safe_through) values ('live', 1763632800000000001)",
  );
  const { headers } = await get(path);
  expect(headers.get("x-safe-through")).toBe("2025-11-20T10:00:00.000000001Z");
  expect(headers.get("x-safe-through-exceptions")).toBe("0");
  expect((await get(`${path}?updatedAfter=2025-11-20T10:00:00Z`)).status).toBe(422);
});

describe("GET /v1/orders.csv", () => {
  it("is a file with the columns of reporting.orders", async () => {
    await add({ reference: "A", externalOrderId: "=1+1", pickupTime: "2026-11-20T12:00:00.5+01:00" });
    const response = await get("/orders.csv");
    expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    expect(response.headers.get("content-disposition")).toMatch(
      /^attachment; filename="orders-live-\d{4}-\d\d-\d\d\.csv"$/,
    );
    const [header, order] = (await response.text()).split("\r\n");
    const columns = await pool.query<{ name: string }>(
      `select attname as name from pg_attribute
       where attrelid = 'reporting.orders'::regclass and attnum > 0 order by attnum`,
    );
    const names = columns.rows.map(({ name }) => name);
    expect(header).toBe(names.join(","));
    const cells = Object.fromEntries(order!.split(",").map((text, index) => [names[index], text]));
    expect(cells).toMatchObject({
      source_id: "live",
      reference: "A",
      external_order_id: "'=1+1",
      status: "created",
      livemode: "true",
      pickup_time: "2026-11-20T11:00:00.5Z",
      updated_at: "2026-11-20T10:00:00Z",
      real_pickup_time: "",
      revision: "1",
    });
  });

  it("accepts every filter of the list, sorted by updatedAt to the nanosecond", async () => {
    const branch = { id: BRANCH_ID, reference: "centre", name: "Centre" };
    await add({ reference: "A", branch, updatedAt: "2026-11-20T10:00:00.000000002Z" });
    await add({
      reference: "B",
      status: "cancelled",
      updatedAt: "2026-11-20T10:00:00.000000001Z",
      fleet: { name: "South" },
    });
    await add({ reference: "C", pickupTime: "2026-11-20T12:00:00Z" });
    await add({ reference: "T" }, "test");
    expect(await references("")).toEqual(["C", "B", "A"]);
    expect(await references("?status=cancelled")).toEqual(["B"]);
    expect(await references("?branch=centre")).toEqual(["A"]);
    expect(await references("?pickupFrom=2026-11-20T12:00:00Z")).toEqual(["C"]);
    expect(await references("?fleet=South")).toEqual(["B"]);
    expect(
      await references("?updatedSince=2026-11-20T10:00:00.000000002Z&updatedUntil=2026-11-20T11:00:00Z"),
    ).toEqual(["A"]);
  });

  it.each(["status=", "branch=nowhere", "updatedSince=2026-11-20T10:00:00Z"])(
    "refuses %s before it begins",
    async (query) => {
      const response = await get(`/orders.csv?${query}`);
      expect(response.status).toBe(422);
      expect(response.headers.get("content-type")).toContain("application/json");
      expect(response.headers.get("content-disposition")).toBeNull();
    },
  );

  it("answers HEAD without reading orders", async () => {
    const response = await get("/orders.csv", { method: "HEAD" });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("text/csv");
  });
});

describe("GET /v1/orders.ndjson", () => {
  it("has one order per line, unchanged except for line breaks between its parts", async () => {
    const raw = `{ "reference":"A",\r\n "total": 12345678901234567890.10, "name":"\\n", "updatedAt":"2026-11-20T10:00:00Z" }`;
    await insertOrder(database.pool, "live", raw);
    const response = await get("/orders.ndjson");
    expect(response.headers.get("content-type")).toBe("application/x-ndjson; charset=utf-8");
    expect(await response.text()).toBe(`${raw.replace("\r\n", " ")}\n`);
  });

  it("returns each order once across several fetches", async () => {
    await addMany(2_345, 10);
    const all = (await lines("/orders.ndjson")).map(
      (line) => (JSON.parse(line) as { reference: number }).reference,
    );
    expect(all).toEqual(Array.from({ length: 2_345 }, (_, n) => n + 1));
    expect(await references("")).toHaveLength(2_345);
  });

  it("releases the connection when the client disconnects halfway", async () => {
    await addMany(3_000, 10_000);
    const abort = new AbortController();
    const response = await get("/orders.ndjson", { signal: abort.signal });
    const reader = response.body!.getReader();
    await reader.read();
    abort.abort();
    await vi.waitFor(async () => expect((await get("/orders.csv?fleet=none")).status).toBe(200), 60_000);
  });

  it("shows one state, whatever changes meanwhile", async () => {
    await addMany(3_000, 10_000);
    const response = await get("/orders.ndjson");
    await database.pool.query(
      "update mirror.orders set version = version + 10000, raw = '{\"changed\":true}'",
    );
    const text = await response.text();
    expect(text.split("\n")).toHaveLength(3_001);
    expect(text).not.toContain("changed");
  });

  it("answers 503 while other exports hold all connections", async () => {
    await addMany(3_000, 10_000);
    const first = await get("/orders.ndjson");
    const second = await get("/orders.ndjson");
    expect(second.status).toBe(503);
    expect(second.headers.get("content-disposition")).toBeNull();
    expect((await first.text()).split("\n")).toHaveLength(3_001);
  });

  it("waits for a database that takes longer than a client may", async () => {
    await add({ reference: "A" });
    const client = await database.pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("begin; lock table mirror.orders");
    const api = makeTestApi({ pool, exportPool, limits: { stalledMs: 50 } });
    let unlocked: Promise<unknown> | undefined;
    const slow = await serve((request, response, next) => {
      response.once("timeout", () => {
        unlocked = client.query("commit");
      });
      return api(request, response, next);
    });
    onTestFinished(() => slow.close());
    expect(await (await fetch(`${slow.url}/v1/orders.ndjson`)).text()).toContain('"A"');
    await unlocked;
  });

  it("ends with a broken connection when the database fails halfway", async () => {
    await addMany(3_000, 10_000);
    const response = await get("/orders.ndjson");
    await database.pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'order-mirror export'",
    );
    await expect(response.text()).rejects.toThrow(/terminated/);
    // The client may learn of the end before the server has given up its connection.
    await vi.waitFor(async () => expect((await get("/orders.csv?fleet=none")).status).toBe(200), 60_000);
  });
});

describe("exportOrders", () => {
  const options = { format: "ndjson", filter: { sourceId: "live" } } as const;

  it("reads no faster than its output is consumed, and stops on abort", async () => {
    await addMany(3_000, 10_000);
    const out = new PassThrough();
    const stop = new AbortController();
    const done = exportOrders({ ...options, pool: exportPool, out, signal: stop.signal });
    done.catch(() => undefined);
    await vi.waitFor(() => expect(out.writableNeedDrain).toBe(true), 60_000);
    expect(out.readableLength + out.writableLength).toBeLessThan(3_000_000);
    stop.abort(new Error("enough"));
    await expect(done).rejects.toThrow(/abort/i);
    expect(exportPool.totalCount).toBe(0);
  });
});
