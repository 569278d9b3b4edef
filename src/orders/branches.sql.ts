import type { Pool } from "../database/database.ts";

/** A branch as named in filters: the spec reads a UUID as an id, everything else as a reference. */
export type BranchName = { readonly id: string } | { readonly reference: string };

/** A UUID may be upper or lower case; the provider chose which one is stored. */
const BY_ID = `
  (select branch_id from mirror.branches where source_id = $1 and branch_id in ($2, lower($2), upper($2)) limit 1)
  union all
  (select branch_id from mirror.orders where source_id = $1 and branch_id in ($2, lower($2), upper($2)) limit 1)
  limit 1`;

/*
 * The provider lists only open branches, so a branch that was closed before we began is known only from its orders. This
 * reads the last order of each branch: a walk over the index from one branch to the next, while a search by reference
 * would read all orders.
 */
const BY_REFERENCE = `
  with recursive known as (
    select branch_id from mirror.branches where source_id = $1 and reference = $2
  ),
  seen as (
    (select o.branch_id from mirror.orders o
      where o.source_id = $1 and o.branch_id is not null and not exists (select from known)
      order by o.branch_id limit 1)
    union all
    select (select o.branch_id from mirror.orders o
      where o.source_id = $1 and o.branch_id > seen.branch_id order by o.branch_id limit 1)
    from seen where seen.branch_id is not null
  ),
  last as (
    select o.branch_id, o.branch_reference, o.version
    from seen cross join lateral (
      select * from mirror.orders
      where source_id = $1 and branch_id = seen.branch_id order by version desc limit 1) o
  )
  select branch_id from known
  union all
  (select branch_id from last where branch_reference = $2 order by version desc limit 1)
  limit 1`;

/**
 * The id of a branch, or undefined if the source has none of that name. A reference is compared exactly, including
 * case, with the branch's current name; closed branches are found, too (spec, "list orders").
 */
export async function findBranchId(
  pool: Pool,
  { sourceId, branch }: { sourceId: string; branch: BranchName },
): Promise<string | undefined> {
  const [text, name] = "id" in branch ? [BY_ID, branch.id] : [BY_REFERENCE, branch.reference];
  const { rows } = await pool.query<{ branch_id: string }>(text, [sourceId, name]);
  return rows[0]?.branch_id;
}

/** Open branches as unchanged JSON texts of the provider, by name; undefined before they were first read. */
export async function selectBranches(pool: Pool, sourceId: string): Promise<string[] | undefined> {
  const { rows } = await pool.query<{ raw: string; open: boolean }>(
    `select raw::text as raw, closed_at is null as open from mirror.branches where source_id = $1
     order by name, branch_id`,
    [sourceId],
  );
  return rows.length === 0 ? undefined : rows.filter(({ open }) => open).map(({ raw }) => raw);
}
