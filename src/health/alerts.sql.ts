import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";

/** Identifies an alert: a condition and its subject. */
export interface AlertKey {
  readonly name: string;
  readonly subject: string;
}

/** An alert as stored. Times are seconds since 1970, by the database's clock. */
export interface StoredAlert extends AlertKey {
  readonly since: number;
  readonly now: number;
  readonly endedAt: number | null;
  readonly notified: boolean;
}

/**
 * Records which conditions hold, each with its start, and returns all rows. A condition that returns before its end was
 * notified continues unchanged; one that ended before its start was notified is deleted. Those in `doubtful`, and of
 * conditions in `unjudged`, stay unchanged.
 */
export async function recordAlerts(
  pool: Pool,
  {
    holding,
    doubtful,
    unjudged,
  }: {
    holding: readonly (AlertKey & { since: Instant })[];
    doubtful: readonly AlertKey[];
    unjudged: readonly string[];
  },
): Promise<StoredAlert[]> {
  const { rows } = await pool.query<StoredAlert>(
    `with holding as (
       select * from unnest($1::text[], $2::text[], $3::bigint[]) as h (name, subject, since)
     ), over as (
       select name, subject, notified_at from mirror.alerts
       where (name, subject) not in (select name, subject from holding) and name <> all ($4::text[])
         and (name, subject) not in (select * from unnest($5::text[], $6::text[]))
     ), begun as (
       insert into mirror.alerts as alert (name, subject, since)
       select name, subject, mirror.instant_at(since) from holding order by name, subject
       on conflict (name, subject) do update set ended_at = null where alert.ended_at is not null
       returning *
     ), ended as (
       update mirror.alerts a set ended_at = clock_timestamp() from over
       where a.name = over.name and a.subject = over.subject and a.notified_at is not null and a.ended_at is null
       returning a.*
     ), forgotten as (
       delete from mirror.alerts a using over
       where a.name = over.name and a.subject = over.subject and a.notified_at is null
       returning a.name, a.subject
     ), changed as (
       select * from begun union all select * from ended
     ), current as (
       select * from changed
       union all
       select * from mirror.alerts
       where (name, subject) not in (select name, subject from changed)
         and (name, subject) not in (select name, subject from forgotten)
     )
     select name, subject, extract(epoch from since)::float8 as since,
       extract(epoch from clock_timestamp())::float8 as "now",
       extract(epoch from ended_at)::float8 as "endedAt", notified_at is not null as notified
     from current order by since, name, subject`,
    [
      holding.map(({ name }) => name),
      holding.map(({ subject }) => subject),
      holding.map(({ since }) => since),
      unjudged,
      doubtful.map(({ name }) => name),
      doubtful.map(({ subject }) => subject),
    ],
  );
  return rows;
}

/** Records that the firing alert was notified. */
export async function markAlertNotified(pool: Pool, { name, subject }: AlertKey): Promise<void> {
  await pool.query(
    "update mirror.alerts set notified_at = clock_timestamp() where name = $1 and subject = $2",
    [name, subject],
  );
}

/** Removes an alert whose end was notified, unless its condition holds again. */
export async function removeEndedAlert(pool: Pool, { name, subject }: AlertKey): Promise<void> {
  await pool.query("delete from mirror.alerts where name = $1 and subject = $2 and ended_at is not null", [
    name,
    subject,
  ]);
}
