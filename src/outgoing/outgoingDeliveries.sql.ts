import { changeColumns, readFeedFence, type Change } from "../changes/changeFeed.sql.ts";
import { queryInstants, type Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { OutgoingType } from "../domain/order/outgoing.ts";
import type { OutgoingWebhook } from "../config/outgoingFile.ts";
import { AGAIN } from "./outgoingEndpoints.sql.ts";
import type { AttemptResult } from "./outgoingSend.ts";

// What is to be sent to which endpoint, and when: deliveries, made from the feed, taken one after the other, and ended.

/** The changes of its sources that an endpoint wants; without effect unless `definition` is the one in force. */
export type Wanted = Pick<OutgoingWebhook, "endpointId" | "definition" | "types" | "statuses">;

/** An endpoint, with the limits that hold for all processes together. */
type Taker = Pick<OutgoingWebhook, "endpointId" | "definition" | "rate" | "ordered">;

/** More wait in the feed. */
const PENDING_MAX = 10_000;

/*
 * The locked endpoint serialises planners, and their plan is committed with its position: each change once. A change
 * that was planned before, because the position was put back, is sent again. Behind the last change of its sources, the
 * position goes on to the fence, so that the changes of other sources are not looked through again and again.
 */
const PLAN = `
  with endpoint as materialized (
    select source_ids, position from mirror.outgoing_endpoints
    where endpoint_id = $1 and definition = $6 for update skip locked
  ),
  room as materialized (
    select ${PENDING_MAX} - count(*) as places from (
      select from mirror.outgoing_deliveries where endpoint_id = $1 and state = 'pending' limit ${PENDING_MAX}) pending
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
    order by c.position limit least($2, (select places from room))
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
    from (select case when count(*) < least($2, (select places from room)) then $5::bigint
                 else max(position) end as position from fresh) l, endpoint
    where e.endpoint_id = $1 and e.position < l.position
  )
  select (select count(*)::int from planned) as planned, count(*)::int as read from fresh`;

/** Makes deliveries of the next changes, at most `limit`; none while another process does, or while too many wait. */
export async function planDeliveries(
  pool: Pool,
  { endpointId, definition, types, statuses }: Wanted,
  limit: number,
): Promise<{ readonly read: number; readonly planned: number }> {
  const fence = await readFeedFence(pool);
  const { rows } = await pool.query<{ read: number; planned: number }>({
    name: "outgoing-plan",
    text: PLAN,
    values: [endpointId, limit, types, statuses, String(fence), definition],
  });
  return rows[0] ?? { read: 0, planned: 0 };
}

/** A delivery that this process is to send now. */
export type TakenDelivery = Pick<Change, "sourceId" | "before" | "after"> & {
  readonly deliveryId: string;
  /** Attempts that failed. */
  readonly attempts: number;
  /** The epoch of the change's position. */
  readonly epoch: string;
  readonly createdAt: Instant;
} & (
    | (Change & { readonly type: OutgoingType })
    /** A test has no change; or the change is no longer kept, and there is nothing to send. */
    | { readonly type: OutgoingType | "test"; readonly position: null }
  );

/** An attempt that is not ended by then has lost its process. */
const TAKEN_FOR = "interval '1 minute'";

const TAKE = `
  -- The locked endpoint serialises those who take, so the limits hold for all processes together. What the one before has
  -- taken is counted by a function: this statement sees only what was committed before its wait.
  with endpoint as materialized (
    select clock_timestamp() as now, sends_from from mirror.outgoing_endpoints
    where endpoint_id = $1 and definition = $2 and paused_at is null for update
  ),
  -- With a rate, messages are spread evenly: at most a tenth of a second's messages, or one, at once.
  room as materialized (
    select now, spread.since, greatest(0, least(
      $3 - mirror.under_way($1),
      floor(extract(epoch from now - spread.since) * $4::numeric + 0.001)))::int as places
    from endpoint, lateral (
      select greatest(sends_from, now - greatest(0.1, 1.0 / $4) * interval '1 second') as since) spread
  ),
  -- For an ordered endpoint, a change waits until the earlier ones of its order have ended.
  due as (
    select d.delivery_id from mirror.outgoing_deliveries d
    where d.endpoint_id = $1 and d.state = 'pending' and d.next_attempt_at <= (select now from room)
      and (d.taken_until is null or d.taken_until <= (select now from room))
      and not ($5 and exists (
        select from mirror.outgoing_deliveries o
        where o.endpoint_id = d.endpoint_id and o.source_id = d.source_id and o.reference = d.reference
          and o.position < d.position and o.state = 'pending'))
    order by d.next_attempt_at, d.position
    limit coalesce((select places from room), 0) for update skip locked
  ),
  taken as (
    update mirror.outgoing_deliveries d set taken_until = room.now + ${TAKEN_FOR}
    from due, room where d.delivery_id = due.delivery_id returning d.*
  ),
  spaced as (
    update mirror.outgoing_endpoints set sends_from = room.since + taken.messages / $4::numeric * interval '1 second'
    from room, (select count(*) as messages from taken) taken
    where $4::numeric is not null and endpoint_id = $1 and taken.messages > 0
  )
  select d.delivery_id as "deliveryId", d.attempts, d.event_type as type, mirror.nanos_of(d.created_at) as "createdAt",
    (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    ${changeColumns("c")}, d.source_id as "sourceId", mirror.change_digest(c) as digest, h.raw::text as after, p.raw::text as before
  from taken d
  left join mirror.changes c on c.position = d.position and c.source_id = d.source_id
  left join mirror.snapshots h on h.history_id = c.history_id
  left join mirror.snapshots p on p.history_id = c.previous_history_id
  order by d.next_attempt_at, d.position`;

/** Takes what is due, at most `underWayMax` under way in all processes; again what is not ended in a minute. */
export async function takeDue(
  pool: Pool,
  { endpointId, definition, rate, ordered }: Taker,
  underWayMax: number,
): Promise<TakenDelivery[]> {
  const statement = { name: "outgoing-take", text: TAKE };
  return queryInstants<TakenDelivery>(pool, statement, [endpointId, definition, underWayMax, rate, ordered]);
}

// The order may have been erased during the attempt: the answer could still repeat what the message said.
// A delivery that was sent again in the meantime has another id: the late end of the former one changes nothing.
const RECORD = `
  with endpoint as materialized (
    select endpoint_id from mirror.outgoing_endpoints
    where endpoint_id = $7 and ($2 <> 'delivered' or failures_in_row > 0) for update
  ), recorded as (
    update mirror.outgoing_deliveries d set
      state = $2, attempts = attempts + 1, last_attempt_at = clock_timestamp(), last_outcome = $3, taken_until = null,
      next_attempt_at = clock_timestamp() + $6 * interval '1 millisecond',
      last_attempts = jsonb_path_query_array(jsonb_build_object(
        'at', extract(epoch from clock_timestamp())::float8, 'outcome', $3::text, 'ms', $4::int) || last_attempts, '$[0 to 9]'),
      delivered_at = case when $2 = 'delivered' then clock_timestamp() end,
      answer = case when not exists (
        select from mirror.erasures x where x.source_id = d.source_id and x.reference = d.reference) then $5 end
    where delivery_id = $1 and state = 'pending' and (select count(*) from endpoint) >= 0
    returning 1
  )
  update mirror.outgoing_endpoints e
  set failures_in_row = case when $2 = 'delivered' then 0 else failures_in_row + 1 end
  from recorded, endpoint where e.endpoint_id = endpoint.endpoint_id`;

/** Records the end of an attempt, and when the next one is due. */
export async function recordAttempt(
  pool: Pool,
  end: {
    readonly endpointId: string;
    readonly deliveryId: string;
    readonly outcome: string;
    readonly durationMs: number;
    /** The beginning of the answer, as people may see it; null: empty. */
    readonly answer: string | null;
    readonly result: AttemptResult;
    /** After a failure that is not the last. */
    readonly delayMs?: number;
  },
): Promise<void> {
  const { endpointId, deliveryId, result, outcome, durationMs, answer, delayMs = 0 } = end;
  await pool.query({
    name: "outgoing-record",
    text: RECORD,
    values: [deliveryId, result, outcome, durationMs, answer, delayMs, endpointId],
  });
}
