import type { RequestHandler } from "express";
import type { Pool } from "../mirror/database.ts";
import { selectOrder, selectOrders } from "../mirror/orderReads.ts";
import type { OrdersQuery } from "../mirror/orderReads.ts";
import type { Authenticate } from "./authenticate.ts";
import { resolveBranch } from "./branchFilter.ts";
import { writeCursor } from "./cursor.ts";
import { RefusedRequestError } from "./errors.ts";
import { stampFreshness } from "./freshness.ts";
import { writePage } from "./orderJson.ts";
import { parseOrderQuery } from "./orderQuery.ts";
import { readParameters } from "./parameters.ts";
import { readOrUnavailable, sendJson } from "./respond.ts";

export interface OrderRouteDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
}

const ORDER_NOT_FOUND = { status: 404, code: "order_not_found", message: "No such order." };

/**
 * GET /v1/orders (spec, "list orders"). Sorted ascending by updatedAt or pickupTime and then by reference: the
 * spec shows no direction, and ascending an order that changes while a client pages by `cursor` is read again
 * rather than missed. `Link: rel="next"` holds the address of the next page by cursor.
 *
 * A branch is known when the provider listed it or the mirror has an order of it; another value gets 422
 * branch_not_found.
 */
export function makeListOrders({ pool, authenticate }: OrderRouteDeps): RequestHandler {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const parameters = readParameters(request.url);
    const { sort, after, limit, offset, ...asked } = parseOrderQuery(parameters);
    await stampFreshness(response, { pool, sourceId });
    const filter = await resolveBranch(pool, { sourceId, asked });
    const page = await readOrUnavailable(readPage(pool, { ...filter, sort, after, limit, offset }));
    const last = page.orders.at(-1);
    if (page.hasMore && last !== undefined) {
      parameters.delete("offset");
      parameters.set("cursor", writeCursor(sort, last.position));
      response.set("Link", `<?${parameters.toString()}>; rel="next"`);
    }
    const orders = page.orders.map(({ raw }) => raw);
    sendJson(response, writePage({ orders, hasMore: page.hasMore, limit, offset }));
  };
}

/** GET /v1/orders/{reference} (spec, "read one order"): the same 404 for an unknown order and another source's. */
export function makeGetOrder({ pool, authenticate }: OrderRouteDeps): RequestHandler<{ reference: string }> {
  return async (request, response) => {
    const sourceId = authenticate(request);
    const { reference } = request.params;
    // Postgres' text holds no NUL and would refuse the statement.
    if (reference.includes("\0")) throw new RefusedRequestError(ORDER_NOT_FOUND);
    await stampFreshness(response, { pool, sourceId });
    const raw = await readOrUnavailable(selectOrder(pool, { sourceId, reference }));
    if (raw === undefined) throw new RefusedRequestError(ORDER_NOT_FOUND);
    sendJson(response, raw);
  };
}

/** Reads one order more than asked for: whether it exists is `hasMore`. */
async function readPage(pool: Pool, query: OrdersQuery) {
  const orders = await selectOrders(pool, { ...query, limit: query.limit + 1 });
  return { orders: orders.slice(0, query.limit), hasMore: orders.length > query.limit };
}
