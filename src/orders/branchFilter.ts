import { findBranchId } from "./branches.sql.ts";
import type { Pool } from "../database/database.ts";
import type { OrderFilter } from "./orderFilter.sql.ts";
import { ASSUMED_CODES } from "../wire/api.ts";
import { refuseParameter } from "../http/errors.ts";
import type { AskedFilter } from "./orderQuery.ts";
import { readOrUnavailable } from "../http/respond.ts";

/**
 * The filter with its branch resolved. Throws RefusedRequestError, 422 branch_not_found, if the branch does not exist
 * (spec, "list orders": an error, not an empty page).
 */
export async function resolveBranch(
  pool: Pool,
  { sourceId, asked }: { sourceId: string; asked: AskedFilter },
): Promise<OrderFilter> {
  const { branch, ...filter } = asked;
  if (branch === undefined) return { ...filter, sourceId };
  const branchId = await readOrUnavailable(findBranchId(pool, { sourceId, branch }));
  if (branchId === undefined)
    throw refuseParameter("branch matches no branch.", ASSUMED_CODES.branchNotFound);
  return { ...filter, sourceId, branchId };
}
