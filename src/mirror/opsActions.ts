import type { Pool } from "./database.ts";

export type OpsRole = "operator" | "viewer";

/** Wishes for an order to be read again, and writes that into the audit log: both or neither. */
export async function wishRefetch(
  pool: Pool,
  { role, sourceId, reference }: { role: OpsRole; sourceId: string; reference: string },
): Promise<void> {
  await pool.query(
    `with noted as (
       insert into mirror.ops_actions (role, action, source_id, target, affected) values ($1, 'refetch', $2, $3, 1)
     )
     insert into mirror.refetches (source_id, reference, reason) values ($2, $3, 'asked for by a person')
     on conflict (source_id, reference) do update set
       reason = excluded.reason, requested_at = clock_timestamp(), attempts = 0`,
    [role, sourceId, reference],
  );
}
