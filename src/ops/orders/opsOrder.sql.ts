import type { Instant } from "../../domain/order/instant.ts";
import type { Pool } from "../../database/database.ts";

/** A change of the order that a read found before any event. */
export interface UnannouncedChange {
  readonly version: Instant;
  readonly state: "waiting" | "late" | "lost" | "not_announced";
}

/** Related facts about one order. */
export interface OrderSurroundings {
  /** False: no such source was ever configured. */
  readonly sourceKnown: boolean;
  /** Age of the re-read request in seconds; null if there is none. */
  readonly refetchAgeSeconds: number | null;
  readonly refetchAttempts: number;
  /** Numbers of its open quarantine entries, newest first, at most 20. */
  readonly quarantineIds: readonly string[];
  readonly unannounced: readonly UnannouncedChange[];
}

export async function readOrderSurroundings(
  pool: Pool,
  { sourceId, reference }: { sourceId: string; reference: string },
): Promise<OrderSurroundings> {
  const { rows } = await pool.query<{
    source_known: boolean;
    refetch_age_seconds: number | null;
    attempts: number | null;
    quarantine_ids: string[];
    unannounced: { version: string; state: UnannouncedChange["state"] }[];
  }>(
    `select exists (select from mirror.sources where source_id = $1) as source_known,
       extract(epoch from clock_timestamp() - r.requested_at)::float8 as refetch_age_seconds, r.attempts,
       array(select quarantine_id::text from mirror.quarantine
         where source_id = $1 and reference = $2 and state = 'open' order by quarantine_id desc limit 20) as quarantine_ids,
       coalesce((select json_agg(json_build_object('version', version::text, 'state', state))
         from mirror.unannounced_changes where source_id = $1 and reference = $2), '[]') as unannounced
     from (values (1)) one left join mirror.refetches r on r.source_id = $1 and r.reference = $2`,
    [sourceId, reference],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a row of values returns a row");
  return {
    sourceKnown: row.source_known,
    refetchAgeSeconds: row.refetch_age_seconds,
    refetchAttempts: row.attempts ?? 0,
    quarantineIds: row.quarantine_ids,
    unannounced: row.unannounced.map(({ version, state }) => ({ version: BigInt(version), state })),
  };
}
