import type { Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";

// Endpoints and what people do with them. A list adds and changes an endpoint; only a person pauses or removes one.
// Whoever changes several deliveries of an endpoint locks the endpoint first, so that no two wait for each other.

/** An endpoint as a process lists it. */
export interface ListedEndpoint {
  readonly endpointId: string;
  readonly sourceIds: readonly string[];
  /** Digest of everything that the list says of the endpoint. */
  readonly definition: string;
}

/** A worker that has not listed an endpoint for this long has ended. */
const LISTED_FOR = "interval '30 seconds'";

/**
 * Records the endpoints that this process lists, and returns those that it lists as they are in force. A new one begins
 * behind the last change. Another content comes into force when no process has listed the former one for 30 s, so
 * that two processes with different lists do not take turns: until then the endpoint is marked as disputed. What waits
 * for an endpoint, or was given up, goes with the source that its list does not have any more.
 */
export async function syncEndpoints(pool: Pool, listed: readonly ListedEndpoint[]): Promise<string[]> {
  const { rows } = await pool.query<{ endpointId: string }>({
    name: "outgoing-listed",
    text: `with wanted as (
        select * from jsonb_to_recordset($1::jsonb) as w ("endpointId" text, "sourceIds" text[], definition text)
      ), former as (
        select endpoint_id, source_ids from mirror.outgoing_endpoints join wanted on endpoint_id = "endpointId"
        where not source_ids <@ "sourceIds"
      ), recorded as (
        insert into mirror.outgoing_endpoints as e (endpoint_id, source_ids, definition, position)
        select "endpointId", "sourceIds", definition, mirror.feed_fence() from wanted order by "endpointId"
        on conflict (endpoint_id) do update
        set source_ids = excluded.source_ids, definition = excluded.definition, listed_at = clock_timestamp()
        where e.definition = excluded.definition or e.listed_at < clock_timestamp() - ${LISTED_FOR}
        returning endpoint_id, source_ids
      ), dropped as (
        delete from mirror.outgoing_deliveries d using former join recorded r using (endpoint_id)
        where d.endpoint_id = r.endpoint_id and d.state <> 'delivered' and d.source_id <> all (r.source_ids)
      ), disputed as (
        update mirror.outgoing_endpoints set disputed_at = clock_timestamp()
        where endpoint_id in (select "endpointId" from wanted) and endpoint_id not in (select endpoint_id from recorded)
      )
      select endpoint_id as "endpointId" from recorded`,
    values: [JSON.stringify(listed)],
  });
  return rows.map(({ endpointId }) => endpointId);
}

/** Forgets an endpoint, its messages and its place in the feed; false while a worker lists it, or if there is none. */
export async function removeEndpoint(pool: Pool, endpointId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `delete from mirror.outgoing_endpoints
     where endpoint_id = $1 and greatest(listed_at, disputed_at) < clock_timestamp() - ${LISTED_FOR}`,
    [endpointId],
  );
  return rowCount === 1;
}

const LOCKED = "select endpoint_id from mirror.outgoing_endpoints where endpoint_id = $1 for update";

/** Pauses an endpoint, or ends its pause and makes what waits due; false when nothing had to be changed. */
export async function setEndpointPaused(
  pool: Pool,
  pause: { endpointId: string; paused: boolean },
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `with changed as materialized (
       update mirror.outgoing_endpoints set paused_at = case when $2 then clock_timestamp() end,
         resumed_at = case when $2 then resumed_at else clock_timestamp() end
       where endpoint_id = $1 and (paused_at is null) = $2 returning endpoint_id
     ), due as (
       update mirror.outgoing_deliveries set next_attempt_at = clock_timestamp()
       where endpoint_id in (select * from changed) and state = 'pending' and not $2
     )
     select from changed`,
    [pause.endpointId, pause.paused],
  );
  return rowCount === 1;
}

/**
 * The assignments that make a delivery one that is to be sent again: under another id, so that the late end of an
 * attempt under way changes nothing of it.
 */
export const AGAIN = `delivery_id = default, state = 'pending', attempts = 0, next_attempt_at = clock_timestamp(),
  delivered_at = null, created_at = clock_timestamp()`;

/** Sends now what waits for its next attempt, or again what was given up; returns how many messages that are. */
export async function sendNow(pool: Pool, endpointId: string, state: "pending" | "dead"): Promise<number> {
  const { rowCount } = await pool.query(
    `with endpoint as materialized (${LOCKED})
     update mirror.outgoing_deliveries set ${state === "dead" ? AGAIN : "next_attempt_at = clock_timestamp()"}
     where endpoint_id in (select * from endpoint) and state = $2 and event_type <> 'test'
       and ($2 = 'dead' or next_attempt_at > clock_timestamp())`,
    [endpointId, state],
  );
  return rowCount ?? 0;
}

/** Sends a message without an order to an endpoint, in place of those not under way; false if it is unknown. */
export async function planTest(pool: Pool, endpointId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `with endpoint as materialized (${LOCKED}), former as (
       delete from mirror.outgoing_deliveries
       where endpoint_id in (select * from endpoint) and event_type = 'test'
         and coalesce(taken_until, '-infinity') <= clock_timestamp()
     )
     insert into mirror.outgoing_deliveries (endpoint_id, source_id, event_type)
     select e.endpoint_id, e.source_ids[1], 'test' from mirror.outgoing_endpoints e join endpoint using (endpoint_id)`,
    [endpointId],
  );
  return rowCount === 1;
}

/**
 * The position before the first change that we learned of at `instant` or later; the last one if there is none. Later
 * ones may have an earlier time, because the database's clock was set back.
 */
export async function readFeedPositionAt(pool: Pool, instant: Instant): Promise<bigint> {
  const { rows } = await pool.query<{ position: string }>(
    // Without the sum Postgres would walk through the feed by position, from its beginning to the first that is found.
    `select coalesce(min(position + 0) - 1, mirror.feed_fence()) as position from mirror.changes
     where changed_at >= to_timestamp($1::numeric / 1000000000)`,
    [String(instant)],
  );
  return BigInt(rows[0]?.position ?? 0);
}

/**
 * Puts an endpoint back, so that all changes behind the position `from` are sent again. Returns how many there are,
 * whether it wanted them or not; null when it is not beyond that position.
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
