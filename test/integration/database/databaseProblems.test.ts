import { connect, createServer, type AddressInfo } from "node:net";
import pg from "pg";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { runCommand } from "../../support/programs/command.ts";
import { runProgram } from "../../support/programs/program.ts";
import { makeEmptyDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { canStartPgBouncer, startPgBouncer } from "../../support/servers/pgBouncer.ts";

const ACCOUNT = "order_mirror_newcomer";

const { database } = await openTestDatabase();

await database.pool.query(`create role ${ACCOUNT} login password 'p@ss/word#1'`);
const url = new URL(database.url);
url.username = ACCOUNT;
url.password = encodeURIComponent("p@ss/word#1");
const newcomerUrl = url.href;

afterAll(async () => {
  await database.pool.query(`drop owned by ${ACCOUNT}`);
  await database.pool.query(`drop role ${ACCOUNT}`);
});

/** Exits with one sentence and one fix, without internals of a library. */
async function migrate(databaseUrl: string) {
  const { code, stderr } = await runCommand(["migrate"], { databaseUrl });
  const lines = stderr.trim().split("\n");
  expect(lines).toHaveLength(2);
  expect(stderr).not.toMatch(/knex|unlock|LOG_LEVEL|p@ss|word#1/);
  return { code, sentence: lines[0], fix: lines[1] };
}

async function setAccount(setting: string): Promise<void> {
  await database.pool.query(`alter role ${ACCOUNT} ${setting}`);
}

describe("a database problem is reported with its cause and a fix", () => {
  it("an account without rights", async () => {
    const failure = await migrate(newcomerUrl);
    expect(failure.sentence).toMatch(/denies this account: permission denied for \w+/);
    expect(failure.fix).toContain("as the owner of the database");
    expect(failure.code).toBe(2);
  });

  it("a read-only server", async () => {
    await database.pool.query(`grant all on all tables in schema public to ${ACCOUNT}`);
    // Only the owner of the mirror may take the migrations' lock; the server refuses the writes after it.
    await database.pool.query(`grant execute on function pg_advisory_lock(bigint) to ${ACCOUNT}`);
    await setAccount("set default_transaction_read_only = on");
    const failure = await migrate(newcomerUrl);
    await setAccount("reset default_transaction_read_only");
    expect(failure.sentence).toMatch(/is read-only, as a standby is\.$/);
    expect(failure.fix).toContain("DATABASE_URL at the primary");
    expect(failure.code).toBe(2);
  });

  it("a server that is too old", async () => {
    await database.pool.query(
      `create schema older; grant usage on schema older to ${ACCOUNT};
       create function older.current_setting(text) returns text return '130018'`,
    );
    // The account's search path finds this function before the server's own.
    await setAccount("set search_path = older, pg_catalog, public");
    const failure = await migrate(newcomerUrl);
    await setAccount("reset search_path");
    expect(failure.sentence).toMatch(/is too old: version 13\.$/);
    expect(failure.fix).toContain("PostgreSQL 14 or newer");
    expect(failure.code).toBe(2);
  });

  it("no connection left", async () => {
    await setAccount("connection limit 0");
    const failure = await migrate(newcomerUrl);
    await setAccount("connection limit -1");
    expect(failure.sentence).toMatch(/accepts no more connections\.$/);
    expect(failure.code).toBe(75);
  });

  it("a connection that is lost while a process starts", async () => {
    const { hostname, port } = new URL(database.url);
    let connections = 0;
    const proxy = createServer((client) => {
      connections += 1;
      // The first one only finds out whether Postgres can be reached.
      if (connections > 1) return void client.destroy();
      const server = connect(Number(port), hostname);
      for (const socket of [client, server]) socket.on("error", () => undefined);
      client.pipe(server).pipe(client);
    });
    await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const proxied = new URL(database.url);
    proxied.port = String((proxy.address() as AddressInfo).port);
    const env = { DELIVERY_BASE_URL: "https://provider.example", DELIVERY_LIVE_API_KEY: "dos_live_key" };
    const { code, stderr } = await runProgram(["worker"], { DATABASE_URL: proxied.href, ...env });
    proxy.close();
    expect(connections).toBeGreaterThan(1);
    expect(stderr).toContain("order-mirror: A connection was lost during the start.\n  fix: Start");
    expect(code).toBe(75);
  });

  it("a database that goes away during a command", async () => {
    const { url: away, query } = await makeEmptyDatabase();
    const other = new pg.Client(away);
    await other.connect();
    onTestFinished(() => other.end());
    // The first migration waits for it.
    await other.query("begin; create schema mirror");
    const running = migrate(away);
    const end =
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    await expect.poll(() => query(end)).toHaveLength(1);
    expect(await running).toEqual({
      code: 75,
      sentence: "order-mirror: A connection was lost while the command ran.",
      fix: "  fix: Run it again; `order-mirror doctor` checks Postgres and the queue.",
    });
  });

  it("a host that does not exist, as a password that is not percent-encoded can name one", async () => {
    const { port, pathname } = new URL(database.url);
    const failure = await migrate(`postgres://${ACCOUNT}:p@nowhere.invalid:${port}${pathname}`);
    expect(failure.sentence).toContain("cannot be reached (");
    expect(failure.fix).toContain("In a password, write @ as %40");
    expect(failure.code).toBe(75);
  });

  it("a server without encryption when the address requires it", async () => {
    const failure = await migrate(`${database.url}?sslmode=require`);
    expect(failure.sentence).toMatch(
      /does not encrypt connections, and the sslmode in DATABASE_URL asks for it\.$/,
    );
    expect(failure.fix).toContain("remove sslmode");
    expect(failure.code).toBe(2);
  });

  it.runIf(canStartPgBouncer)("a pooler in transaction mode", async () => {
    const pooler = await startPgBouncer(database.url);
    const failure = await migrate(pooler.url);
    await pooler.stop();
    expect(failure.sentence).toContain("is a pooler that refuses a setting of the session");
    expect(failure.fix).toContain("DATABASE_DIRECT_URL");
    expect(failure.code).toBe(2);
  });
});

it("psql takes an address with what only other drivers know", async () => {
  const databaseUrl = `${database.url}?sslmode=disable&schema=mirror&pgbouncer=true&options=-c%20jit%3Doff`;
  const { code, stdout } = await runProgram(["psql", "-Atc", "show jit"], { DATABASE_URL: databaseUrl });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "off\n" });
});
