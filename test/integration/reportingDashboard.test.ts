import { readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";

interface Dashboard {
  readonly templating: { readonly list: readonly { readonly query: string; readonly type: string }[] };
  readonly panels: readonly {
    readonly title: string;
    readonly targets: readonly { readonly rawSql: string }[];
  }[];
}

const FILE = path.resolve(import.meta.dirname, "../../config/grafana/order-mirror-reporting.json");
const { panels, templating } = JSON.parse(readFileSync(FILE, "utf8")) as Dashboard;

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterAll(() => database.drop());

/** What Grafana makes of its macros. */
const expand = (sql: string) =>
  sql
    .replaceAll("${source:sqlstring}", "'live','test'")
    .replaceAll(/\$__timeFilter\((\w+)\)/g, "$1 between now() - interval '1 day' and now()")
    .replaceAll(/\$__timeGroupAlias\((\w+), ?\$__interval\)/g, "date_bin('5 min', $1, 'epoch') as time");

it.each(panels.map(({ title, targets }) => [title, targets] as const))(
  "the panel %s asks what the reporting schema can answer, as its reader",
  async (_title, targets) => {
    for (const { rawSql } of targets) {
      const sql = expand(rawSql);
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
  },
);

it("the list of sources can be read", async () => {
  const query = templating.list.find(({ type }) => type === "query")?.query ?? "";
  expect((await database.pool.query(query)).rows).toEqual([]);
});
