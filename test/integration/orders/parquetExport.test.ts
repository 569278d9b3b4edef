import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { DuckDBTimestampTZValue } from "@duckdb/node-api";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { EXPORT_COLUMNS } from "../../../src/orders/export/orderExport.sql.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { insertOrder, orderText } from "../../support/mirror/mirroredOrders.ts";
import { makeTestReport } from "../../support/mirror/report.ts";
import { queryDuckdb } from "../../support/parquet/duckdb.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { emptying } from "../../support/mirror/emptying.ts";

let database: TestDatabase;
let pool: Pool;
let exportPool: Pool;
let server: TestServer;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-parquet-"));
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "report", max: 2, statementTimeoutMs: 5_000 });
  exportPool = makePool({ url: database.url, purpose: "export", max: 1, statementTimeoutMs: 60_000 });
  server = await serve(makeTestReport({ pool, exportPool }));
});
afterAll(async () => {
  await server.close();
  await pool.end();
  await exportPool.end();
  await database.drop();
  await rm(folder, { recursive: true });
});
beforeEach(() => database.pool.query(emptying("orders")));

/** Exports to a file and returns its name as DuckDB reads it. */
async function download(query = ""): Promise<string> {
  const response = await fetch(`${server.url}/v1/orders.parquet${query}`);
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/vnd.apache.parquet");
  expect(response.headers.get("content-disposition")).toMatch(/filename="orders-live-[\d-]+\.parquet"$/);
  const file = path.join(folder, `${Math.random()}.parquet`);
  await writeFile(file, new Uint8Array(await response.arrayBuffer()));
  return `read_parquet('${file}')`;
}

const TYPES = {
  text: "VARCHAR",
  boolean: "BOOLEAN",
  number: "INTEGER",
  bigint: "BIGINT",
  time: "TIMESTAMP WITH TIME ZONE",
};

describe("GET /v1/orders.parquet", () => {
  it("has the columns of the CSV, with their types", async () => {
    const file = await download();
    const described = await queryDuckdb(`describe select * from ${file}`);
    expect(described.map(({ column_name: name, column_type: type }) => [name, type])).toEqual(
      Object.entries(EXPORT_COLUMNS).map(([name, type]) => [name, TYPES[type]]),
    );
    expect(await queryDuckdb(`select count(*)::int as count from ${file}`)).toEqual([{ count: 0 }]);
  });

  it("keeps times to the microsecond, versions to the nanosecond, every letter, and null", async () => {
    const order = {
      reference: "Ü-\u{1f697}",
      externalOrderId: "=1+1",
      pickupTime: "2026-11-20T12:00:00.123456+01:00",
      deliveryTime: "1969-12-31T23:59:59.999999Z",
      updatedAt: "2026-11-20T10:00:00.123456789Z",
    };
    await insertOrder(database.pool, "live", orderText(order));
    const [row] = await queryDuckdb(`select * from ${await download()}`);
    const { rows } = await pool.query<{ hash: string }>(
      "select encode(hash, 'hex') as hash from mirror.orders",
    );
    expect(row).toMatchObject({
      source_id: "live",
      reference: order.reference,
      external_order_id: "=1+1",
      livemode: true,
      pickup_time: new DuckDBTimestampTZValue(1_795_172_400_123_456n),
      delivery_time: new DuckDBTimestampTZValue(-1n),
      real_delivery_time: null,
      version: 1_795_168_800_123_456_789n,
      content_hash: rows[0]?.hash,
      revision: 1,
    });
  });

  it("has all rows of several row groups, in order, and the same as the CSV", async () => {
    await database.pool.query(
      `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw,
         history_id, first_seen_via, pickup_time)
       select 'live', 'R' || n, n * 1000, true, 0, 1, decode(lpad(to_hex(n), 64, '0'), 'hex'), 'created',
         mirror.instant_at(n * 1000), '{}', n, 'poll', case when n % 3 > 0 then now() end from generate_series(1, 12345) n`,
    );
    const file = await download();
    expect(
      await queryDuckdb(
        `select count(*)::int as count, count(pickup_time)::int as planned, sum(version)::bigint as versions,
           count(distinct content_hash)::int as hashes from ${file}`,
      ),
    ).toEqual([
      { count: 12_345, planned: 8_230, versions: (12_345n * 12_346n * 1_000n) / 2n, hashes: 12_345 },
    ]);
    const groups = `parquet_metadata(${/'.*'/.exec(file)?.[0] ?? ""})`;
    expect(await queryDuckdb(`select count(distinct row_group_id)::int as groups from ${groups}`)).toEqual([
      { groups: 5 },
    ]);
    // Skips row groups by their statistics.
    expect(await queryDuckdb(`select reference from ${file} where version = 7000000`)).toEqual([
      { reference: "R7000" },
    ]);

    const csv = path.join(folder, "same.csv");
    await writeFile(csv, await (await fetch(`${server.url}/v1/orders.csv`)).text());
    const asCsv = `read_csv('${csv}', all_varchar = true)`;
    const columns =
      "reference, version::varchar as version, content_hash, status, epoch_us(pickup_time) as planned";
    const sameOfCsv =
      "reference, version, content_hash, status, epoch_us(strptime(left(pickup_time, 19), '%Y-%m-%dT%H:%M:%S')) as planned";
    expect(
      await queryDuckdb(
        `select count(*)::int as different from (select ${columns} from ${file}) a full join (select ${sameOfCsv} from ${asCsv}) b
         on a.reference = b.reference and a.version = b.version and a.content_hash = b.content_hash and a.status = b.status
           and coalesce(a.planned // 1000000, 0) = coalesce(b.planned // 1000000, 0)
         where a.reference is null or b.reference is null`,
      ),
    ).toEqual([{ different: 0 }]);
  });

  it("accepts the filters of the list", async () => {
    await insertOrder(database.pool, "live", orderText({ reference: "A", status: "cancelled" }));
    await insertOrder(database.pool, "live", orderText({ reference: "B" }));
    const file = await download("?status=cancelled");
    expect(await queryDuckdb(`select reference from ${file}`)).toEqual([{ reference: "A" }]);
  });
});
