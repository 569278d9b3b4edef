import type { RequestHandler } from "express";
import { UnavailableError } from "../domain/errors.ts";
import { selectBranches } from "./branches.sql.ts";
import type { Pool } from "../database/database.ts";
import type { Authenticate } from "../http/authenticate.ts";
import { stampFreshness } from "./freshness.ts";
import { readOrUnavailable, sendJson } from "../http/respond.ts";

/**
 * GET /v1/branches (spec, "list branches"): open branches as the provider last listed them, in one page. 503 before
 * they were first read: an empty list would say that there are none.
 */
export function makeListBranches(deps: { pool: Pool; authenticate: Authenticate }): RequestHandler {
  const { pool, authenticate } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    await stampFreshness(response, { pool, sourceId });
    const branches = await readOrUnavailable(selectBranches(pool, sourceId));
    if (branches === undefined)
      throw new UnavailableError("The branches have not been read from the provider yet.");
    sendJson(response, `{"data":[${branches.join(",")}],"hasMore":false}`);
  };
}
