import { Router } from "express";
import type { RequestHandler, Response } from "express";
import { formatInstant } from "../domain/instant.ts";
import type { Pool } from "../mirror/database.ts";
import { hasOrdersOfBranch, selectOrder, selectOrders, selectSafeThrough } from "../mirror/orderReads.ts";
import type { OrdersQuery } from "../mirror/orderReads.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/logger.ts";
import { makeAuthenticate } from "./authenticate.ts";
import type { Authenticate } from "./authenticate.ts";
import type { ChangeHub } from "./changeHub.ts";
import { makeListChanges } from "./changeRoutes.ts";
import { makeStreamChanges } from "./changeStream.ts";
import { writeCursor } from "./cursor.ts";
import { RefusedRequestError } from "./errors.ts";
import { writePage } from "./orderJson.ts";
import { parseOrderQuery } from "./orderQuery.ts";
import { readParameters } from "./parameters.ts";
import { makeErrorAnswer, readOrUnavailable, sendJson, stampAnswer } from "./respond.ts";

export interface ReportDeps {
  readonly pool: Pool;
  readonly sources: readonly { sourceId: string }[];
  /** None: only programs on this machine may read. */
  readonly apiTokens: readonly { token: string; sourceId: string }[];
  /** Feeds the streams of changes; closed by who made it. */
  readonly hub: ChangeHub;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface HandlerDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
}

/**
 * The read API under `/v1`: the provider's own paths, parameters, bodies and errors, answered from the mirror; and
 * the change feed.
 *
 * Every answer with orders carries `X-Safe-Through`: each change with `updatedAt` before it is in the answer. It is
 * absent while that is not known.
 */
export function makeReportRouter(deps: ReportDeps): Router {
  const { pool, hub, sources, apiTokens, clock, logger } = deps;
  const authenticate = makeAuthenticate({ sources, apiTokens });
  const v1 = Router();
  v1.use(stampAnswer);
  v1.get("/orders", makeListOrders({ pool, authenticate }));
  v1.get("/orders/:reference", makeGetOrder({ pool, authenticate }));
  v1.get("/changes", makeListChanges({ pool, authenticate }));
  v1.get("/changes/stream", makeStreamChanges({ pool, hub, authenticate, clock, logger }));
  v1.use(makeRefusal(authenticate));
  v1.use(makeErrorAnswer(logger));
  const router = Router();
  router.use("/v1", v1);
  return router;
}

const READ_ONLY = {
  status: 405,
  code: "method_not_allowed",
  message: "The mirror is read-only: send this request to the provider.",
  headers: { Allow: "GET, HEAD" },
};
const NOT_FOUND = { status: 404, code: "not_found", message: "There is nothing at this address." };
const ORDER_NOT_FOUND = { status: 404, code: "order_not_found", message: "No such order." };
const UNKNOWN_BRANCH = { status: 422, code: "unknown_branch", message: "branch matches no branch." };

/**
 * GET /v1/orders (spec, "list orders"). Sorted ascending by updatedAt or pickupTime and then by reference: the
 * spec shows no direction, and ascending an order that changes while a client pages by `cursor` is read again
 * rather than missed. `Link: rel="next"` holds the address of the next page by cursor.
 *
 * A branch is known when the mirror has an order of it; another value gets 422 unknown_branch, which for a branch
 * without any order is stricter than the provider.
 */
function makeListOrders({ pool, authenticate }: HandlerDeps): RequestHandler {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const parameters = readParameters(request.url);
    const query = { ...parseOrderQuery(parameters), sourceId };
    await readOrUnavailable(stampFreshness(pool, sourceId, response));
    const page = await readOrUnavailable(readPage(pool, query));
    if (page.orders.length === 0) await refuseUnknownBranch(pool, query);
    const last = page.orders.at(-1);
    if (page.hasMore && last !== undefined) {
      parameters.delete("offset");
      parameters.set("cursor", writeCursor(query.sort, last.position));
      response.set("Link", `<?${parameters.toString()}>; rel="next"`);
    }
    const { limit, offset } = query;
    const orders = page.orders.map(({ raw }) => raw);
    sendJson(response, writePage({ orders, hasMore: page.hasMore, limit, offset }));
  };
}

/** GET /v1/orders/{reference} (spec, "read one order"): the same 404 for an unknown order and another source's. */
function makeGetOrder({ pool, authenticate }: HandlerDeps): RequestHandler<{ reference: string }> {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const { reference } = request.params;
    // Postgres' text holds no NUL and would refuse the statement.
    if (reference.includes("\0")) throw new RefusedRequestError(ORDER_NOT_FOUND);
    await readOrUnavailable(stampFreshness(pool, sourceId, response));
    const raw = await readOrUnavailable(selectOrder(pool, { sourceId, reference }));
    if (raw === undefined) throw new RefusedRequestError(ORDER_NOT_FOUND);
    sendJson(response, raw);
  };
}

/** Read before the orders, never after: the claim must not be younger than what it is made about. */
async function stampFreshness(pool: Pool, sourceId: string, response: Response): Promise<void> {
  const safeThrough = await selectSafeThrough(pool, sourceId);
  if (safeThrough !== undefined) response.set("X-Safe-Through", formatInstant(safeThrough));
}

/** Reads one order more than asked for: whether it exists is `hasMore`. */
async function readPage(pool: Pool, query: OrdersQuery) {
  const orders = await selectOrders(pool, { ...query, limit: query.limit + 1 });
  return { orders: orders.slice(0, query.limit), hasMore: orders.length > query.limit };
}

async function refuseUnknownBranch(pool: Pool, { sourceId, branch }: OrdersQuery): Promise<void> {
  if (branch === undefined) return;
  const known = await readOrUnavailable(hasOrdersOfBranch(pool, { sourceId, branch }));
  if (!known) throw new RefusedRequestError(UNKNOWN_BRANCH);
}

/** Whatever else is under /v1: writes get a word of where to send them. */
function makeRefusal(authenticate: Authenticate): RequestHandler {
  return (request) => {
    authenticate(request);
    const reads = request.method === "GET" || request.method === "HEAD";
    throw new RefusedRequestError(reads ? NOT_FOUND : READ_ONLY);
  };
}
