import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readCatalogue } from "../../support/mirror/catalogue.ts";
import { renewDescription } from "../../support/mirror/describeCatalogue.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { readBlocks, REPORTING_DOCUMENT } from "../../support/mirror/reportingQueries.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
});
afterAll(() => database.drop());

describe("docs/reporting.md", () => {
  // Run with -u to update the file after a comment has changed.
  it("matches the comments in the database", async () => {
    const catalogue = await readCatalogue(database.pool);
    expect(catalogue.length).toBeGreaterThan(8);
    const document = await readFile(REPORTING_DOCUMENT, "utf8");
    await expect(renewDescription(document, catalogue)).toMatchFileSnapshot(REPORTING_DOCUMENT);
  });

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
