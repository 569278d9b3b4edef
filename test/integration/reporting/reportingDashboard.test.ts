import { afterAll, beforeAll, expect, it } from "vitest";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { readDashboard } from "../../support/mirror/reportingQueries.ts";

const { panels, sourceQuery } = readDashboard();

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterAll(() => database.drop());

it.each(panels)("the queries of panel $title run for a reader", async ({ queries }) => {
  for (const sql of queries) {
    expect(sql).not.toMatch(/\$|mirror\.(?!\w*reporting)/);
    const client = await database.pool.connect();
    try {
      await client.query("begin; set local role order_mirror_reader");
      await client.query(sql);
    } finally {
      await client.query("rollback");
      client.release();
    }
  }
});

it("the query for the list of sources runs", async () => {
  expect((await database.pool.query(sourceQuery)).rows).toEqual([]);
});
