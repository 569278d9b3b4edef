import { readFeedFence } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import type { OutgoingWebhook } from "../runtime/config/outgoingFile.ts";

// What is to be sent to which endpoint: deliveries, made from the feed and handed over to the endpoint's queue.

/** The changes that an endpoint wants, of one of its sources. */
export interface OutgoingSubscription extends Pick<OutgoingWebhook, "endpointId" | "types" | "statuses"> {
  readonly sourceId: string;
}

export interface PlannedDeliveries {
  /** Changes that were examined; as many as the limit if there may be more. */
  readonly read: number;
  /** True if changes were removed before the endpoint was notified of them; one of the deliveries reports it. */
  readonly missed: boolean;
  readonly planned: number;
}

/** New endpoints begin behind the last change. */
export async function recordSubscriptions(
  pool: Pool,
  subscriptions: readonly OutgoingSubscription[],
): Promise<void> {
  await pool.query(
    `with wanted as (
       select * from unnest($1::text[], $2::text[]) as w (endpoint_id, source_id)
     ),
     made as (
       insert into mirror.outgoing_endpoints (endpoint_id)
       select distinct endpoint_id from wanted order by endpoint_id on conflict do nothing
     )
     insert into mirror.outgoing_cursors (endpoint_id, source_id, position)
     select endpoint_id, source_id, $3::bigint from wanted order by 1, 2
     on conflict do nothing`,
    [
      subscriptions.map((one) => one.endpointId),
      subscriptions.map((one) => one.sourceId),
      String(await readFeedFence(pool)),
    ],
  );
}

/**
 * Records which endpoints OUTGOING_WEBHOOKS_FILE lists now, and which of them it pauses. One that is no longer listed is
 * retired: its messages and its place in the feed are forgotten. Returns the names of these.
 */
export async function recordListed(
  pool: Pool,
  endpoints: readonly { readonly endpointId: string; readonly paused: boolean }[],
): Promise<string[]> {
  const { rows } = await pool.query<{ endpointId: string }>(
    `with retired as (
       delete from mirror.outgoing_endpoints where endpoint_id <> all ($1::text[]) returning endpoint_id
     ), recorded as (
       insert into mirror.outgoing_endpoints as e (endpoint_id, listed)
       select * from (
         select endpoint_id, case when paused then 'paused' else 'active' end as listed
         from unnest($1::text[], $2::boolean[]) as w (endpoint_id, paused)) wanted
       order by endpoint_id
       on conflict (endpoint_id) do update set listed = excluded.listed where e.listed <> excluded.listed
     )
     select endpoint_id as "endpointId" from retired`,
    [endpoints.map(({ endpointId }) => endpointId), endpoints.map(({ paused }) => paused)],
  );
  return rows.map(({ endpointId }) => endpointId);
}

// Sent again: under a number of its own, so that the end of an earlier sending changes nothing of this one.
const AGAIN = `state = 'pending', round = d.round + 1, attempts = 0, enqueued_at = null, delivered_at = null`;

/*
 * The locked cursor serialises planners, and their plan is committed with it: each change once. A change that was
 * planned before, because the cursor was reset, is sent again. Changes that retention removed behind the cursor cannot
 * be planned: the endpoint is notified once of each such removal.
 */
const PLAN = `
  with cursor as materialized (
    select * from mirror.outgoing_cursors
    where endpoint_id = $1 and source_id = $2 for update skip locked
  ),
  missed as materialized (
    select r.position, cursor.position as after_position
    from cursor join mirror.feed_removals r using (source_id)
    where r.position > greatest(cursor.position, cursor.notified_position)
  ),
  notified as (
    insert into mirror.outgoing_deliveries as d
      (endpoint_id, source_id, position, event_type, missed_after_position)
    select $1, $2, position, 'changes.missed', after_position from missed
    on conflict (endpoint_id, source_id, position) do update set
      reference = null, event_type = excluded.event_type, missed_after_position = excluded.missed_after_position,
      ${AGAIN}
    returning 1
  ),
  fresh as materialized (
    select c.position, c.reference, c.status,
      case when c.verdict = 'gone' then 'order.gone'
           when c.revision = 1 then 'order.new'
           when c.status is distinct from c.previous_status then 'order.status_changed'
           else 'order.changed' end as event_type
    from mirror.changes c
    where c.source_id = $2 and c.position > (select position from cursor) and c.position <= $6::bigint
    order by c.position limit $3
  ),
  planned as (
    insert into mirror.outgoing_deliveries as d (endpoint_id, source_id, position, reference, event_type)
    select $1, $2, position, reference, event_type from fresh
    where ($4::text[] is null or event_type = any ($4)) and ($5::text[] is null or status = any ($5))
    order by position
    on conflict (endpoint_id, source_id, position) do update set
      ${AGAIN}
      where d.state <> 'pending'
    returning 1
  ),
  moved as (
    update mirror.outgoing_cursors o set
      position = coalesce(l.position, o.position), notified_position = coalesce(m.position, o.notified_position)
    from (select 1) one
    left join (select max(position) as position from fresh) l on true
    left join missed m on true
    where o.endpoint_id = $1 and o.source_id = $2 and coalesce(l.position, m.position) is not null
  )
  select (select count(*)::int from fresh) as read, exists (select from missed) as missed,
    ((select count(*) from notified) + (select count(*) from planned))::int as planned`;

