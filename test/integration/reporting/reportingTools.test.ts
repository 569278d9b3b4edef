import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, it } from "vitest";
import { addSource } from "../../support/mirror/orders.ts";
import { readBlocks, readDashboard } from "../../support/mirror/reporting.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const { panels, sourceQuery } = readDashboard();
const EXAMPLES = readBlocks("sql");

const { database } = await openTestDatabase();
await addSource(database.pool, "live");

/** Runs queries as a reader, in a transaction that is rolled back. */
async function runAs(role: string | null, ...statements: string[]): Promise<void> {
  const client = await database.pool.connect();
  try {
    await client.query("begin");
    if (role !== null) await client.query(`set local role ${role}; set transaction read only`);
    for (const sql of statements) await client.query(sql);
  } finally {
    await client.query("rollback");
    client.release();
  }
}

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

it.each(panels)("the queries of Grafana's panel $title run for a reader", async ({ queries }) => {
  for (const sql of queries) expect(sql).not.toMatch(/\$|mirror\.(?!\w*reporting)/);
  await runAs("order_mirror_reader", ...queries);
});

it("Grafana's query for the list of sources runs", async () => {
  expect((await database.pool.query(sourceQuery)).rows).toEqual([{ source_id: "live" }]);
});

it("docs/reporting.md has examples that run for a reader, and instructions that work for administrators", async () => {
  expect(EXAMPLES.length).toBeGreaterThanOrEqual(5);
  for (const query of EXAMPLES) await runAs("order_mirror_reader", query);
  expect(readBlocks("sql admin")).toHaveLength(3);
  for (const statements of readBlocks("sql admin"))
    await runAs(null, statements.replace("create role order_mirror_reader nologin;", ""));
});
