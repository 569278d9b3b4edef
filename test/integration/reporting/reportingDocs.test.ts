import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { readBlocks } from "../../support/mirror/reportingQueries.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
});
afterAll(() => database.drop());

describe("docs/reporting.md", () => {
  it("has example queries", () => {
    expect(readBlocks("sql").length).toBeGreaterThanOrEqual(5);
  });

  it.each(readBlocks("sql"))("has an example that runs for a reader: %s", async (query) => {
    const client = await database.pool.connect();
    try {
      await client.query("set role order_mirror_reader; set default_transaction_read_only = on");
      await expect(client.query(query)).resolves.toMatchObject({ command: "SELECT" });
    } finally {
      client.release(true);
    }
  });

  it("has working instructions for administrators", async () => {
    expect(readBlocks("sql admin")).toHaveLength(3);
    for (const statements of readBlocks("sql admin")) {
      const client = await database.pool.connect();
      try {
        await client.query("begin");
        await client.query(statements.replace("create role order_mirror_reader nologin;", ""));
        await client.query("rollback");
      } finally {
        client.release(true);
      }
    }
  });
});
