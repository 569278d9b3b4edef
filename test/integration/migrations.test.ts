import pg from "pg";
import { expect, it } from "vitest";
import { migrate, pendingMigrations } from "../../src/database/migrations.ts";
import { createDatabase, withDatabase } from "../support/createDatabase.ts";
import { findTestServer } from "../support/database.ts";

it("runs each migration once, names what is lacking, and accepts a database that is ahead of this release", async () => {
  const serverUrl = findTestServer();
  const name = `migrations_${process.pid}`;
  await createDatabase(serverUrl, name);
  const url = withDatabase(serverUrl, name);
  const all = await pendingMigrations(url);
  expect(all[0]).toBe("0001_mirror");
  expect(await migrate(url)).toEqual(all);
  expect(await migrate(url)).toEqual([]);
  expect(await pendingMigrations(url)).toEqual([]);

  const client = new pg.Client(url);
  await client.connect();
  await client.query(
    `insert into order_mirror_migrations (name, batch, migration_time) values ('9999_later', 9, now())`,
  );
  expect(await pendingMigrations(url)).toEqual([]);
  expect(await migrate(url)).toEqual([]);
  await client.end();
});

it("explains every table of the mirror in the catalogue", async () => {
  const client = new pg.Client(withDatabase(findTestServer(), "order_mirror_template"));
  await client.connect();
  const { rows } = await client.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'mirror' and c.relkind in ('r', 'p') and obj_description(c.oid) is null`,
  );
  await client.end();
  expect(rows).toEqual([]);
});
