import type { Pool } from "../../database/database.ts";

/** A wish to have one order read again. */
export interface Refetch {
  readonly reference: string;
  readonly reason: string;
  /** Reads that failed, or came too early, so far. */
  readonly attempts: number;
  /** The database's text of when it was wished; names this wish. */
  readonly requestedAt: string;
}

/** Wishes for orders to be read again. One that is waiting already starts anew: it must be read after this. */
export async function requestRefetches(
  pool: Pool,
  { sourceId, references, reason }: { sourceId: string; references: readonly string[]; reason: string },
): Promise<void> {
  await pool.query(
    `insert into mirror.refetches (source_id, reference, reason)
     select $1, reference, $3 from (select distinct unnest($2::text[]) as reference) wished order by reference
     on conflict (source_id, reference) do update set
       reason = excluded.reason, requested_at = clock_timestamp(), attempts = 0`,
    [sourceId, references, reason],
  );
}

/** The wishes to see to next: those that failed least, then the oldest. */
export async function takeRefetches(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<Refetch[]> {
  const { rows } = await pool.query<{
    reference: string;
    reason: string;
    attempts: number;
    requested_at: string;
  }>(
    `select reference, reason, attempts, requested_at::text from mirror.refetches
     where source_id = $1 order by attempts, requested_at limit $2`,
    [sourceId, limit],
  );
  return rows.map(({ reference, reason, attempts, requested_at: requestedAt }) => {
    return { reference, reason, attempts, requestedAt };
  });
}

/** The wish is fulfilled, or given up; one that was repeated in the meantime stays. */
export async function completeRefetch(
  pool: Pool,
  { sourceId, refetch }: { sourceId: string; refetch: Refetch },
): Promise<void> {
  await pool.query(
    `delete from mirror.refetches
     where source_id = $1 and reference = $2 and requested_at = $3::timestamptz`,
    [sourceId, refetch.reference, refetch.requestedAt],
  );
}

/** Counts an attempt that did not fulfil the wish; it comes after the others next time. */
export async function postponeRefetch(
  pool: Pool,
  { sourceId, refetch }: { sourceId: string; refetch: Refetch },
): Promise<void> {
  await pool.query(
    `update mirror.refetches set attempts = attempts + 1
     where source_id = $1 and reference = $2 and requested_at = $3::timestamptz`,
    [sourceId, refetch.reference, refetch.requestedAt],
  );
}
