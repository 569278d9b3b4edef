import pg from "pg";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { endAction } from "../../../src/database/auditLog.sql.ts";
import { makePool } from "../../../src/database/database.ts";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import {
  ALL_GROUPS,
  listLostSettings,
  prepareLogin,
  readLogin,
  describeMissingGroups,
} from "../../../src/database/logins.ts";
import { migrate } from "../../../src/database/migrations.ts";
import {
  planTest,
  removeEndpoint,
  sendNow,
  setEndpointPaused,
} from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { createDatabase, withDatabase, TEMPLATE_DATABASE } from "../../support/servers/database.ts";
import { runCommand } from "../../support/programs/command.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";

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

/** A connection that ends with the test. */
function open(url: string) {
  const pool = makePool({ url, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  return pool;
}

const READS_THE_FEED = [
  "begin_feed_epoch",
  "feed_fence",
  "feed_place",
  "newest_feed_position",
  "server_identity",
];
const APPLIES = ["find_breaches", "follow_up", "proved_until"];
/** The functions of the schema mirror that each role may execute, besides those that only convert their arguments. */
const EXECUTABLE = {
  order_mirror_web: [...READS_THE_FEED, "explain_incomplete", "record_sources"],
  order_mirror_worker: [...READS_THE_FEED, ...APPLIES, "record_sources", "under_way"],
  order_mirror_poller: [...READS_THE_FEED, ...APPLIES, "record_sources", "withdraw_proof"],
  order_mirror_retention: [],
  order_mirror_reader: ["require_day"],
};
const CONVERTS =
  "cast_time change_digest instant_at is_open last_digit nanos_of plain_value read_time readable_json redact_order " +
  "replace_unreadable same_instant time_value";

it("each role may execute the functions that it needs, and no other", async () => {
  const list = async (grantee: string) => {
    const { rows } = await administrator.query<{ name: string }>(
      `select distinct proname::text as name
       from pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) as granted
       where pronamespace = 'mirror'::regnamespace and granted.privilege_type = 'EXECUTE'
         and granted.grantee = coalesce(to_regrole($1)::oid, 0)`,
      [grantee],
    );
    return new Set(rows.map(({ name }) => name));
  };
  expect(await list("public")).toEqual(new Set(CONVERTS.split(" ")));
  for (const [role, functions] of Object.entries(EXECUTABLE))
    expect({ role, functions: await list(role) }).toEqual({ role, functions: new Set(functions) });
});

/** What web, which strangers can reach, may write: each is needed by its receiver, its router, or a button of its pages. */
const WRITABLE_BY_WEB = [
  "alerts: delete, insert, update",
  "calls: delete, insert, update",
  "inbox: insert",
  "leases: insert, update",
  "ops_actions: insert, update affected",
  "ops_sessions: delete, insert, update",
  "outgoing_deliveries: delete, insert endpoint_id event_type source_id, update attempts created_at delivered_at delivery_id next_attempt_at state",
  "outgoing_endpoints: delete, update paused_at resumed_at",
  "pending: insert",
  "period_requests: insert",
  "quarantine: delete, update",
  "refetches: insert, update",
  "sources: update paused_at receives_events resumed_at",
];

it("web may write what its pages and addresses need, and no other column", async () => {
  const { rows } = await administrator.query<{ right: string }>(
    `with granted as (
       select relname, lower(privilege_type) as does, array[]::text[] as columns
       from pg_class c, aclexplode(relacl) where relnamespace = 'mirror'::regnamespace
         and grantee = 'order_mirror_web'::regrole and relkind = 'r' and privilege_type <> 'SELECT'
       union all
       select relname, lower(privilege_type), array_agg(attname::text order by attname)
       from pg_class c join pg_attribute a on attrelid = c.oid, aclexplode(attacl)
       where relnamespace = 'mirror'::regnamespace and grantee = 'order_mirror_web'::regrole
       group by relname, privilege_type
     )
     select relname || ': ' || string_agg(concat_ws(' ', does, nullif(array_to_string(columns, ' '), '')), ', ' order by does)
       as right
     from granted group by relname order by relname`,
  );
  expect(rows.map(({ right }) => right)).toEqual(WRITABLE_BY_WEB);
});

it("web sends again what was given up, and can neither end a message nor put it off", async () => {
  const pool = open(urlOf("mirror_web"));
  await administrator.query(
    "insert into mirror.outgoing_endpoints (endpoint_id, source_ids) values ('erp', '{live}')",
  );
  await administrator.query(
    `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, event_type, state)
     values ('erp', 'live', 1, 'order.new', 'dead'), ('erp', 'live', 2, 'order.new', 'pending')`,
  );
  for (const change of [
    "state = 'delivered'",
    "state = 'dead'",
    "next_attempt_at = now() + interval '1 hour'",
  ]) {
    const written = pool.query(`update mirror.outgoing_deliveries set ${change} where state = 'pending'`);
    await expect(written).rejects.toMatchObject({ code: "42501" });
  }
  await administrator.query(
    "update mirror.outgoing_deliveries set next_attempt_at = 'infinity' where state = 'pending'",
  );
  const add = "insert into mirror.outgoing_deliveries (endpoint_id, source_id, event_type)";
  await expect(pool.query(`${add} values ('erp', 'live', 'order.new')`)).rejects.toMatchObject({
    code: "42501",
  });
  expect((await pool.query("delete from mirror.outgoing_deliveries")).rowCount).toBe(0);
  expect(await sendNow(pool, "erp", "dead")).toBe(1);
  expect(await sendNow(pool, "erp", "pending")).toBe(1);
  for (const _twice of [1, 2]) expect(await planTest(pool, "erp")).toBe(true);
  for (const paused of [true, false])
    expect(await setEndpointPaused(pool, { endpointId: "erp", paused })).toBe(true);
  await administrator.query("update mirror.outgoing_endpoints set listed_at = '-infinity'");
  expect(await removeEndpoint(pool, "erp")).toBe(true);
  expect((await administrator.query("select from mirror.outgoing_deliveries")).rowCount).toBe(0);
});

it("web leads alerting alone, ends an action once, and leaves the provider of a source", async () => {
  const pool = open(urlOf("mirror_web"));
  const record = (provider: string) =>
    pool.query("select mirror.record_sources($1, $2, $3, $3)", [["live"], ["live"], [provider]]);
  await record("https://one.example");
  await administrator.query(
    "insert into mirror.poll_state (source_id, history_since, safe_through) values ('live', 1, 2)",
  );
  await record("https://other.example");
  expect((await pool.query("select provider from mirror.sources")).rows).toEqual([
    { provider: "https://one.example" },
  ]);
  await expect(pool.query("update mirror.sources set provider = 'x'")).rejects.toMatchObject({
    code: "42501",
  });
  const lead = (name: string) => acquireLease(pool, { name, holder: "web", ttlMs: 60_000 });
  expect(await lead("alerting")).toMatchObject({ name: "alerting" });
  await expect(lead("poll:live")).rejects.toMatchObject({ code: "42501" });
  await administrator.query("insert into mirror.leases values ('poll:live', 'poller', 1, now(), '')");
  const takenOver = await pool.query(
    "update mirror.leases set expires_at = 'infinity' where name = 'poll:live'",
  );
  expect(takenOver.rowCount).toBe(0);
  const { rows } = await pool.query<{ id: string }>(
    "insert into mirror.ops_actions (role, action) values ('operator', 'refetch') returning action_id as id",
  );
  for (const affected of [3, 0]) await endAction(pool, { actionId: rows[0]?.id ?? "", affected });
  expect((await pool.query("select affected::int from mirror.ops_actions")).rows).toEqual([{ affected: 3 }]);
});

it("what a restore loses is named by doctor, and restored by migrate --roles", async () => {
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
  const sound = await doctor();
  expect(sound).not.toMatch(/lost settings|The check failed/);
  expect(sound).toContain("mirror_web has the rights of order_mirror_web.");
});

it("a second mirror on the server, which gave no roles rights, has lost nothing", async () => {
  await createDatabase(postgres.url, "second");
  const url = withDatabase(postgres.url, "second");
  await migrate(url);
  expect(await listLostSettings(open(url))).toEqual([]);
});

it("a missing group comes with a statement that grants it, whatever the name of the login", async () => {
  const login = 'Shop-"web"';
  const quoted = pg.escapeIdentifier(login);
  await administrator.query(
    `create role ${quoted} login password 'x'; grant usage on schema mirror to ${quoted};
     grant connect on database ${TEMPLATE_DATABASE} to ${quoted}`,
  );
  const pool = open(urlOf(login));
  const tell = async () => describeMissingGroups(await readLogin(pool), ["order_mirror_web"]);
  const lacks = await tell();
  const sentence = `The login ${login} is not a member of order_mirror_web.`;
  expect(lacks).toMatchObject([{ sentence }]);
  for (const { fix } of lacks) await administrator.query(fix.replace("psql, as the owner: ", ""));
  expect(await tell()).toEqual([]);
});

it("a process on the embedded server has its own login with exactly the rights of its groups", async () => {
  const name = "mirror_up";
  const urls = await Promise.all([1, 2].map(() => prepareLogin(postgres.url, { name, groups: ALL_GROUPS })));
  expect(urls[0]).toBe(urls[1]);
  const pool = open(urls[0] ?? "");
  expect(describeMissingGroups(await readLogin(pool), ALL_GROUPS)).toEqual([]);
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
  const stranger = open(withDatabase(urls[0] ?? "", "postgres"));
  await expect(stranger.query("create temporary table t (a int)")).rejects.toMatchObject({ code: "42501" });
  // In a database that was restored from a dump, everybody has this right again, and the processes have no other.
  const locks = "execute on function pg_advisory_xact_lock_shared(integer, integer)";
  await administrator.query(`grant ${locks} to public; revoke ${locks} from ${ALL_GROUPS.join(", ")}`);
  // The processes need some rights that readers lack.
  await administrator.query("call mirror.prepare_reader()");
  await pool.query("create temporary table moved (a int)");
  await pool.query("select pg_advisory_xact_lock_shared(1, 1), pg_logical_emit_message(true, 'x', '')");
});
