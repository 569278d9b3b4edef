import PQueue from "p-queue";
import pg from "pg";
import { inTransaction } from "../../database/transaction.ts";
import { UnavailableError } from "../../domain/errors.ts";
import type { Instant } from "../../domain/order/instant.ts";

export type Pool = pg.Pool;
/** Connection of a statement: the pool, or that of a transaction. */
export type Connection = Pick<pg.ClientBase, "query">;

/** Most connections; one of them only holds the lock on the world. */
const CONNECTIONS_MAX = 9;
const INT8_OID = 20;

/** Makes the pool of one sandbox. `bigint` columns are returned as bigint. */
export function makeSandboxPool(databaseUrl: string): Pool {
  const types = new pg.TypeOverrides();
  types.setTypeParser(INT8_OID, BigInt);
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: "order-mirror sandbox",
    max: CONNECTIONS_MAX,
    types,
  });
  // What uses a connection that breaks rejects, and the next use replaces it. Without listeners it would end the
  // process.
  pool.on("error", ignore).on("connect", (client) => client.on("error", ignore));
  return pool;
}

/** Nanoseconds exceed JSON's safe integers, so bigints are sent as text. */
export function writeJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === "bigint" ? String(member) : member,
  );
}

/** The column that keeps a field: `event_id` keeps `eventId`. */
const columnOf = (field: string) => field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const fieldOf = (column: string) =>
  column.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/** Writes rows as JSON for jsonb_populate_recordset. */
export function writeRows(rows: readonly object[]): string {
  return writeJson(
    rows.map((row) =>
      Object.fromEntries(Object.entries(row).map(([field, value]) => [columnOf(field), value as unknown])),
    ),
  );
}

/** Runs a statement that returns rows; each column becomes a field. */
export async function readRows<Row>(
  connection: Connection,
  statement: string | pg.QueryConfig,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const config = typeof statement === "string" ? { text: statement, values: [...values] } : statement;
  const result = await connection.query<unknown[]>({ ...config, rowMode: "array" });
  const fields = result.fields.map(({ name }) => fieldOf(name));
  return result.rows.map((cells) => {
    // Filled in a loop: a list of orders has thousands of cells, and entries cost ten times as much.
    const row: Record<string, unknown> = {};
    for (const [index, field] of fields.entries()) row[field] = cells[index];
    return row as Row;
  });
}

/** The next `count` numbers of a sequence. */
export async function takeNumbers(
  connection: Connection,
  sequence: "order_number" | "event_number",
  count: number,
): Promise<bigint[]> {
  const text = `select nextval('sandbox.${sequence}') as number from generate_series(1, $1) order by number`;
  return (await readRows<{ number: bigint }>(connection, text, [count])).map(({ number }) => number);
}

/** Runs one piece of work in a transaction; see makeWriter. */
export type Write = <Result>(work: (connection: Connection) => Promise<Result>) => Promise<Result>;

/** Serialises all changes: no two requests race for an externalOrderId, and a seeded run repeats exactly. */
export function makeWriter(pool: Pool): Write {
  const turns = new PQueue({ concurrency: 1 });
  return (work) => turns.add(() => inTransaction(pool, work));
}

const ignore = () => undefined;

/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_001;
const LOCK_WAIT = "2s";
const LOCK_NOT_AVAILABLE = "55P03";

/**
 * Locks the database for this sandbox, which holds parts of the world in memory. Resolves to a function that releases
 * the lock. Throws UnavailableError if the database cannot be reached or another sandbox uses it. The lock of a killed
 * sandbox ends as soon as the server notices.
 */
export async function holdWorld(pool: Pool): Promise<() => void> {
  const client = await pool.connect().catch((cause: unknown) => {
    const fix = "Check that the server in DATABASE_URL is up and accepts this user.";
    throw new UnavailableError("The sandbox cannot reach its database.", { cause, fix });
  });
  try {
    await client.query(`set lock_timeout = '${LOCK_WAIT}'`);
    await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
    // Closed, not returned to the pool: the lock belongs to the connection.
    return () => client.release(true);
  } catch (error) {
    client.release(true);
    if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE) throw error;
    const fix = "Stop it, or give this one its own database.";
    throw new UnavailableError("Another sandbox uses this database.", { cause: error, fix });
  }
}

/** Increment with every change of SCHEMA_SQL: a sandbox that finds another version drops its state and starts fresh. */
const SCHEMA_VERSION = 13;

/**
 * The sandbox's own state. It is in code, not with the product's migrations: it is disposable, and a program that runs
 * against a real provider must never create it. All times are bigint nanoseconds since 1970 (UTC).
 */
