import { selectBranches } from "./branches.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { readOrUnavailable, sendJson } from "../http/respond.ts";
import type { Route } from "../http/route.ts";
import { RefusedRequestError } from "../wire/refusal.ts";

const NOT_READ = {
  status: 503,
  code: "temporarily_unavailable",
  message: "The branches have not been read from the provider yet.",
  headers: { "Retry-After": "5" },
};

/**
 * GET /v1/branches (spec, "list branches"): open branches as the provider listed them at `X-Branches-As-Of`, in its order
 * and in one page. 503 before they were first read: an empty list would say that there are none.
 */
export function makeListBranches(deps: { pool: Pool; authenticate: Authenticate }): Route {
  const { pool, authenticate } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const branches = await readOrUnavailable(selectBranches(pool, sourceId));
    if (branches === undefined) throw new RefusedRequestError(NOT_READ);
    response.setHeader("X-Branches-As-Of", branches.asOf);
    sendJson(response, `{"data":[${branches.raws.join(",")}],"hasMore":false}`);
  };
}
