import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readMigrations } from "../../../src/database/schema/migrationFiles.ts";
import {
  judgeStatement,
  planMigrations,
  splitStatements,
} from "../../../src/database/schema/migrationPlan.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await makeTestDatabase();
  client = new pg.Client(database.url);
  await client.connect();
  await client.query("create table here (a int not null, b text); create table there (a int primary key)");
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

const BLOCKS: Record<string, string> = {
  AccessExclusiveLock: "reads and writes",
  ExclusiveLock: "writes",
  ShareRowExclusiveLock: "writes",
  ShareLock: "writes",
};

/** What the statement blocks, according to the locks that Postgres reports. */
async function readLocks(statement: string): Promise<Record<string, string>> {
  await client.query("begin");
  try {
    await client.query(statement);
    const { rows } = await client.query<{ table: string; mode: string }>(
      `select relation::regclass::text as "table", mode from pg_locks
       where pid = pg_backend_pid() and relation in ('here'::regclass, 'there'::regclass) order by mode`,
    );
    const strong = rows.filter(({ mode }) => BLOCKS[mode] !== undefined);
    // Of two locks on a table, the name of the stronger one sorts first.
    return Object.fromEntries(strong.reverse().map(({ table, mode }) => [table, BLOCKS[mode] ?? ""]));
  } finally {
    await client.query("rollback");
  }
}

describe("the predicted locks of a statement match those that Postgres takes", () => {
  it.each([
    "alter table here add column c int",
    "alter table here alter column a type bigint",
    "alter table here add constraint positive check (a > 0)",
    "alter table here add constraint known foreign key (a) references there (a)",
    "create index on here (a)",
    "create unique index here_a on here (a)",
    "create table new_one (a int references there)",
    "create trigger t before update on here for each row execute function suppress_redundant_updates_trigger()",
    "update here set b = 'x;y'",
    "insert into here select 1, 'x'",
    "delete from here where a = 1",
    "comment on table here is 'it''s'",
    "create view seen as select a from here",
    "truncate here",
    "drop table here",
    "create or replace function f() returns int language sql as $$ select 1; $$",
  ])("%s", async (sql) => {
    const [statement = "", ...more] = splitStatements(sql);
    expect(more).toEqual([]);
    const judged = (judgeStatement(statement) ?? []).filter(({ blocks }) => blocks !== "nothing");
    const planned = Object.fromEntries(judged.map(({ table, blocks }) => [table, blocks]));
    const held =
      sql === "drop table here" || sql === "truncate here"
        ? { here: "reads and writes" }
        : await readLocks(sql);
    expect(planned).toEqual(held);
  });
});

it("classifies every statement of every migration", async () => {
  const plan = planMigrations(await readMigrations());
  expect(plan.flatMap(({ unjudged }) => unjudged)).toEqual([]);
  expect(plan[0]?.locks).toEqual([]);
});

it(
  "migrate --plan lists the pending migrations and their locks, and runs nothing",
  { timeout: 120_000 },
  async () => {
    await client.query("delete from order_mirror_migrations where name like '0003%'");
    const { stdout, code } = await runCommand(["migrate", "--plan"], { databaseUrl: database.url });
    expect(code).toBe(0);
    expect(stdout).toMatch(/^0003_outgoing\b/m);
    const { rowCount } = await client.query("select from order_mirror_migrations where name like '0003%'");
    expect(rowCount).toBe(0);
  },
);
