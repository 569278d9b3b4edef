import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { addSource } from "../../support/mirror/orders.ts";
import { readBlocks, readDashboard } from "../../support/mirror/reporting.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");

it("examples/dbt names only columns that exist, and measures freshness by a time", async () => {
  const { rows } = await database.pool.query<{ name: string; type: string }>(
    `select table_name || '.' || column_name as name, data_type as type from information_schema.columns
     where table_schema = 'reporting'`,
  );
  const known = new Map(rows.map(({ name, type }) => [name, type]));
  const text = await readFile(path.resolve(import.meta.dirname, "../../../examples/dbt/sources.yml"), "utf8");
  const named: string[] = [];
  const loadedAt: string[] = [];
  let table = "";
  for (const line of text.split("\n")) {
    table = /^ {6}- name: (\w+)$/.exec(line)?.[1] ?? table;
    const column = /^ {10}- name: (\w+)$/.exec(line)?.[1];
    if (column !== undefined) named.push(`${table}.${column}`);
    const field = /^ {8}loaded_at_field: (\w+)$/.exec(line)?.[1];
    if (field !== undefined) loadedAt.push(`${table}.${field}`);
  }
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
  expect(loadedAt).toEqual(["sync_status.safe_through"]);
  expect(known.get("sync_status.safe_through")).toBe("timestamp with time zone");
});

it("Grafana's query for the list of sources runs", async () => {
  expect((await database.pool.query(readDashboard().sourceQuery)).rows).toEqual([{ source_id: "live" }]);
});

it("docs/reporting.md has instructions that work for administrators", async () => {
  expect(readBlocks("sql admin")).toHaveLength(3);
  const client = await database.pool.connect();
  onTestFinished(() => client.release(true));
  await client.query("begin");
  for (const statements of readBlocks("sql admin"))
    await client.query(statements.replace("create role order_mirror_reader nologin;", ""));
});
