import pg from "pg";
import { createDatabase, runOnServer, withDatabase } from "./createDatabase.ts";
import { startOwnPostgres } from "./ownPostgres.ts";
import { runProgram } from "../programs/program.ts";

const PASSWORD = "a password of the tests";
const DATABASE = "mirror_of_roles";
/** The server begins each statement and each error with the login, so that the log can be read by login. */
const LOG_PREFIX = "%u|";

export const PROCESSES = ["web", "worker", "poller"] as const;
export type ProcessName = (typeof PROCESSES)[number];
export type Login = ProcessName | "owner" | "reader";

/** A server whose mirror has an owner without further rights, and a login for each process. */
export interface RoleLogins {
  urlOf(who: Login): string;
  query(who: Login, sql: string): Promise<Record<string, unknown>[]>;
  /** As an administrator of the server. */
  administer(sql: string): Promise<void>;
  /** What the server refused a process. */
  listRefusals(): Promise<readonly string[]>;
  /** The rights that the group of a process has and that no statement of the process has needed yet, as `insert on mirror.x`. */
  listUnusedWrites(who: ProcessName): Promise<readonly string[]>;
  remove(): Promise<void>;
}

export async function makeRoleLogins(): Promise<RoleLogins> {
  const server = await startOwnPostgres();
  const administer = (sql: string) => runOnServer(withDatabase(server.url, DATABASE), sql);
  const urlOf = (who: Login) => {
    const url = new URL(withDatabase(server.url, DATABASE));
    url.username = `mirror_${who}`;
    url.password = encodeURIComponent(PASSWORD);
    return url.href;
  };
  const query: RoleLogins["query"] = async (who, sql) => {
    const client = new pg.Client(urlOf(who));
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  };
  await runOnServer(server.url, `create role mirror_owner login createrole password '${PASSWORD}'`);
  await createDatabase(server.url, DATABASE);
  await runOnServer(server.url, `alter database ${DATABASE} owner to mirror_owner`);
  // Twice, because it runs again after every migration.
  for (let time = 1; time <= 2; time += 1)
    await runProgram(["migrate", "--roles"], { DATABASE_URL: urlOf("owner") });
  await administer(`alter system set log_line_prefix = '${LOG_PREFIX}'`);
  await administer("select pg_reload_conf()");
  for (const name of PROCESSES) {
    await administer(`create role mirror_${name} login password '${PASSWORD}' in role order_mirror_${name}`);
    await administer(`alter role mirror_${name} set log_statement = 'all'`);
  }
  await administer(`create role mirror_reader login password '${PASSWORD}' in role order_mirror_reader`);
  await administer("grant order_mirror_retention to mirror_worker");
  await administer("grant pg_signal_backend, pg_read_all_stats to mirror_worker");

  const readEntries = async (who: ProcessName) => {
    const log = await server.readLog();
    const entries = log.split(/^(?=mirror_\w+\|)/m);
    return entries.filter((entry) => entry.startsWith(`mirror_${who}|`));
  };
  return {
    urlOf,
    query,
    administer,
    async listRefusals() {
      const entries = (await Promise.all(PROCESSES.map(readEntries))).flat();
      return [...new Set(entries.filter((entry) => /permission denied|must be owner/.test(entry)))];
    },
    async listUnusedWrites(who) {
      const entries = (await readEntries(who)).join("\n");
      // No log shows what a function does with its caller's rights.
      const functions = await query(
        "owner",
        "select proname as name, prosrc as body from pg_proc where pronamespace = 'mirror'::regnamespace and not prosecdef",
      );
      const called = functions.filter(({ name }) => entries.includes(`mirror.${String(name)}(`));
      const used = listWrites([entries, ...called.map(({ body }) => String(body))].join("\n"));
      const given = await query(
        "owner",
        `select distinct lower(privilege_type) || ' on mirror.' || relname as right
         from pg_class c left join pg_attribute t on t.attrelid = c.oid and t.attacl is not null,
           lateral (select * from aclexplode(c.relacl) union all select * from aclexplode(t.attacl)) a
         where c.relnamespace = 'mirror'::regnamespace and c.relkind in ('r', 'p')
           and privilege_type in ('INSERT', 'UPDATE', 'DELETE') and grantee = 'order_mirror_${who}'::regrole
         order by 1`,
      );
      return given.map(({ right }) => String(right)).filter((right) => !used.has(right));
    },
    remove: () => server.remove(),
  };
}

/** What statements write, as `insert on mirror.x`; one that inserts or else updates does both. */
function listWrites(statements: string): ReadonlySet<string> {
  const writes = statements.matchAll(/(insert into|delete from|(?<!do )(?<!for )update)\s+(mirror\.\w+)/g);
  const upserts = statements.matchAll(/insert into\s+(mirror\.\w+)(?:(?!insert into)[\s\S])*?do update/g);
  return new Set([
    ...[...writes].map(([, verb = "", table = ""]) => `${verb.split(" ")[0]} on ${table}`),
    ...[...upserts].map(([, table = ""]) => `update on ${table}`),
  ]);
}
