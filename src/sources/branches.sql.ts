import type { Pool } from "../database/database.ts";

/** A branch as named in filters: the spec reads a UUID as an id, everything else as a reference. */
export type BranchName = { readonly id: string } | { readonly reference: string };

/** A UUID may be upper or lower case; the provider chose which one is stored. */
const BY_ID = `
  select branch_id, reference from mirror.branches
  where source_id = $1 and branch_id in ($2, lower($2), upper($2))
  union all
  (select branch_id, null from mirror.orders
   where source_id = $1 and branch_id in ($2, lower($2), upper($2)) limit 1)
  limit 1`;

/*
 * The provider lists only open branches, so a branch that was closed before we began is known only from its orders.
 * This reads the last order of each branch: a walk over the index from one branch to the next, while a search by
 * reference would read all orders. Orders that name their branch without an id have an index of their own.
 */
const BY_REFERENCE = `
  with recursive known as (
    select branch_id from mirror.branches where source_id = $1 and reference = $2
    order by closed_at desc nulls first, branch_id limit 1
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
  select branch_id, $2 as reference from known
  union all
  (select branch_id, $2 from last where branch_reference = $2 order by version desc limit 1)
  union all
  (select null, $2 from mirror.orders
   where source_id = $1 and branch_id is null and branch_reference = $2 limit 1)
  limit 1`;

/** A provider's orders may name a branch by its id, by its reference alone, or some in this way and some in that. */
const describeFound = (named: string) => `
  select case when by_id or not by_reference then branch_id end as branch_id, case when by_reference then reference end as branch_reference
  from (${named}) as named cross join lateral (
    select
      exists (select from mirror.orders o where o.source_id = $1 and o.branch_id = named.branch_id) as by_id,
      exists (select from mirror.orders o
        where o.source_id = $1 and o.branch_id is null and o.branch_reference = named.reference) as by_reference) orders`;

/**
 * Finds what selects the orders of a branch, or undefined if the source has no branch of that name. A reference is
 * compared exactly, including case, with the branch's current name; closed branches are found, too (spec, "list
 * orders").
 */
export async function findBranch(
  pool: Pool,
  { sourceId, branch }: { sourceId: string; branch: BranchName },
): Promise<{ branchId?: string | undefined; branchReference?: string | undefined } | undefined> {
  const [text, name] = "id" in branch ? [BY_ID, branch.id] : [BY_REFERENCE, branch.reference];
  const { rows } = await pool.query<{ branch_id: string | null; branch_reference: string | null }>(
    describeFound(text),
    [sourceId, name],
  );
  const [row] = rows;
  if (row === undefined) return undefined;
  return { branchId: row.branch_id ?? undefined, branchReference: row.branch_reference ?? undefined };
}

/**
 * Open branches as unchanged JSON texts of the provider, in its order, and the time as of which; undefined before they
 * were first read.
 */
export async function selectBranches(
  pool: Pool,
  sourceId: string,
): Promise<{ readonly asOf: string; readonly raws: readonly string[] } | undefined> {
  const { rows } = await pool.query<{ as_of: string | null; raw: string | null }>(
    `select to_char(s.branches_read_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as as_of, b.raw::text as raw
     from mirror.sources s
     left join mirror.branches b on b.source_id = s.source_id and b.closed_at is null
     where s.source_id = $1 order by b.position, b.branch_id`,
    [sourceId],
  );
  const asOf = rows[0]?.as_of ?? null;
  return asOf === null ? undefined : { asOf, raws: rows.flatMap(({ raw }) => raw ?? []) };
}
