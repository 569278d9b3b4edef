import type { Instant } from "../domain/order/instant.ts";
import { readFeedFence } from "../changes/changeFeed.sql.ts";
import type { Pool } from "../database/database.ts";

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
