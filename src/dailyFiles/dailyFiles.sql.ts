import { queryInstants } from "../database/columns.ts";
import type { Pool, Queryable } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";

/** The file of a day in a place. */
export interface DayFile {
  readonly sourceId: string;
  /** Start of the day. */
  readonly since: Instant;
  readonly place: string;
  readonly name: string;
}

const DAY_NANOS = "86400000000000";

/** A day whose certificate holds and is not yet in a file. */
interface DueDay {
  /** Its start, in UTC. */
  readonly since: Instant;
  /** The last attempt failed less than a pause ago. */
  readonly rests: boolean;
}

/** The days whose certificate holds and is not yet in a file in `place`, the latest first. */
export async function readDueDays(
  pool: Pool,
  due: { readonly sourceId: string; readonly place: string; readonly pauseSeconds: number },
): Promise<DueDay[]> {
  const statement = {
    name: "read-due-days",
    text: `select c.since, coalesce(f.failed_at >= clock_timestamp() - $3 * interval '1 second', false) as rests
       from mirror.certificates c
       join reporting.certificates v using (source_id, serial)
       left join mirror.daily_files f on f.source_id = c.source_id and f.since = c.since and f.place = $2
     where c.source_id = $1 and c.kind = 'completeness' and c.since % ${DAY_NANOS} = 0 and c.until = c.since + ${DAY_NANOS}
       and v.disproved_at is null and f.serial is distinct from c.serial
       and not exists (select from mirror.certificates later where later.source_id = c.source_id and later.kind = 'completeness'
         and later.since = c.since and later.until = c.until and later.serial > c.serial)
     order by c.since desc`,
  };
  return queryInstants<DueDay>(pool, statement, [due.sourceId, due.place, due.pauseSeconds]);
}

/** Notes that the file was written with the certificate `serial`. */
export async function noteWritten(
  pool: Pool,
  file: DayFile,
  { serial, orders, bytes }: { readonly serial: number; readonly orders: number; readonly bytes: number },
): Promise<void> {
  await pool.query(
    `insert into mirror.daily_files (source_id, since, place, name, serial, orders, bytes, written_at)
     values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp())
     on conflict (source_id, since, place) do update set name = excluded.name, serial = excluded.serial, orders = excluded.orders,
       bytes = excluded.bytes, written_at = excluded.written_at, failing_since = null, failed_at = null, failure = null`,
    [file.sourceId, file.since, file.place, file.name, serial, orders, bytes],
  );
}

/** Notes that an attempt to write the file failed. */
export async function noteFailed(pool: Pool, file: DayFile, failure: string): Promise<void> {
  await pool.query(
    `insert into mirror.daily_files as f (source_id, since, place, name, failing_since, failed_at, failure)
     values ($1, $2, $3, $4, clock_timestamp(), clock_timestamp(), $5)
     on conflict (source_id, since, place) do update set
       failing_since = coalesce(f.failing_since, excluded.failing_since), failed_at = excluded.failed_at, failure = excluded.failure`,
    [file.sourceId, file.since, file.place, file.name, failure],
  );
}

/** A branch as it is today. */
export interface NamedBranch {
  readonly branchId: string;
  readonly reference: string | null;
  readonly name: string | null;
}

/** The branches of a source; of several with one reference, the one that reporting.orders would choose comes first. */
export async function readBranches(database: Queryable, sourceId: string): Promise<NamedBranch[]> {
  const { rows } = await database.query<NamedBranch>(
    `select branch_id as "branchId", reference, name from mirror.branches
     where source_id = $1 order by closed_at desc nulls first, branch_id`,
    [sourceId],
  );
  return rows;
}
