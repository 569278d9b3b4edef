import { findBranch } from "./branches.sql.ts";
import type { Pool } from "../database/database.ts";
import type { OrderFilter } from "./orderFilter.sql.ts";
import type { AskedFilter } from "./orderQuery.ts";
import { hasStatus } from "./orderReads.sql.ts";
import { readOrUnavailable } from "../http/respond.ts";
import { ORDER_STATUSES, refuseStatus } from "../wire/listParameters.ts";
import { refuseBranch } from "../wire/refusal.ts";

/**
 * The filter with its branch resolved. Throws RefusedRequestError: 422 invalid_request for a status that is neither known
 * nor that of any order, because the provider may have more statuses than it documents; and 422 branch_not_found for a
 * branch that does not exist (spec, "list orders": an error, not an empty page).
 */
export async function resolveFilter(
  pool: Pool,
  { sourceId, asked }: { sourceId: string; asked: AskedFilter },
): Promise<OrderFilter> {
  const { branch, ...filter } = asked;
  const { status } = filter;
  const isKnown = status === undefined || ORDER_STATUSES.some((each) => each === status);
  if (!isKnown && (isUnstorable(status) || !(await readOrUnavailable(hasStatus(pool, { sourceId, status })))))
    throw refuseStatus();
  if (branch === undefined) return { ...filter, sourceId };
  const found = isUnstorable(Object.values(branch).join())
    ? undefined
    : await readOrUnavailable(findBranch(pool, { sourceId, branch }));
  if (found === undefined) throw refuseBranch();
  return { ...filter, ...found, sourceId };
}

/** The database's text cannot hold NUL, so nothing there can match. */
function isUnstorable(text: string): boolean {
  return text.includes("\0");
}
