import type pg from "pg";
import type { Migration } from "./migrationFiles.ts";

/** Any number that nothing else in the database locks. */
const LOCK_KEY = 7_405_002;

/** One migration that ran or started in this database. */
export interface MigrationRun {
  readonly name: string;
  readonly checksum: string | null;
  readonly oldestProgram: string | null;
  readonly beganAt: Date | null;
  /** True once it was committed. */
  readonly ended: boolean;
  /** True if it started but failed or was interrupted. */
  readonly halfRun: boolean;
}

/** Waits until no other session migrates this database, and blocks others until this session ends. */
export async function lockMigrations(client: pg.ClientBase): Promise<void> {
  await client.query("select pg_advisory_lock($1)", [LOCK_KEY]);
}

export async function isMigrating(client: pg.ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ migrating: boolean }>(
    `select exists (
       select from pg_catalog.pg_locks
       where locktype = 'advisory' and classid = 0 and objid = $1 and granted
         and database = (select oid from pg_catalog.pg_database where datname = current_database())
     ) as migrating`,
    [LOCK_KEY],
  );
  return rows[0]?.migrating === true;
}

/** Creates the table of runs. Call it while holding the lock. */
export async function prepareRuns(client: pg.ClientBase): Promise<void> {
  await client.query(`
    create table if not exists order_mirror_migration_runs (
      name text primary key,
      checksum text not null,
      oldest_program text,
      program text not null,
      began_at timestamptz not null default clock_timestamp(),
      ended_at timestamptz
    );
    comment on table order_mirror_migration_runs is 'Each migration as it was when it ran here, so that one that is edited, missing or half-run is noticed.';
    comment on column order_mirror_migration_runs.name is 'Name of the migration; queue stands for those of BullMQ, roles for the rights of config/postgres-roles.sql.';
    comment on column order_mirror_migration_runs.checksum is 'SHA-256 of the file that ran, in hex; for the queue, the version of BullMQ.';
    comment on column order_mirror_migration_runs.oldest_program is 'The oldest version of order-mirror that runs on the schema from then on; null: the one before as well.';
    comment on column order_mirror_migration_runs.program is 'Version of order-mirror that ran it.';
    comment on column order_mirror_migration_runs.began_at is 'When it began.';
    comment on column order_mirror_migration_runs.ended_at is 'When it was whole; null while it runs, and when its process was ended before.'`);
}

/** The recorded runs, ordered by name; empty in a new database. */
export async function readRuns(client: pg.ClientBase): Promise<readonly MigrationRun[]> {
  const { rows: found } = await client.query<{ migrated: boolean }>(
    "select to_regclass('order_mirror_migrations') is not null as migrated",
  );
  if (found[0]?.migrated !== true) return [];
  const { rows } = await client.query<MigrationRun>(
    `select name, r.checksum, r.oldest_program as "oldestProgram", r.began_at as "beganAt",
       m.name is not null or r.name in ('queue', 'roles') and r.ended_at is not null as ended,
       m.name is null and r.ended_at is null as "halfRun"
     from (select name from order_mirror_migrations) m
     full join order_mirror_migration_runs r using (name)
     order by name`,
  );
  return rows;
}

/** Records that a migration starts; called before any change. */
export async function beginRun(
  client: pg.ClientBase,
  { name, checksum, oldestProgram, program }: Omit<Migration, "sql"> & { readonly program: string },
): Promise<void> {
  await client.query(
    `insert into order_mirror_migration_runs as r (name, checksum, oldest_program, program) values ($1, $2, $3, $4)
     on conflict (name) do update set checksum = excluded.checksum, oldest_program = excluded.oldest_program,
       program = excluded.program, began_at = clock_timestamp(), ended_at = null`,
    [name, checksum, oldestProgram, program],
  );
}

/** Records that a migration is complete. */
export async function endRun(client: pg.ClientBase, name: string): Promise<void> {
  await client.query("update order_mirror_migration_runs set ended_at = clock_timestamp() where name = $1", [
    name,
  ]);
}
