import type { Pool } from "../database/database.ts";

/** Which condition, of which source. */
export interface AlertKey {
  readonly name: string;
  readonly sourceId: string;
}

/** An alert as it is stored. Seconds since 1970, by the database's clock. */
export interface StoredAlert extends AlertKey {
  readonly since: number;
  readonly now: number;
  readonly endedAt: number | null;
  readonly told: boolean;
}

/**
 * Takes down which conditions hold now, and returns all rows. A condition that comes back before its end was told
 * goes on as before; one that ended before anybody was told of it is forgotten.
 */
export async function recordAlerts(pool: Pool, holding: readonly AlertKey[]): Promise<StoredAlert[]> {
  const { rows } = await pool.query<StoredAlert>(
    `with holding as (
       select * from unnest($1::text[], $2::text[]) as h (name, source_id)
     ), begun as (
       insert into mirror.alerts as alert (name, source_id)
       select name, source_id from holding order by name, source_id
       on conflict (name, source_id) do update set ended_at = null where alert.ended_at is not null
       returning *
     ), ended as (
       update mirror.alerts set ended_at = clock_timestamp()
       where told_at is not null and ended_at is null and (name, source_id) not in (select * from holding)
       returning *
     ), forgotten as (
       delete from mirror.alerts
       where told_at is null and (name, source_id) not in (select * from holding)
       returning name, source_id
     ), changed as (
       select * from begun union all select * from ended
     ), current as (
       select * from changed
       union all
       select * from mirror.alerts
       where (name, source_id) not in (select name, source_id from changed)
         and (name, source_id) not in (select name, source_id from forgotten)
     )
     select name, source_id as "sourceId", extract(epoch from since)::float8 as since,
       extract(epoch from clock_timestamp())::float8 as "now",
       extract(epoch from ended_at)::float8 as "endedAt", told_at is not null as told
     from current order by since, name, source_id`,
    [holding.map(({ name }) => name), holding.map(({ sourceId }) => sourceId)],
  );
  return rows;
}

/** Somebody has been told that it is firing. */
export async function markAlertTold(pool: Pool, { name, sourceId }: AlertKey): Promise<void> {
  await pool.query(
    "update mirror.alerts set told_at = clock_timestamp() where name = $1 and source_id = $2",
    [name, sourceId],
  );
}

/** Somebody has been told of its end; one that has come back meanwhile stays. */
export async function removeEndedAlert(pool: Pool, { name, sourceId }: AlertKey): Promise<void> {
  await pool.query("delete from mirror.alerts where name = $1 and source_id = $2 and ended_at is not null", [
    name,
    sourceId,
  ]);
}
