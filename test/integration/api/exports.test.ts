import { PassThrough } from "node:stream";
import { afterAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { exportOrders } from "../../../src/orders/exportOrders.sql.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { insertMany, insertOrder, orderText } from "../../support/mirror/orders.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { serve } from "../../support/http/serve.ts";
import { emptying } from "../../support/mirror/tables.ts";

const BRANCH_ID = "6f1c7a52-0d7e-4a0e-9d5b-3f0f4c6e2a11";

const { database, pool } = await openTestDatabase({ purpose: "read", max: 2, statementTimeoutMs: 120_000 });

// A server need not be set to UTC, as the lines of an export are.
await database.pool.query(
  `alter database "${new URL(database.url).pathname.slice(1)}" set timezone = 'Europe/Amsterdam'`,
);
const exportPool = makePool({ url: database.url, purpose: "export", max: 1, statementTimeoutMs: 120_000 });
const server = await serve(makeTestApi({ pool, exportPool }));
afterAll(async () => {
  await server.close();
  await exportPool.end();
});
beforeEach(() => database.pool.query(emptying("orders")));

const add = (fields: Record<string, unknown>, sourceId = "live") =>
  insertOrder(database.pool, sourceId, orderText(fields));

const get = (path: string, init: RequestInit = {}) => fetch(`${server.url}/v1${path}`, init);

async function references(query: string) {
  const response = await get(`/orders.csv${query}`);
  expect(response.status).toBe(200);
  const lines = (await response.text()).split("\r\n").slice(1, -1);
  return lines.map((line) => line.split(",")[1]);
}

describe("GET /v1/orders.csv", () => {
  it("is a file with the columns of reporting.orders", async () => {
    await add({ reference: "A", externalOrderId: "=1+1", pickupTime: "2026-11-20T12:00:00.5+01:00" });
    const response = await get("/orders.csv");
    expect(response.headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    expect(response.headers.get("content-disposition")).toMatch(
      /^attachment; filename="orders-live-\d{4}-\d\d-\d\d\.csv"$/,
    );
    const [header, order] = (await response.text()).split("\r\n");
    const { fields: columns } = await pool.query("select * from reporting.orders limit 0");
    const names = columns.map(({ name }) => name);
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

  it("accepts the filters of the list, sorted by updatedAt to the nanosecond", async () => {
    const branch = { id: BRANCH_ID, reference: "centre", name: "Centre" };
    await add({ reference: "A", branch, updatedAt: "2026-11-20T10:00:00.000000002Z" });
    await add({ reference: "B", fleet: { name: "South" }, updatedAt: "2026-11-20T10:00:00.000000001Z" });
    await add({ reference: "T" }, "test");
    expect(await references("")).toEqual(["B", "A"]);
    expect(await references("?branch=centre")).toEqual(["A"]);
    expect(await references("?fleet=South")).toEqual(["B"]);
    expect(await references("?fleet=South&pickupUntil=2100-01-01T00:00:00Z")).toEqual([]);
  });

  it("refuses a wrong filter before it begins, and answers HEAD", async () => {
    const instant = "2026-11-20T10:00:00Z";
    for (const query of ["status=", "branch=nowhere", `updatedSince=${instant}`, `updatedAfter=${instant}`]) {
      const { status, headers } = await get(`/orders.csv?${query}`);
      expect([query, status, headers.get("content-disposition")]).toEqual([query, 422, null]);
      expect(headers.get("content-type")).toContain("application/json");
    }
    const { status, headers } = await get("/orders.csv", { method: "HEAD" });
    expect([status, headers.get("content-type")]).toEqual([200, expect.stringContaining("text/csv")]);
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

  it("has each order once, in one state whatever changes meanwhile, and lets others wait only a moment for its connection", async () => {
    await insertMany(database.pool, 3_000, 10_000);
    const response = await get("/orders.ndjson");
    await database.pool.query(
      "update mirror.orders set version = version + 10000, raw = '{\"changed\":true}'",
    );
    const second = await get("/orders.ndjson");
    expect([second.status, second.headers.get("content-disposition")]).toEqual([503, null]);
    const listed = (await response.text()).split("\n").slice(0, -1);
    const numbers = listed.map((line) => (JSON.parse(line) as { reference?: number }).reference);
    expect(numbers).toEqual(Array.from({ length: 3_000 }, (_, n) => n + 1));
    expect(await references("")).toHaveLength(3_000);
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

  it("gives its connection back when the client goes, and breaks that of the client when the database goes", async () => {
    await insertMany(database.pool, 3_000, 10_000);
    const isFree = () =>
      vi.waitFor(async () => expect((await get("/orders.csv?fleet=none")).status).toBe(200), 60_000);
    const abort = new AbortController();
    const left = await get("/orders.ndjson", { signal: abort.signal });
    await left.body!.getReader().read();
    abort.abort();
    await isFree();
    const response = await get("/orders.ndjson");
    await database.pool.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'order-mirror export'",
    );
    await expect(response.text()).rejects.toThrow(/terminated/);
    // The client may learn of the end before the server has given up its connection.
    await isFree();
  });

  it("is read no faster than its output is consumed, and stops on abort", async () => {
    await insertMany(database.pool, 3_000, 10_000);
    const [out, stop] = [new PassThrough(), new AbortController()];
    const filter = { sourceId: "live" };
    const done = exportOrders({ pool: exportPool, format: "ndjson", filter, out, signal: stop.signal });
    done.catch(() => undefined);
    await vi.waitFor(() => expect(out.writableNeedDrain).toBe(true), 60_000);
    expect(out.readableLength + out.writableLength).toBeLessThan(3_000_000);
    stop.abort(new Error("enough"));
    await expect(done).rejects.toThrow(/abort/i);
    expect(exportPool.totalCount).toBe(0);
  });
});
