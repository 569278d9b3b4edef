import type { Pool } from "./database.ts";

/** The result of ending reporting transactions that ran too long. */
export interface LongReads {
  readonly ended: number;
  /** False if this role may not see or end other sessions; then nothing was done. */
  readonly permitted: boolean;
}

const PERMITTED = `
  select rolsuper or (pg_has_role('pg_signal_backend', 'usage') and pg_has_role('pg_read_all_stats', 'usage')) as permitted
  from pg_catalog.pg_roles where rolname = current_user`;

/*
 * A session may raise its own statement_timeout, so it must be ended from outside. The owner of the tables may be a
 * member of the reader's role because it created the role; it does not count as a reader. Administrators are never
 * ended.
 */
const END_LONG_READS = `
  with me as (${PERMITTED}), late as materialized (
    select a.pid
    from me, pg_catalog.pg_stat_activity a
    join pg_catalog.pg_roles r on r.oid = a.usesysid
    join pg_catalog.pg_roles reader on reader.rolname = 'order_mirror_reader'
    where me.permitted and a.datname = current_database() and not r.rolsuper
      and r.rolname <> current_user
      and r.oid <> (select nspowner from pg_catalog.pg_namespace where nspname = 'mirror')
      and pg_has_role(r.oid, reader.oid, 'member')
      and a.xact_start < clock_timestamp() - make_interval(secs => $1)
  )
  select (select permitted from me) as permitted,
    (select (count(*) filter (where pg_terminate_backend(pid)))::int from late) as ended`;

/**
 * Whether this role, or the login of a worker, may see and end other sessions, a right that an administrator grants. Only
 * the worker needs it, and doctor may run with the login of another process.
 */
export async function mayWorkersEndLongReads(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ permitted: boolean }>(
    `select exists (
       select from pg_catalog.pg_roles r
       where (r.rolname = current_user
           or r.rolcanlogin and not r.rolsuper and pg_has_role(r.oid, to_regrole('order_mirror_worker'), 'member'))
         and (r.rolsuper or (pg_has_role(r.oid, 'pg_signal_backend', 'usage') and pg_has_role(r.oid, 'pg_read_all_stats', 'usage')))
     ) as permitted`,
  );
  return rows[0]?.permitted === true;
}

/** Ends sessions of order_mirror_reader's members whose transaction is older than `secondsMax`. */
export async function endLongReads(pool: Pool, secondsMax: number): Promise<LongReads> {
  const { rows } = await pool.query<LongReads>(END_LONG_READS, [secondsMax]);
  return rows[0] ?? { ended: 0, permitted: false };
}
