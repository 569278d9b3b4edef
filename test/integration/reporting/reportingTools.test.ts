import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { parse } from "yaml";
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
  type Table = Record<"name" | "loaded_at_field", string> & { columns: { name: string }[] };
  const [{ tables }] = (parse(text) as { sources: [{ tables: Table[] }] }).sources;
  const named = tables.flatMap((table) => table.columns.map((column) => `${table.name}.${column.name}`));
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !known.has(name))).toEqual([]);
  const freshness = tables
    .filter((table) => "freshness" in table)
    .map((table) => `${table.name}.${table.loaded_at_field}`);
  expect(freshness.map((name) => [name, known.get(name)])).toEqual([
    ["sync_status.safe_through", "timestamp with time zone"],
  ]);
});

it("Grafana's query for the list of sources runs", async () => {
  expect((await database.pool.query(readDashboard().sourceQuery ?? "")).rows).toEqual([
    { source_id: "live" },
  ]);
});

it("docs/reporting.md has instructions that work for administrators", async () => {
  expect(readBlocks("sql admin")).toHaveLength(3);
  const client = await database.pool.connect();
  onTestFinished(() => client.release(true));
  await client.query("begin");
  for (const statements of readBlocks("sql admin"))
    await client.query(statements.replace("create role order_mirror_reader nologin;", ""));
});
