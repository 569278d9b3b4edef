import { applyAbsence, type Absence, type AbsenceOutcome } from "../../../src/apply/absence.sql.ts";
import type { Pool } from "../../../src/database/database.ts";

/** A second answer that finds no such order: the first was a margin before, and a window was proved since. */
export async function missAgain(
  pool: Pool,
  absence: Omit<Absence, "via" | "missedAt" | "marginSeconds">,
): Promise<AbsenceOutcome> {
  const { sourceId, requestedAt } = absence;
  const missedAt = requestedAt - 1_000_000_000n;
  await pool.query(
    `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, begun_at)
     values ($1, 0, 1, 'proof', true, 0, 1, 1, $2)`,
    [sourceId, missedAt],
  );
  return applyAbsence(pool, { ...absence, via: "refetch", missedAt, marginSeconds: 1 });
}
