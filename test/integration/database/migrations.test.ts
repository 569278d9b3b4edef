import { describe, expect, it } from "vitest";
import { examineSchema, migrate, type Migration, type Step } from "../../../src/database/migrations.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeEmptyDatabase, runOnServer } from "../../support/servers/database.ts";

const makeMigration = (name: string, sql: string): Migration => ({
  name,
  sql,
  checksum: `checksum of ${sql}`,
});
const FIRST = makeMigration("0001_first", "create table first (a int)");
const SECOND = makeMigration("0002_second", "alter table first add column b int");

const kindsOf = async (url: string, migrations?: readonly Migration[]) =>
  (await examineSchema(url, migrations)).findings.map(({ kind }) => kind);

it("runs each migration once, though two do at the same time, and names the missing ones", async () => {
  const { url } = await makeEmptyDatabase();
  const { pending, findings } = await examineSchema(url);
  const all = pending.map(({ name }) => name);
  expect(all[0]).toBe("0001_mirror");
  expect(findings).toMatchObject([{ kind: "pending", fix: "Run `order-mirror migrate` first." }]);
  const ran = await Promise.all([migrate(url), migrate(url)]);
  expect(ran.toSorted((one, other) => other.length - one.length)).toEqual([all, []]);
  expect(await examineSchema(url)).toEqual({ pending: [], findings: [] });
});

it("runs a step once per text, after each migration, and always if it says so", async () => {
  const { url } = await makeEmptyDatabase();
  const ran: string[] = [];
  const step = (name: Step["name"], checksum: string, always = false): Step => ({
    name,
    checksum,
    always,
    run: async () => void ran.push(`${name} ${checksum}`),
  });
  const pass = async (migrations: Migration[], ...steps: Step[]) => {
    ran.length = 0;
    await migrate(url, { migrations, steps });
    return [...ran];
  };
  expect(await pass([FIRST], step("queue", "a"), step("roles", "b"))).toEqual(["queue a", "roles b"]);
  expect(await pass([FIRST], step("queue", "a"), step("roles", "c"))).toEqual(["roles c"]);
  expect(await pass([FIRST], step("queue", "a", true), step("roles", "c"))).toEqual(["queue a"]);
  expect(await pass([FIRST, SECOND], step("queue", "a"), step("roles", "c"))).toEqual(["queue a", "roles c"]);
});

it("reports a failed migration by name with Postgres' message, without its text", async () => {
  const { url } = await makeEmptyDatabase();
  const wrong = makeMigration("0002_wrong", "alter table nowhere add column b int");
  const failed: unknown = await migrate(url, { migrations: [FIRST, wrong] }).catch((error: unknown) => error);
  expect(failed).toMatchObject({
    name: "MigrationFailedError",
    message: 'The migration 0002_wrong failed and was rolled back: relation "nowhere" does not exist.',
  });
  // As after a run that was killed while it held the lock of knex.
  await runOnServer(url, "update order_mirror_migrations_lock set is_locked = 1");
  expect(await migrate(url, { migrations: [FIRST, SECOND] })).toEqual(["0002_second"]);
});

it("refuses a database whose schema `reporting` is somebody else's before it runs anything", async () => {
  const { url, query } = await makeEmptyDatabase();
  await examineSchema(url);
  await query("create schema reporting");
  await expect(migrate(url)).rejects.toThrow("The database has a schema `reporting` already");
  expect(await query("select from pg_class where relnamespace = 'public'::regnamespace")).toEqual([]);
});

it("migrates as an account whose search_path leaves out public, on a server that ends idle sessions", async () => {
  const { name, url, query } = await makeEmptyDatabase();
  await query(`alter database ${name} set search_path = nowhere`);
  await query(`alter database ${name} set idle_session_timeout = 500`);
  const slow = makeMigration("0002_slow", "select pg_sleep(1.5)");
  const known = [makeMigration("0001_first", "create table public.first (a int)"), slow];
  expect(await migrate(url, { migrations: known })).toEqual(["0001_first", "0002_slow"]);
  await query(`alter database ${name} reset idle_session_timeout`);
  expect(await kindsOf(url, known)).toEqual([]);
});

describe("an unexpected schema is reported", () => {
  const edited = { ...FIRST, checksum: "another" };
  const third = makeMigration("0003_third", "select 1");
  it.each([
    [
      "was edited after it ran",
      [FIRST],
      [edited, SECOND],
      ["edited", "pending"],
      "ran a different text of the migration 0001_first",
    ],
    [
      "this program lacks",
      [FIRST, SECOND],
      [FIRST, third],
      ["missing", "pending"],
      "ran the migration 0002_second",
    ],
  ])("a migration that %s", async (_, migrations, known, kinds, message) => {
    const { url } = await makeEmptyDatabase();
    await migrate(url, { migrations });
    expect(await kindsOf(url, known)).toEqual(kinds);
    await expect(migrate(url, { migrations: known })).rejects.toThrow(message);
    expect(await kindsOf(url, [...migrations, third])).toEqual(["pending"]);
  });

  it("a newer database, with which this program works", async () => {
    const { url } = await makeEmptyDatabase();
    await migrate(url, { migrations: [FIRST, SECOND] });
    expect(await kindsOf(url, [FIRST])).toEqual(["newer"]);
    expect(await migrate(url, { migrations: [FIRST] })).toEqual([]);
  });

  it("one that another program made, or a version without these records", async () => {
    const { url, query } = await makeEmptyDatabase();
    await query("create schema mirror");
    expect(await kindsOf(url, [FIRST])).toEqual(["foreign"]);
    await query("create table order_mirror_migrations (id serial primary key, name text)");
    expect(await kindsOf(url, [FIRST])).toEqual(["foreign"]);
    await expect(migrate(url, { migrations: [FIRST] })).rejects.toMatchObject({
      name: "ConfigurationError",
      fix: expect.stringContaining("use an empty database (another DATABASE_URL or DATA_DIR)"),
    });
  });

  it("by migrate, by doctor and at the start of a process, with one sentence and a fix each", async () => {
    const { url, query } = await makeEmptyDatabase();
    await runCommand(["migrate"], { databaseUrl: url });
    const [{ name } = {}] = await query("select name from order_mirror_migration_runs order by name limit 1");
    await query(`update order_mirror_migration_runs set checksum = 'x' where name = '${String(name)}'`);
    const sentence = `The database ran a different text of the migration ${String(name)}`;
    const env = { DELIVERY_BASE_URL: "http://127.0.0.1:9", DELIVERY_LIVE_API_KEY: "dos_live_0123456789" };
    for (const args of [["migrate"], ["worker"]]) {
      const { code, stderr } = await runCommand(args, { databaseUrl: url, env });
      expect([args, code, stderr]).toEqual([args, 2, expect.stringContaining(sentence)]);
      expect(stderr).toMatch(/\n {2}fix: Run the program version that migrated this database/);
    }
    const { stdout } = await runCommand(["doctor"], { databaseUrl: url });
    expect(stdout).toContain(sentence);
    expect(stdout).not.toContain("The check failed");

    await query("drop table order_mirror_migration_runs");
    const other = "The database holds a mirror that another program or another make of order-mirror created.";
    for (const args of [["status"], ["up"]]) {
      const { code, stderr } = await runCommand(args, { databaseUrl: url, env });
      expect([args, code, stderr]).toEqual([args, 2, expect.stringContaining(other)]);
      expect(stderr).toContain("polling fills it again");
    }
  });
});
