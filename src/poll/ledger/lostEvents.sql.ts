import { readFeedFence } from "../../changes/changeFeed.sql.ts";
import type { Pool } from "../../database/database.ts";
import { inTransaction } from "../../database/transaction.ts";

/** Upper bounds of the delays that are distinguished, in seconds; the last one covers all longer delays. */
const DELAY_BOUNDS = [1, 5, 30, 60, 300, 3_600, 2_147_483_647];

/** How many changes of the feed one pass takes. */
const FEED_LIMIT = 5_000;

export interface LedgerStep {
  readonly sourceId: string;
  /** How long an event may arrive after the read that found its change before it counts as lost. */
  readonly graceSeconds: number;
}

export interface LedgerReport {
  /** Changes of the feed that were examined; FEED_LIMIT if more may be waiting. */
  readonly read: number;
  readonly found: number;
  readonly late: number;
  readonly lost: number;
  /** Time alone may change something: a change waits for its event, or the feed could not be read to its end. */
  readonly waits: boolean;
}

/*
 * The feed is read only up to its fence: a smaller position may commit later. A new order counts if it changed after
 * the source was configured; an older one was never to be announced to us. The spec lists no event for creation, so
 * `created` is never expected.
 */
const COLLECT = `
with cursor as (
  select position from mirror.lost_event_cursor where source_id = $1
),
fresh as materialized (
  select c.* from mirror.changes c
  where c.source_id = $1 and c.position > coalesce((select position from cursor), 0) and c.position <= $4::bigint
  order by c.position limit $2
),
learned as (
  insert into mirror.announced_statuses as a (source_id, status, event_type, events, first_at, last_at)
  select source_id, status, (array_agg(event_type order by position desc))[1], count(*), min(changed_at), max(changed_at)
  from fresh where via = 'webhook' and event_type is not null and status is distinct from previous_status
  group by source_id, status order by status
  on conflict (source_id, status) do update set
    event_type = excluded.event_type, events = a.events + excluded.events, last_at = excluded.last_at
),
timed as (
  insert into mirror.event_delays as d (source_id, hour, late, up_to_seconds, events)
  select source_id, date_trunc('hour', changed_at), false, up_to, count(*)
  from fresh cross join lateral (
    select min(bound) as up_to from unnest($3::int[]) as bound
    where bound >= extract(epoch from changed_at) - version / 1e9
  ) delay
  where via = 'webhook' and event_type is not null and status is distinct from previous_status
  group by source_id, date_trunc('hour', changed_at), up_to order by 1, 2, 4
  on conflict (source_id, hour, late, up_to_seconds) do update set events = d.events + excluded.events
),
found as (
  insert into mirror.unannounced_changes (source_id, reference, status, version, via, found_at)
  select f.source_id, f.reference, f.status, f.version, f.via, f.changed_at
  from fresh f join mirror.sources s using (source_id)
  where f.via in ('poll', 'backfill', 'refetch', 'verify') and f.status <> 'created'
    and f.verdict = 'applied' and f.status is distinct from f.previous_status
    and (f.previous_status is not null or f.version > extract(epoch from s.created_at) * 1000000000)
  on conflict do nothing
  returning 1
),
moved as (
  insert into mirror.lost_event_cursor (source_id, position)
  select $1, position from fresh order by position desc limit 1
  on conflict (source_id) do update set position = excluded.position
)
select (select count(*) from fresh)::int as read, (select count(*) from found)::int as found`;

const JUDGE = `
with open as materialized (
  select u.* from mirror.unannounced_changes u
  where u.source_id = $1 and u.state in ('waiting', 'lost') and u.found_at > clock_timestamp() - interval '3 days'
),
announced as (
  select distinct on (o.reference, o.version) o.reference, o.version, o.status, h.seen_at, h.event_id, h.event_type
  from open o join mirror.history h
    on h.source_id = o.source_id and h.reference = o.reference and h.status = o.status and h.via = 'webhook'
  order by o.reference, o.version, h.history_id
),
late as (
  update mirror.unannounced_changes u set state = 'late', announced_at = a.seen_at, event_id = a.event_id
  from announced a where u.source_id = $1 and u.reference = a.reference and u.version = a.version
  returning u.reference, u.version
),
learned as (
  insert into mirror.announced_statuses as a (source_id, status, event_type, events, first_at, last_at)
  select $1, status, max(event_type), count(*), min(seen_at), max(seen_at) from announced
  where event_type is not null group by status order by status
  on conflict (source_id, status) do update set
    events = a.events + excluded.events, last_at = greatest(a.last_at, excluded.last_at)
),
timed as (
  insert into mirror.event_delays as d (source_id, hour, late, up_to_seconds, events)
  select $1, date_trunc('hour', seen_at), true, up_to, count(*)
  from announced cross join lateral (
    select min(bound) as up_to from unnest($3::int[]) as bound
    where bound >= extract(epoch from seen_at) - version / 1e9
  ) delay
  group by date_trunc('hour', seen_at), up_to order by 2, 4
  on conflict (source_id, hour, late, up_to_seconds) do update set events = d.events + excluded.events
),
overdue as (
  update mirror.unannounced_changes u
  set state = case when exists (
    select from mirror.announced_statuses a where a.source_id = u.source_id and a.status = u.status
  ) then 'lost' else 'not_announced' end
  from open o
  where u.source_id = o.source_id and u.reference = o.reference and u.version = o.version and o.state = 'waiting'
    and o.found_at <= clock_timestamp() - make_interval(secs => $2)
    and not exists (select from announced a where a.reference = o.reference and a.version = o.version)
  returning u.state
)
select (select count(*) from late)::int as late, (select count(*) from overdue where state = 'lost')::int as lost,
  exists (select from open where state = 'waiting')
    or coalesce(pg_sequence_last_value('mirror.changes_position_seq'), 0) > $4::bigint as waits`;

/**
 * Updates the ledger of lost events for one source: learns from the change feed which statuses are announced and which
 * changes a read found first, then distinguishes late events from lost ones. Runs outside the apply path, and may be
 * repeated or run concurrently.
 */
export async function advanceLostEvents(
  pool: Pool,
  { sourceId, graceSeconds }: LedgerStep,
): Promise<LedgerReport> {
  return inTransaction(pool, async (client) => {
    // Two processes that read the feed from the same position would both count what they find.
    await client.query("select pg_advisory_xact_lock(hashtext('order-mirror lost events'), hashtext($1))", [
      sourceId,
    ]);
    const fence = await readFeedFence(client);
    const collected = await client.query<{ read: number; found: number }>(COLLECT, [
      sourceId,
      FEED_LIMIT,
      DELAY_BOUNDS,
      String(fence),
    ]);
    const judged = await client.query<Pick<LedgerReport, "late" | "lost" | "waits">>(JUDGE, [
      sourceId,
      graceSeconds,
      DELAY_BOUNDS,
      String(fence),
    ]);
    const { read = 0, found = 0 } = collected.rows[0] ?? {};
    const { late = 0, lost = 0, waits = false } = judged.rows[0] ?? {};
    return { read, found, late, lost, waits: waits || read === FEED_LIMIT };
  });
}