const SCHEMA_SQL = `
create schema sandbox;
comment on schema sandbox is 'State of the sandbox, a stand-in for the provider. Not part of the mirror.';

create table sandbox.world (
  one_row        boolean primary key default true check (one_row),
  schema_version integer not null,
  seed           integer not null,
  clock_now      bigint,
  -- Not jsonb, which would change the order of members.
  directory      json not null
);

create sequence sandbox.order_number as bigint;
create sequence sandbox.event_number as bigint;

create table sandbox.orders (
  number            bigint primary key,
  organization_id   text not null,
  livemode          boolean not null,
  reference         text not null,
  external_order_id text,
  origin            text not null,
  status            text not null,
  branch_id         uuid not null,
  zone_code         text not null,
  first_name        text not null,
  phone             text not null,
  street            text not null,
  city              text not null,
  postcode          text not null,
  latitude          float8 not null,
  longitude         float8 not null,
  distance_km       float8 not null,
  schedule_mode     text not null,
  basis             text not null,
  pickup_time       bigint not null,
  delivery_time     bigint not null,
  real_pickup       bigint,
  real_delivery     bigint,
  created_at        bigint not null,
  updated_at        bigint not null,
  next_move_at      bigint
);
create unique index orders_reference on sandbox.orders (reference);
create unique index orders_external on sandbox.orders (organization_id, livemode, external_order_id);
create index orders_updated on sandbox.orders (organization_id, livemode, updated_at, number);
create index orders_pickup on sandbox.orders (organization_id, livemode, pickup_time, number);
create index orders_delivery on sandbox.orders (organization_id, livemode, delivery_time, number);
create index orders_status on sandbox.orders (organization_id, livemode, status, updated_at, number);
create index orders_branch on sandbox.orders (organization_id, livemode, branch_id, updated_at, number);
create index orders_moving on sandbox.orders (next_move_at, number) where next_move_at is not null;
create table sandbox.late_changes (
  change_id  bigint generated always as identity primary key,
  number     bigint not null,
  visible_at bigint not null,
  row        jsonb not null
);
create index late_changes_number on sandbox.late_changes (number, change_id);
create index late_changes_visible_at on sandbox.late_changes (visible_at, change_id);
create view sandbox.latest as
  select o.* from sandbox.orders o
  where not exists (select from sandbox.late_changes l where l.number = o.number)
  union all
  select (jsonb_populate_record(null::sandbox.orders, row)).* from (
    select distinct on (number) row from sandbox.late_changes order by number, change_id desc
  ) late;

create table sandbox.searches (
  organization_id text not null,
  search_key      text not null,
  primary key (organization_id, search_key)
);

create table sandbox.endpoints (
  endpoint_id     text primary key,
  organization_id text not null,
  livemode        boolean not null,
  url             text not null,
  secret          text not null,
  scheme          text not null
);

create table sandbox.events (
  event_number    bigint primary key,
  event_id        text not null unique,
  organization_id text not null,
  livemode        boolean not null,
  reference       text not null,
  type            text not null,
  created         bigint not null,
  sent_as         text not null check (sent_as in ('event', 'lost', 'no_plan', 'no_endpoint')),
  body            text not null
);
create index events_reference on sandbox.events (reference, event_number);

create table sandbox.deliveries (
  delivery_id bigint generated always as identity primary key,
  event_id    text not null references sandbox.events (event_id) on delete cascade,
  endpoint_id text not null references sandbox.endpoints on delete cascade,
  state       text not null check (state in ('pending', 'delivered', 'failed')),
  due_at      bigint not null,
  attempts    integer not null default 0,
  -- Of the last attempt: the answer's status, or why there was none.
  status      integer,
  error       text
);
create index deliveries_event on sandbox.deliveries (event_id);
create index deliveries_due on sandbox.deliveries (due_at, delivery_id) where state = 'pending';

`;

const UNDEFINED_TABLE = "42P01";

/**
 * The world in the database, or undefined if there is none that this version can read: its seed, the directory that
 * saveContent stored last, and the time of the virtual clock, which is null if the world never had one.
 */
export async function readWorld<Directory>(connection: Connection) {
  type World = { seed: number; directory: Directory; clockNow: Instant | null };
  try {
    const text = "select seed, clock_now, directory from sandbox.world where schema_version = $1";
    const [world] = await readRows<World>(connection, text, [SCHEMA_VERSION]);
    return world;
  } catch (error) {
    if ((error as { code?: string }).code === UNDEFINED_TABLE) return undefined;
    throw error;
  }
}

/** Replaces the schema's content with a new world from `seed`, in the caller's transaction. */
export async function createWorld(connection: Connection, seed: number, directory: object): Promise<void> {
  await connection.query("set local client_min_messages = warning");
  await connection.query("drop schema if exists sandbox cascade");
  await connection.query(SCHEMA_SQL);
  await connection.query(`insert into sandbox.world (schema_version, seed, directory) values ($1, $2, $3)`, [
    SCHEMA_VERSION,
    seed,
    JSON.stringify(directory),
  ]);
}

/** Stores the virtual clock's time, so that a restart resumes there. */
export async function saveClock(connection: Connection, now: Instant): Promise<void> {
  await connection.query(`update sandbox.world set clock_now = $1`, [now]);
}

export async function saveContent(connection: Connection, content: object): Promise<void> {
  await connection.query("update sandbox.world set directory = $1", [JSON.stringify(content)]);
}

/** Stores that an address was searched for; each row is one search that the organization paid for. */
export async function insertSearch(
  connection: Connection,
  organizationId: string,
  key: string,
): Promise<void> {
  await connection.query(
    `insert into sandbox.searches (organization_id, search_key) values ($1, $2) on conflict do nothing`,
    [organizationId, key],
  );
}
