import type { Pool } from "../../database/database.ts";

/**
 * Whether to read the branches of a source now, and the time before that read by the database's clock. `waits`: an order
 * names a branch that the list does not have.
 *
 * They are due when the last list is older than `everySeconds`; and when it is older than `pauseSeconds` and an order that
 * changed since names a branch that the list does not have under that name: a new, reopened or renamed one. Orders of long
 * ago, which a backfill brings, may name branches that have closed since. Many orders name few branches, so each branch is
 * looked up once.
 */
export async function selectBranchesDue(
  pool: Pool,
  { sourceId, everySeconds, pauseSeconds }: { sourceId: string; everySeconds: number; pauseSeconds: number },
): Promise<{ due: boolean; waits: boolean; now: string }> {
  const { rows } = await pool.query<{ due: boolean; waits: boolean; now: string }>(
    `with source as materialized (
       select s.branches_read_at, exists (
         select from (
           select distinct o.branch_id, o.branch_reference from mirror.orders o
           where o.source_id = s.source_id and o.changed_at >= s.branches_read_at
             and o.updated_at >= s.branches_read_at - interval '1 hour'
             and coalesce(o.branch_id, o.branch_reference) is not null) named
         where not exists (
           select from mirror.branches b
           where b.source_id = s.source_id and b.closed_at is null
             and b.branch_id = coalesce(named.branch_id, b.branch_id)
             and (named.branch_reference is null or b.reference = named.branch_reference))) as waits
       from mirror.sources s where s.source_id = $1
     )
     select clock_timestamp() as now, waits,
       branches_read_at is null
       or branches_read_at < clock_timestamp() - case when waits then $3::integer else $2::integer end * interval '1 second' as due
     from source`,
    [sourceId, everySeconds, pauseSeconds],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a source is recorded before it is polled");
  return row;
}
