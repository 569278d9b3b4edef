import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { ALL_GROUPS, examineLogin, tellLacking } from "../../../src/database/logins/loginRights.ts";
import { parseRights, readRolesFile } from "../../../src/database/logins/roleRights.ts";
import { prepareLogin } from "../../../src/database/logins/serverLogins.ts";
import { runCommand } from "../../support/programs/command.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import type { OwnPostgres } from "../../support/servers/ownPostgres.ts";

const TIMEOUT = { timeout: 60_000 };
const PROCESSES = ["web", "worker", "poller"] as const;

/** A separate server: a role belongs to the whole server. */
let postgres: OwnPostgres;
let administrator: ReturnType<typeof makePool>;

beforeAll(async () => {
  postgres = await startOwnPostgres();
  administrator = makePool({ url: postgres.url, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  await administrator.query(await readRolesFile());
  for (const name of PROCESSES) {
    await administrator.query(`create role mirror_${name} login password 'x' in role order_mirror_${name}`);
  }
  await administrator.query(
    "create role stranger login password 'x'; grant usage on schema mirror to stranger",
  );
});
afterAll(async () => {
  await administrator.end();
  await postgres.remove();
});

function urlOf(login: string): string {
  const url = new URL(postgres.url);
  [url.username, url.password] = [login, "x"];
  return url.href;
}

async function examine(login: string, ...needs: Parameters<typeof examineLogin>[1]) {
  const pool = makePool({ url: urlOf(login), purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  try {
    return tellLacking(await examineLogin(pool, needs)).map(({ sentence }) => sentence);
  } finally {
    await pool.end();
  }
}

describe("a login's rights, compared with config/postgres-roles.sql", () => {
  it.each(PROCESSES)("are complete for %s, and a revoked one is reported", async (name) => {
    const login = `mirror_${name}`;
    expect(await examine(login, `order_mirror_${name}`)).toEqual([]);
    await administrator.query(`revoke insert on mirror.leases from order_mirror_${name}`);
    expect(await examine(login)).toEqual([`The login ${login} lacks rights: insert on mirror.leases.`]);
    await administrator.query(`grant insert on mirror.leases to order_mirror_${name}`);
  });

  it("are reported when one to a schema, a column or a table is missing", async () => {
    await administrator.query(`revoke usage on schema bullmq from order_mirror_worker;
      revoke update on mirror.inbox from order_mirror_worker; revoke update (body) on mirror.inbox from order_mirror_worker;
      revoke select on mirror.feed from order_mirror_worker`);
    expect(await examine("mirror_worker")).toEqual([
      "The login mirror_worker lacks rights: select on mirror.feed, update (body) on mirror.inbox, usage on bullmq.",
    ]);
    await runCommand(["migrate", "--roles"], { databaseUrl: postgres.url });
    expect(await examine("mirror_worker")).toEqual([]);
  });

  it("are reported with the missing group that a configuration needs", async () => {
    expect(await examine("mirror_worker", "order_mirror_worker", "order_mirror_retention")).toEqual([
      "The login mirror_worker is not a member of order_mirror_retention.",
    ]);
  });
});

it("a missing group comes with a statement that grants it, whatever the name of the login", async () => {
  const login = 'Shop-"web"';
  const quoted = pg.escapeIdentifier(login);
  await administrator.query(
    `create role ${quoted} login password 'x'; grant usage on schema mirror to ${quoted}`,
  );
  const pool = makePool({ url: urlOf(login), purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  const tell = async () => tellLacking(await examineLogin(pool, ["order_mirror_web"]));
  for (const { fix } of await tell()) await administrator.query(fix.replace("psql, as the owner: ", ""));
  expect(await tell()).toEqual([]);
  await pool.end();
});

describe("a process on the embedded server", () => {
  it("has its own login with exactly the rights of its groups", async () => {
    const name = "mirror_up";
    const urls = await Promise.all(
      [1, 2].map(() => prepareLogin(postgres.url, { name, groups: ALL_GROUPS })),
    );
    expect(urls[0]).toBe(urls[1]);
    const pool = makePool({ url: urls[0] ?? "", purpose: "test", max: 1, statementTimeoutMs: 10_000 });
    expect(tellLacking(await examineLogin(pool, ALL_GROUPS))).toEqual([]);
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
});

it("doctor checks the rights of its login", TIMEOUT, async () => {
  const findings = async (login: string) => {
    const { stdout } = await runCommand(["doctor", "--json"], { databaseUrl: urlOf(login) });
    const report = JSON.parse(stdout) as { findings: { check: string; level: string; sentence: string }[] };
    expect(report.findings.filter(({ sentence }) => sentence.includes("The check failed"))).toEqual([]);
    return report.findings.filter(({ check }) => check === "login");
  };
  expect(await findings("mirror_web")).toMatchObject([
    { level: "ok", sentence: "mirror_web has the rights of order_mirror_web." },
  ]);
  await administrator.query("revoke insert on mirror.inbox from order_mirror_web");
  expect(await findings("mirror_web")).toMatchObject([{ level: "problem" }]);
  await administrator.query("grant insert on mirror.inbox to order_mirror_web");
});

it("every grant and revocation of the file is parsed", async () => {
  const sql = await readRolesFile();
  const statements = sql.replaceAll(/--.*$/gm, "").match(/^(?:grant|revoke)\b/gm) ?? [];
  const rights = parseRights(sql);
  expect(statements.length).toBeGreaterThan(20);
  for (const right of rights) {
    expect(right).toEqual({
      role: expect.stringMatching(/^order_mirror_\w+$/),
      kind: expect.stringMatching(/^(?:schema|table|sequence)$/),
      object: expect.stringMatching(/^\w+(?:\.(?:\w+|\*))?$/),
      except: expect.any(Array),
      privilege: expect.stringMatching(/^(?:select|insert|update|delete|usage)$/),
      column: right.column,
    });
  }
  // Compares the number of statements, so that none with another syntax is skipped silently.
  expect(
    sql.replaceAll(/--.*$/gm, "").match(/^(?:grant|revoke) [\s\S]+? on [\s\S]+? (?:to|from) [\s\S]+?;/gm),
  ).toHaveLength(statements.length);
});
