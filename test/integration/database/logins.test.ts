import pg from "pg";
import { afterAll, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import {
  ALL_GROUPS,
  listLostSettings,
  prepareLogin,
  readLogin,
  tellMissingGroups,
  type Group,
} from "../../../src/database/logins.ts";
import { runCommand } from "../../support/programs/command.ts";
import { TEMPLATE_DATABASE } from "../../support/servers/database.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";

const COMMANDS = { timeout: 180_000 };
const PROCESSES = ["web", "worker", "poller"] as const;

/** A separate server: a role belongs to the whole server. */
const postgres = await startOwnPostgres();
const administrator = makePool({ url: postgres.url, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
await runCommand(["migrate", "--roles"], { databaseUrl: postgres.url });
for (const name of PROCESSES) {
  await administrator.query(`create role mirror_${name} login password 'x' in role order_mirror_${name}`);
}
afterAll(async () => {
  await administrator.end();
  await postgres.remove();
});

function urlOf(login: string): string {
  const url = new URL(postgres.url);
  [url.username, url.password] = [login, "x"];
  return url.href;
}

it("a login that lacks a group that its configuration needs is named with its group, and no other", async () => {
  const examine = async (login: string, ...needs: Group[]) => {
    const pool = makePool({ url: urlOf(login), purpose: "test", max: 1, statementTimeoutMs: 10_000 });
    try {
      return tellMissingGroups(await readLogin(pool), needs).map(({ sentence }) => sentence);
    } finally {
      await pool.end();
    }
  };
  for (const name of PROCESSES) expect(await examine(`mirror_${name}`, `order_mirror_${name}`)).toEqual([]);
  expect(await examine("mirror_worker", "order_mirror_worker", "order_mirror_retention")).toEqual([
    "The login mirror_worker is not a member of order_mirror_retention.",
  ]);
});

it("what a restore loses is named by doctor, and restored by migrate --roles", COMMANDS, async () => {
  expect(await listLostSettings(administrator)).toEqual([]);
  // What is left of the database's own rights and settings when a dump is restored into a new one.
  await administrator.query(`alter database ${TEMPLATE_DATABASE} reset all`);
  await administrator.query(`update pg_database set datacl = null where datname = '${TEMPLATE_DATABASE}'`);
  await administrator.query(`revoke temporary on database ${TEMPLATE_DATABASE} from public`);
  const doctor = async () => (await runCommand(["doctor"], { databaseUrl: urlOf("mirror_web") })).stdout;
  const report = await doctor();
  expect(report).toContain("every login of the server may connect");
  expect(report).toContain("web and worker may not create temporary tables");
  expect(report).toContain("jit is not off");
  expect(report).toContain("Run `order-mirror migrate --roles` as the owner of the database.");
  await runCommand(["migrate", "--roles"], { databaseUrl: postgres.url });
  expect(await listLostSettings(administrator)).toEqual([]);
  expect(await doctor()).not.toContain("lost settings");
});

it("a missing group comes with a statement that grants it, whatever the name of the login", async () => {
  const login = 'Shop-"web"';
  const quoted = pg.escapeIdentifier(login);
  await administrator.query(
    `create role ${quoted} login password 'x'; grant usage on schema mirror to ${quoted};
     grant connect on database ${TEMPLATE_DATABASE} to ${quoted}`,
  );
  const pool = makePool({ url: urlOf(login), purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  const tell = async () => tellMissingGroups(await readLogin(pool), ["order_mirror_web"]);
  for (const { fix } of await tell()) await administrator.query(fix.replace("psql, as the owner: ", ""));
  expect(await tell()).toEqual([]);
  await pool.end();
});

it("a process on the embedded server has its own login with exactly the rights of its groups", async () => {
  const name = "mirror_up";
  const urls = await Promise.all([1, 2].map(() => prepareLogin(postgres.url, { name, groups: ALL_GROUPS })));
  expect(urls[0]).toBe(urls[1]);
  const pool = makePool({ url: urls[0] ?? "", purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  expect(tellMissingGroups(await readLogin(pool), ALL_GROUPS)).toEqual([]);
  const { rows } = await pool.query("select rolsuper from pg_roles where rolname = current_user");
  expect(rows).toEqual([{ rolsuper: false }]);
  for (const statement of [
    "select pg_read_file('/etc/passwd')",
    "copy mirror.sources to program 'true'",
    "create table mirror.x ()",
    "alter role mirror_up superuser",
    "set role postgres",
    "delete from mirror.orders",
  ]) {
    await expect(pool.query(statement)).rejects.toMatchObject({ code: "42501" });
  }
  const elsewhere = new URL(urls[0] ?? "");
  elsewhere.pathname = "/postgres";
  const stranger = makePool({ url: elsewhere.href, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  await expect(stranger.query("create temporary table t (a int)")).rejects.toMatchObject({ code: "42501" });
  await stranger.end();
  // In a database that was restored from a dump, everybody has this right again, and the processes have no other.
  const locks = "execute on function pg_advisory_xact_lock_shared(integer, integer)";
  await administrator.query(`grant ${locks} to public; revoke ${locks} from ${ALL_GROUPS.join(", ")}`);
  // The processes need some rights that readers lack.
  await administrator.query("call mirror.prepare_reader()");
  await pool.query("create temporary table moved (a int)");
  await pool.query("select pg_advisory_xact_lock_shared(1, 1), pg_logical_emit_message(true, 'x', '')");
  await pool.end();
});

it("doctor checks the rights of its login", COMMANDS, async () => {
  const findings = async (login: string) => {
    const { stdout } = await runCommand(["doctor", "--json"], { databaseUrl: urlOf(login) });
    const report = JSON.parse(stdout) as { findings: { check: string; level: string; sentence: string }[] };
    expect(report.findings.filter(({ sentence }) => sentence.includes("The check failed"))).toEqual([]);
    return report.findings.filter(({ check }) => check === "login");
  };
  expect(await findings("mirror_web")).toMatchObject([
    { level: "ok", sentence: "mirror_web has the rights of order_mirror_web." },
  ]);
});
