import { queryInstants, type Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { RecordedCondition } from "./conditions/conditions.ts";

/** Identifies an alert: a condition and its subject. */
export interface AlertKey {
  readonly name: string;
  readonly subject: string;
}

/** An alert as stored. Times are the database's. */
export interface StoredAlert extends AlertKey {
  readonly since: Instant;
  readonly now: Instant;
  readonly endedAt: Instant | null;
}

interface RecordedJudgement {
  readonly holding: readonly (AlertKey & { since: Instant })[];
  readonly doubtful: readonly AlertKey[];
  readonly unjudged: readonly string[];
}

/** People were told that it began, and not yet that it is over. */
const IS_END_OPEN =
  "(alert.ended_at is not null and alert.notified_at is not null and alert.end_notified_at is null)";

/**
 * Records which conditions hold, each with its start, and returns those whose start or end people are to be told. A
 * condition that returns before its end was told continues unchanged. Those in `doubtful`, and of conditions in
 * `unjudged`, stay unchanged. What ended is kept for a day.
 */
export async function recordAlerts(
  pool: Pool,
  { holding, doubtful, unjudged }: RecordedJudgement,
): Promise<StoredAlert[]> {
  return queryInstants<StoredAlert>(
    pool,
    `with holding as (
       select * from unnest($1::text[], $2::text[], $3::bigint[]) as h (name, subject, since)
     ), over as (
       select name, subject from mirror.alerts
       where ended_at is null and (name, subject) not in (select name, subject from holding) and name <> all ($4::text[])
         and (name, subject) not in (select * from unnest($5::text[], $6::text[]))
     ), begun as (
       insert into mirror.alerts as alert (name, subject, since)
       select name, subject, mirror.instant_at(since) from holding order by name, subject
       on conflict (name, subject) do update set ended_at = null, end_notified_at = null,
         -- If nobody waits to be told its end, it is another occurrence.
         since = case when ${IS_END_OPEN} then alert.since else excluded.since end,
         notified_at = case when ${IS_END_OPEN} then alert.notified_at end
       where alert.ended_at is not null
       returning *
     ), ended as (
       update mirror.alerts a set ended_at = clock_timestamp() from over
       where a.name = over.name and a.subject = over.subject
       returning a.*
     ), forgotten as (
       delete from mirror.alerts alert
       where ended_at < clock_timestamp() - interval '1 day' and not ${IS_END_OPEN}
         and (name, subject) not in (select name, subject from holding)
       returning name, subject
     ), changed as (
       select * from begun union all select * from ended
     ), current as (
       select * from changed
       union all
       select * from mirror.alerts
       where (name, subject) not in (select name, subject from changed)
         and (name, subject) not in (select name, subject from forgotten)
     )
     select name, subject, mirror.nanos_of(since) as since, mirror.nanos_of(clock_timestamp()) as "now",
       mirror.nanos_of(ended_at) as "endedAt"
     from current alert where ${IS_END_OPEN} or (ended_at is null and notified_at is null)
     order by alert.since, name, subject`,
    [
      holding.map(({ name }) => name),
      holding.map(({ subject }) => subject),
      holding.map(({ since }) => since),
      unjudged,
      doubtful.map(({ name }) => name),
      doubtful.map(({ subject }) => subject),
    ],
  );
}

/** Records that the starts of alerts, or the ends of those that are over, were notified. */
export async function markNotified(pool: Pool, alerts: readonly AlertKey[]): Promise<void> {
  await pool.query(
    `update mirror.alerts a set
       end_notified_at = case when ended_at is not null then clock_timestamp() end,
       notified_at = coalesce(notified_at, clock_timestamp())
     from unnest($1::text[], $2::text[]) as n (name, subject) where a.name = n.name and a.subject = n.subject`,
    [alerts.map(({ name }) => name), alerts.map(({ subject }) => subject)],
  );
}

/** Reads the recorded conditions: those that hold, and those that ended within a day, the last first. */
export function readRecorded(pool: Pool): Promise<RecordedCondition[]> {
  return queryInstants<RecordedCondition>(
    pool,
    `select name, subject, mirror.nanos_of(since) as since, mirror.nanos_of(ended_at) as "endedAt" from mirror.alerts
     where ended_at is null or ended_at > clock_timestamp() - interval '1 day'
     order by ended_at desc nulls first, name, subject`,
  );
}
