import { readFeedFence } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingWebhook } from "../config/outgoingFile.ts";

// What is to be sent to which endpoint: deliveries, made from the feed and handed over to the endpoint's queue.

/** Which changes of its sources an endpoint wants. */
export type Wanted = Pick<OutgoingWebhook, "endpointId" | "types" | "statuses">;

export interface PlannedDeliveries {
  /** Changes that were examined; as many as the limit if there may be more. */
  readonly read: number;
  readonly planned: number;
}

/**
 * Records the endpoints that OUTGOING_WEBHOOKS_FILE lists now. New ones begin behind the last change. One that is no longer
 * listed is retired: its messages and its place in the feed are forgotten. Returns the names of these.
 */
export async function recordListed(
  pool: Pool,
  endpoints: readonly Pick<OutgoingWebhook, "endpointId" | "sourceIds">[],
): Promise<string[]> {
  const { rows } = await pool.query<{ endpointId: string }>(
    `with wanted as (
       select * from jsonb_to_recordset($1::jsonb) as w ("endpointId" text, "sourceIds" text[])
     ), retired as (
       delete from mirror.outgoing_endpoints where endpoint_id not in (select "endpointId" from wanted)
       returning endpoint_id
     ), recorded as (
       insert into mirror.outgoing_endpoints as e (endpoint_id, source_ids, position)
       select "endpointId", "sourceIds", $2::bigint from wanted order by "endpointId"
       on conflict (endpoint_id) do update set source_ids = excluded.source_ids
     )
     select endpoint_id as "endpointId" from retired`,
    [
      JSON.stringify(endpoints.map(({ endpointId, sourceIds }) => ({ endpointId, sourceIds }))),
      String(await readFeedFence(pool)),
    ],
  );
  return rows.map(({ endpointId }) => endpointId);
}

// Sent again: under another number, so that the end of an earlier sending changes nothing of this one.
const AGAIN = `delivery_id = default, state = 'pending', attempts = 0, enqueued_at = null, delivered_at = null`;

/*
 * The locked endpoint serialises planners, and their plan is committed with its position: each change once. A change that
 * was planned before, because the position was put back, is sent again. Behind the last change of its sources, the
 * position goes on to the fence, so that the changes of other sources are not looked through again and again.
 */
const PLAN = `
  with endpoint as materialized (
    select source_ids, position from mirror.outgoing_endpoints where endpoint_id = $1 for update skip locked
  ),
  fresh as materialized (
    select c.position, c.source_id, c.reference, c.status,
      case when c.verdict = 'gone' then 'order.gone'
           when c.revision = 1 then 'order.new'
           when c.status is distinct from c.previous_status then 'order.status_changed'
           else 'order.changed' end as event_type
    from mirror.changes c
    where c.position > (select position from endpoint) and c.position <= $5::bigint
      and c.source_id = any ((select source_ids from endpoint)::text[])
    order by c.position limit $2
  ),
  planned as (
    insert into mirror.outgoing_deliveries as d (endpoint_id, source_id, position, reference, event_type)
    select $1, source_id, position, reference, event_type from fresh
    where ($3::text[] is null or event_type = any ($3)) and ($4::text[] is null or status = any ($4))
    order by position
    on conflict (endpoint_id, source_id, position) do update set ${AGAIN} where d.state <> 'pending'
    returning 1
  ),
  moved as (
    update mirror.outgoing_endpoints e set position = l.position
    from (select case when count(*) < $2 then $5::bigint else max(position) end as position from fresh) l, endpoint
    where e.endpoint_id = $1 and e.position < l.position
  )
  select (select count(*)::int from fresh) as read, (select count(*)::int from planned) as planned`;

/** Makes deliveries of the next changes, at most `limit`; none while another process does. */
export async function planDeliveries(
  pool: Pool,
  { endpointId, types, statuses }: Wanted,
  limit: number,
): Promise<PlannedDeliveries> {
  const fence = await readFeedFence(pool);
  const { rows } = await pool.query<PlannedDeliveries>({
    name: "plan-deliveries",
    text: PLAN,
    values: [endpointId, limit, types, statuses, String(fence)],
  });
  return rows[0] ?? { read: 0, planned: 0 };
}

/** Takes the numbers of messages that the endpoint's queue is to get now, at most `limit`, oldest first. */
export async function takeToEnqueue(pool: Pool, endpointId: string, limit: number): Promise<string[]> {
  const { rows } = await pool.query<{ deliveryId: string }>({
    name: "outgoing-to-enqueue",
    text: `with taken as (
        update mirror.outgoing_deliveries set enqueued_at = clock_timestamp() where delivery_id = any (array(
          select delivery_id from mirror.outgoing_deliveries
          where endpoint_id = $1 and state = 'pending' and enqueued_at is null
          order by delivery_id limit $2 for update skip locked))
        returning delivery_id
      )
      select delivery_id as "deliveryId" from taken order by delivery_id`,
    values: [endpointId, limit],
  });
  return rows.map(({ deliveryId }) => deliveryId);
}

/** What an endpoint's queue should hold. */
export interface QueueStanding {
  /** Messages that the queue has had for some seconds and that did not end. */
  readonly enqueued: number;
  readonly pending: number;
  readonly paused: boolean;
}

export async function readQueueStanding(pool: Pool, endpointId: string): Promise<QueueStanding | undefined> {
  const { rows } = await pool.query<QueueStanding>(
    `select e.paused_at is not null as paused, count(d)::int as pending,
       count(*) filter (where d.enqueued_at < clock_timestamp() - interval '5 seconds')::int as enqueued
     from mirror.outgoing_endpoints e
     left join mirror.outgoing_deliveries d on d.endpoint_id = e.endpoint_id and d.state = 'pending'
     where e.endpoint_id = $1 group by e.endpoint_id`,
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

/** The position before the first change that we learned of at `instant` or later; 0 before the first of all. */
export async function readFeedPositionAt(pool: Pool, instant: Instant): Promise<bigint> {
  const { rows } = await pool.query<{ position: string | null }>(
    `select max(position) as position from mirror.changes
     where changed_at < to_timestamp($1::numeric / 1000000000) and position <= $2`,
    [String(instant), String(await readFeedFence(pool))],
  );
  return BigInt(rows[0]?.position ?? 0);
}

/**
 * Puts an endpoint back, so that all changes behind the position `from` are sent again. Returns how many there are, whether it
 * wanted them or not; null when it is not beyond that position.
 */
export async function replayFrom(
  pool: Pool,
  { endpointId, from }: { endpointId: string; from: bigint },
): Promise<number | null> {
  const { rows } = await pool.query<{ changes: number }>(
    `with former as (
       select source_ids, position from mirror.outgoing_endpoints
       where endpoint_id = $1 and position > $2::bigint for update
     ), moved as (
       update mirror.outgoing_endpoints set position = $2 from former where endpoint_id = $1
     )
     select (select count(*)::int from mirror.changes c
       where c.source_id = any (f.source_ids) and c.position > $2::bigint and c.position <= f.position) as changes
     from former f`,
    [endpointId, String(from)],
  );
  return rows[0]?.changes ?? null;
}

/** Sends the dead deliveries of an endpoint again; returns how many there were. */
export async function reviveDead(pool: Pool, endpointId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `update mirror.outgoing_deliveries d set ${AGAIN} where endpoint_id = $1 and state = 'dead'`,
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
