import type { Instant } from "../domain/order/instant.ts";
import { readFeedFence } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";

export const DELIVERY_STATES = ["pending", "dead", "delivered"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

export interface Delivery {
  readonly deliveryId: string;
  readonly endpointId: string;
  readonly sourceId: string;
  readonly reference: string;
  readonly type: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly outcome: string | null;
  /** These times are seconds since 1970. */
  readonly createdAt: number;
  readonly lastAttemptAt: number | null;
  readonly durationMs: number | null;
  /** The first characters of the last answer; see showAnswer. */
  readonly answer: string | null;
}

const DELIVERY = `
  select delivery_id as "deliveryId", endpoint_id as "endpointId", source_id as "sourceId", reference,
    event_type as type, state, attempts, last_outcome as outcome, extract(epoch from created_at)::float8 as "createdAt",
    extract(epoch from last_attempt_at)::float8 as "lastAttemptAt", duration_ms as "durationMs", answer
  from mirror.outgoing_deliveries`;

/** The newest messages, at most `limit`; null means no restriction. `before` is the number of a delivery. */
export async function readDeliveries(
  pool: Pool,
  query: {
    endpointId: string | null;
    state: DeliveryState | null;
    /** Only messages that were sent at least once. */
    attempted?: boolean;
    before?: string | null;
    limit: number;
  },
): Promise<Delivery[]> {
  const { endpointId, state, attempted = false, before = null, limit } = query;
  const { rows } = await pool.query<Delivery>(
    `${DELIVERY}
     where ($1::text is null or endpoint_id = $1) and ($2::text is null or state = $2)
       and ($3::bigint is null or delivery_id < $3) and (not $5 or last_attempt_at is not null)
     order by delivery_id desc limit $4`,
    [endpointId, state, before, limit, attempted],
  );
  return rows;
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

/** How many changes behind `from` an endpoint was notified of, or would have been had it wanted them. */
export async function countReplay(
  pool: Pool,
  { endpointId, from }: { endpointId: string; from: bigint },
): Promise<number> {
  const { rows } = await pool.query<{ changes: number }>(
    `select count(*)::int as changes from mirror.outgoing_endpoints e
     join mirror.changes c on c.source_id = any (e.source_ids)
       and c.position > $2::bigint and c.position <= e.position
     where e.endpoint_id = $1`,
    [endpointId, String(from)],
  );
  return rows[0]?.changes ?? 0;
}