/** Makes deliveries of the next changes, at most `limit`; none while another process does. */
export async function planDeliveries(
  pool: Pool,
  { endpointId, sourceId, types, statuses }: OutgoingSubscription,
  limit: number,
): Promise<PlannedDeliveries> {
  const fence = await readFeedFence(pool);
  const { rows } = await pool.query<PlannedDeliveries>({
    name: "plan-deliveries",
    text: PLAN,
    values: [endpointId, sourceId, limit, types, statuses, String(fence)],
  });
  return rows[0] ?? { read: 0, missed: false, planned: 0 };
}

/** A message for the endpoint's queue. */
export interface Enqueued {
  readonly deliveryId: string;
  readonly round: number;
}

/** The messages of an endpoint that its queue did not get yet, at most `limit`, oldest first. */
export async function readToEnqueue(pool: Pool, endpointId: string, limit: number): Promise<Enqueued[]> {
  const { rows } = await pool.query<Enqueued>({
    name: "outgoing-to-enqueue",
    text: `select delivery_id as "deliveryId", round from mirror.outgoing_deliveries
      where endpoint_id = $1 and state = 'pending' and enqueued_at is null order by delivery_id limit $2`,
    values: [endpointId, limit],
  });
  return rows;
}

export async function noteEnqueued(pool: Pool, deliveries: readonly Enqueued[]): Promise<void> {
  await pool.query({
    name: "outgoing-enqueued",
    text: `update mirror.outgoing_deliveries d set enqueued_at = clock_timestamp()
      from unnest($1::bigint[], $2::int[]) as e (delivery_id, round)
      where d.delivery_id = e.delivery_id and d.round = e.round`,
    values: [deliveries.map(({ deliveryId }) => deliveryId), deliveries.map(({ round }) => round)],
  });
}

/** What an endpoint's queue should hold. */
export interface QueueStanding {
  /** Messages that the queue has had for some seconds and that did not end. */
  readonly enqueued: number;
  readonly pending: number;
  /** By a person, or in the file. */
  readonly paused: boolean;
  readonly failuresInRow: number;
}

export async function readQueueStanding(pool: Pool, endpointId: string): Promise<QueueStanding | undefined> {
  const { rows } = await pool.query<QueueStanding>(
    `select e.paused_at is not null or e.listed = 'paused' as paused, e.failures_in_row as "failuresInRow",
       (select count(*)::int from mirror.outgoing_deliveries d where d.endpoint_id = $1 and d.state = 'pending') as pending,
       (select count(*)::int from mirror.outgoing_deliveries d where d.endpoint_id = $1 and d.state = 'pending'
          and d.enqueued_at < clock_timestamp() - interval '5 seconds') as enqueued
     from mirror.outgoing_endpoints e where e.endpoint_id = $1`,
    [endpointId],
  );
  return rows[0];
}

/** The queue lost messages: it gets all again that did not end; those that it still has stay as they are. */
export async function enqueueAgain(pool: Pool, endpointId: string): Promise<void> {
  await pool.query(
    `update mirror.outgoing_deliveries set enqueued_at = null
     where endpoint_id = $1 and state = 'pending' and enqueued_at is not null`,
    [endpointId],
  );
}

// A manual retry implies that the endpoint works again.
const ATTENDED = `
  attended as (update mirror.outgoing_endpoints set failures_in_row = 0 where endpoint_id = $1)`;

/** Puts an endpoint's cursor back, so that all changes behind the position `from` are sent again. False when there is no such cursor. */
export async function replayFrom(
  pool: Pool,
  replay: { endpointId: string; sourceId: string; from: bigint },
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `with ${ATTENDED}
     update mirror.outgoing_cursors set position = $3, notified_position = 0
     where endpoint_id = $1 and source_id = $2 and position > $3::bigint`,
    [replay.endpointId, replay.sourceId, String(replay.from)],
  );
  return rowCount === 1;
}

/** Sends the dead deliveries of an endpoint again; returns how many there were. */
export async function reviveDead(pool: Pool, endpointId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `with ${ATTENDED}
     update mirror.outgoing_deliveries d set ${AGAIN} where endpoint_id = $1 and state = 'dead'`,
    [endpointId],
  );
  return rowCount ?? 0;
}

/** Pauses an endpoint, or ends its pause; false when nothing had to be changed. */
export async function setEndpointPaused(
  pool: Pool,
  { endpointId, paused }: { endpointId: string; paused: boolean },
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `update mirror.outgoing_endpoints set paused_at = case when $2 then clock_timestamp() end
     where endpoint_id = $1 and (paused_at is null) = $2`,
    [endpointId, paused],
  );
  return rowCount === 1;
}
