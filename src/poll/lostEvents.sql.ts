import type { Pool } from "../database/database.ts";

/** Upper bounds of the delays that are distinguished, in seconds; the last one covers all longer delays. */
const DELAY_BOUNDS = [1, 5, 30, 60, 300, 3_600, 2_147_483_647];

const STATEMENT = `
-- Counts again the present hour, the one before, and whatever came since the last count, up to a day; nothing of a source
-- that is polled only.
with source as (
  select source_id, date_trunc('hour', greatest(clock_timestamp() - interval '25 hours',
    least(clock_timestamp() - interval '1 hour', coalesce((
      select max(hour) from mirror.webhook_hours w where w.source_id = s.source_id), created_at)))) as since
  from mirror.sources s where source_id = $1 and receives_events is not false
),
-- Changes of which an event was applied first. When it was received is read from the inbox: while a worker is stopped,
-- events wait for us, and the provider has lost nothing.
announced as (
  select h.seen_at, h.status, h.version, coalesce(i.received_at, h.seen_at) as received_at
  from source, mirror.status_changes h left join mirror.inbox i on i.seq = h.inbox_seq and i.source_id = h.source_id
  where h.source_id = $1 and h.seen_at >= since and h.via = 'webhook'
),
counted as (
  select date_trunc('hour', seen_at) as hour, status, 'announced' as outcome, received_at, version
  from announced
  union all
  select date_trunc('hour', found_at), status, state, announced_at, version
  from source, mirror.unannounced_changes u
  where u.source_id = $1 and u.found_at >= since and u.state in ('late', 'lost')
),
-- One row per hour, status, outcome and delay; $2 has the upper bounds of the delays.
fresh as materialized (
  select hour, status, outcome, coalesce(up_to, 0) as up_to, count(*) as changes
  from counted cross join lateral (
    select min(bound) as up_to from unnest($2::int[]) as bound
    where bound >= extract(epoch from received_at) - version / 1e9
  ) delay
  group by 1, 2, 3, 4
),
-- A lost change whose event has come is late, so its former row goes.
gone as (
  delete from mirror.webhook_hours w using source
  where w.source_id = $1 and w.hour >= since and not exists (
    select from fresh f
    where f.hour = w.hour and f.status = w.status and f.outcome = w.outcome and f.up_to = w.up_to_seconds)
),
-- What is older than 30 days stays as one sum.
aged as (
  delete from mirror.webhook_hours
  where source_id = $1 and hour > '-infinity' and hour < clock_timestamp() - interval '30 days'
  returning status, outcome, up_to_seconds, changes
),
rolled as (
  insert into mirror.webhook_hours as w
  select $1, '-infinity', status, outcome, up_to_seconds, sum(changes) from aged group by 3, 4, 5
  on conflict (source_id, hour, status, outcome, up_to_seconds) do update set changes = w.changes + excluded.changes
)
-- Rows that are as before are not written.
insert into mirror.webhook_hours as w
select $1, hour, status, outcome, up_to, changes from fresh order by 2, 3, 4, 5
on conflict (source_id, hour, status, outcome, up_to_seconds) do update set changes = excluded.changes
where w.changes <> excluded.changes`;

/**
 * Counts which changes of a source its events announced, late or not at all; may be repeated, and writes what is new.
 * `graceSeconds` sets how long an event may arrive after the read that found its change before it counts as lost.
 */
export async function countAnnouncements(pool: Pool, sourceId: string, graceSeconds?: number): Promise<void> {
  if (graceSeconds !== undefined) {
    const grace = "update mirror.sources set event_grace = make_interval(secs => $2) where source_id = $1";
    await pool.query(grace, [sourceId, graceSeconds]);
  }
  await pool.query({ name: "count-announcements", text: STATEMENT, values: [sourceId, DELAY_BOUNDS] });
}
