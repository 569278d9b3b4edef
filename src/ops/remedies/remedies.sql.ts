import type { Pool } from "../../database/database.ts";

/** Orders that a proof excludes until a single read has shown them, the longest known first. */
export async function readExcepted(
  pool: Pool,
  { sourceId, limit }: { sourceId: string; limit: number },
): Promise<{ readonly references: readonly string[]; readonly count: number }> {
  const { rows } = await pool.query<{ reference: string; count: number }>(
    `select e.reference, count(*) over ()::int as count
     from mirror.exceptions e join mirror.refetches r using (source_id, reference)
     where source_id = $1 order by e.found_at, e.reference limit $2`,
    [sourceId, limit],
  );
  return { references: rows.map(({ reference }) => reference), count: rows[0]?.count ?? 0 };
}

/** Makes the single reads of these orders due now; returns their number. What they are read for stays recorded. */
export async function hastenExcepted(pool: Pool, sourceId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `update mirror.refetches r set next_attempt_at = clock_timestamp()
     from mirror.exceptions e
     where r.source_id = $1 and e.source_id = r.source_id and e.reference = r.reference`,
    [sourceId],
  );
  return rowCount ?? 0;
}
