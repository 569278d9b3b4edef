import type { Instant } from "../domain/order/instant.ts";
import { readFeedFence } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";

/** A message that was given up. */
export interface DeadDelivery {
  readonly deliveryId: string;
  readonly endpointId: string;
  readonly sourceId: string;
  /** Null for changes that were missed. */
  readonly reference: string | null;
  readonly type: string;
  readonly attempts: number;
  readonly outcome: string | null;
  /** Seconds since 1970. */
  readonly lastAttemptAt: number | null;
}

/** Messages that were given up, the newest first, at most `limit`; of one endpoint or of all (null). */
export async function readDeadDeliveries(
  pool: Pool,
  { endpointId, limit }: { endpointId: string | null; limit: number },
): Promise<DeadDelivery[]> {
  const { rows } = await pool.query<DeadDelivery>(
    `select delivery_id as "deliveryId", endpoint_id as "endpointId", source_id as "sourceId", reference,
       event_type as type, attempts, last_outcome as outcome, extract(epoch from last_attempt_at)::float8 as "lastAttemptAt"
     from mirror.outgoing_deliveries
     where state = 'dead' and ($1::text is null or endpoint_id = $1)
     order by position desc limit $2`,
    [endpointId, limit],
  );
  return rows;
}

/**
 * The position before the first change of a source that we learned of at `instant` or later, by the database's clock; 0
 * when that is the first of all.
 */
export async function readFeedPositionAt(
  pool: Pool,
  { sourceId, instant }: { sourceId: string; instant: Instant },
): Promise<bigint> {
  const { rows } = await pool.query<{ position: string | null }>(
    `select max(position) as position from mirror.changes
     where source_id = $1 and changed_at < to_timestamp($2::numeric / 1000000000)
       and position <= $3`,
    [sourceId, String(instant), String(await readFeedFence(pool))],
  );
  return BigInt(rows[0]?.position ?? 0);
}

/** How many changes behind `from` an endpoint was notified of, or would have been had it wanted them. */
export async function countReplay(
  pool: Pool,
  replay: { endpointId: string; sourceId: string; from: bigint },
): Promise<number> {
  const { rows } = await pool.query<{ changes: number }>(
    `select count(*)::int as changes from mirror.outgoing_cursors o
     join mirror.changes c on c.source_id = o.source_id
       and c.position > $3::bigint and c.position <= o.position
     where o.endpoint_id = $1 and o.source_id = $2`,
    [replay.endpointId, replay.sourceId, String(replay.from)],
  );
  return rows[0]?.changes ?? 0;
}
