/**
 * Orders and branches for readers: the provider's own reads, answered from the mirror to the byte, and exports.
 *
 * Every answer says up to when it is complete (`freshness.ts`). `orderQuery.ts` reads parameters, `orderReads.sql.ts`
 * has the statements, `orderWait.ts` lets requests wait for a change or a proof, `exportOrders.sql.ts` writes files. Start at
 * `makeListOrders`.
 */
import type { ServerResponse } from "node:http";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { selectFreshness, selectOrder, selectOrders, type ListedOrder } from "../orders/orderReads.sql.ts";
import type { Authenticate } from "./authenticate.ts";
import {
  resolveFilter,
  parseOrderFilter,
  parseOrderQuery,
  writeCursor,
  type AskedFilter,
} from "./orderQuery.ts";
import type { OrderFilter } from "../orders/orderFilter.sql.ts";
import { exportOrders, type ExportFormat } from "../orders/exportOrders.sql.ts";
import { ORDER_NOT_FOUND, RefusedRequestError } from "../wire/refusal.ts";
import { assertComplete, awaitComplete, completeSchema, writeFreshness } from "./freshness.ts";
import type { OrderWait } from "./orderWait.ts";
import { readTarget } from "../wire/endpoints.ts";
import { parseParameters, timeParameter } from "../wire/listParameters.ts";
import {
  withoutRequestId,
  readOrUnavailable,
  sendJson,
  setHeaders,
  untilClosed,
  type Route,
} from "./respond.ts";
import { formatInstant } from "../domain/order/instant.ts";
import { selectBranches } from "../sources/branches.sql.ts";

export interface OrderRouteDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
  readonly orderWait: OrderWait;
}

/**
 * What the list and the exports begin with: waits for `complete`, says how far the answer can be trusted, and resolves the
 * filter.
 * Undefined if the client has gone meanwhile.
 */
async function prepare(
  { pool, orderWait }: OrderRouteDeps,
  query: { sourceId: string; parameters: URLSearchParams; asked: AskedFilter; response: ServerResponse },
): Promise<OrderFilter | undefined> {
  const { sourceId, parameters, asked, response } = query;
  const contract = parseParameters(completeSchema, parameters);
  await awaitComplete({ orderWait, sourceId, response }, contract);
  if (response.destroyed) return undefined;
  // Before the orders: the claim must not be more recent than they are.
  const freshness = await readOrUnavailable(selectFreshness(pool, sourceId));
  writeFreshness(response, freshness);
  await assertComplete(pool, { sourceId, complete: contract.complete, freshness });
  return resolveFilter(pool, { sourceId, asked });
}

export const waitSchema = completeSchema.extend({
  updatedAfter: timeParameter.optional().describe("Waits until the order has a later updatedAt."),
  wait: completeSchema.shape.wait.describe("How long to wait for each at most, in seconds. Default 0."),
});

/**
 * GET /v1/orders (spec, "list orders"). Sorted ascending by updatedAt or pickupTime and then by reference: the spec
 * shows no direction, and in ascending order an order that changes while a client pages by `cursor` is read again
 * rather than missed. `Link: rel="next"` has the address of the next page by cursor.
 *
 * A branch is known if the provider listed it or the mirror has an order of it; another value gets 422
 * branch_not_found. With `complete` it answers only what is complete, otherwise 412 not_complete.
 */
export function makeListOrders(deps: OrderRouteDeps): Route {
  const { pool, authenticate } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const parameters = readTarget(request.url).query;
    const { sort, after, limit, offset, revisions, ...asked } = parseOrderQuery(parameters);
    const filter = await prepare(deps, { sourceId, parameters, asked, response });
    if (filter === undefined) return;
    // One more than requested: its existence is `hasMore`.
    const query = { ...filter, sort, after, limit: limit + 1, offset };
    const found = await readOrUnavailable(selectOrders(pool, query));
    const [orders, hasMore] = [found.slice(0, limit), found.length > limit];
    const last = orders.at(-1);
    if (hasMore && last !== undefined) {
      parameters.delete("offset");
      parameters.set("cursor", writeCursor(sort, last.position));
      response.setHeader("Link", `<?${parameters.toString()}>; rel="next"`);
    }
    sendJson(response, writePage({ orders, hasMore, limit, offset, revisions }));
  };
}

/**
 * GET /v1/orders/{reference} (spec, "read one order"): the same 404 for an unknown order and for one of another source.
 *
 * With `updatedAfter` and `wait` (seconds) it answers as soon as the mirror has the order with a later updatedAt, or
 * with the current state when the time is over; `X-Waited` says which. `complete` as in the list; with both, each may
 * wait that long.
 */
export function makeGetOrder(deps: OrderRouteDeps): Route {
  const { pool, authenticate, orderWait } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const reference = String(request.params["reference"]);
    // Postgres' text cannot hold NUL; the statement would fail.
    if (reference.includes("\0")) throw new RefusedRequestError(ORDER_NOT_FOUND);
    const { updatedAfter, complete, wait } = parseParameters(waitSchema, readTarget(request.url).query);
    await awaitComplete({ orderWait, sourceId, response }, { complete, wait });
    if (updatedAfter !== undefined) {
      const awaited = { sourceId, reference, instant: updatedAfter };
      const options = { timeoutMs: wait * 1_000, signal: untilClosed(response) };
      const newer = await orderWait(awaited, options);
      response.setHeader("X-Waited", newer ? "newer" : "timeout");
    }
    if (response.destroyed) return;
    const { raw, freshness } = await readOrUnavailable(selectOrder(pool, { sourceId, reference }));
    writeFreshness(response, freshness);
    await assertComplete(pool, { sourceId, complete, freshness });
    if (raw === undefined) throw new RefusedRequestError(ORDER_NOT_FOUND);
    sendJson(response, withoutRequestId(raw));
  };
}

/**
 * A page of a list, without `request_id`. Each of `orders` is the unchanged JSON text of one order; `revisions` adds a
 * list with the revision of each, in the same sequence. @internal
 */
export function writePage(page: {
  orders: readonly ListedOrder[];
  hasMore: boolean;
  limit: number;
  offset: number;
  revisions: boolean;
}): string {
  const { orders, hasMore, limit, offset } = page;
  // Added one by one: V8 then copies them once, when the page is complete, and a page is garbage in its largest heap.
  let texts = "";
  for (const { raw } of orders) texts += texts === "" ? raw : `,${raw}`;
  const revisions = page.revisions ? `,"revisions":${listRevisions(orders)}` : "";
  return `{"data":[${texts}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}${revisions}}`;
}

function listRevisions(orders: readonly ListedOrder[]): string {
  return JSON.stringify(
    orders.map(({ revision, changedAt }) => ({ revision, changedAt: formatInstant(changedAt) })),
  );
}

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

/** A client that accepts nothing for this long is disconnected, and its database connection released. */
const STALLED_MS = 60_000;

const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson; charset=utf-8",
};

export interface ExportRouteDeps extends OrderRouteDeps {
  /** Small and separate, so that exports do not delay reads: each occupies a connection while it lasts. */
  readonly exportPool: Pool;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * GET /v1/orders.csv and /v1/orders.ndjson: all orders of a filter, with the parameters of the list
 * except those for pages. With `complete` they are answered only if they are complete, otherwise 412 not_complete. 503
 * while other exports have all connections.
 *
 * An export that fails midway ends without the terminator of the transfer, so that a client never mistakes a part for
 * the whole.
 */
export function makeExportOrders(format: ExportFormat, deps: ExportRouteDeps): Route {
  const { exportPool, authenticate, clock, logger } = deps;
  return async (request, response) => {
    const sourceId = authenticate(request);
    const parameters = readTarget(request.url).query;
    const asked = parseOrderFilter(parameters);
    const filter = await prepare(deps, { sourceId, parameters, asked, response });
    if (filter === undefined) return;
    const day = formatInstant(clock.now(), 0).slice(0, 10);
    setHeaders(response, {
      "Content-Type": CONTENT_TYPES[format],
      "Content-Disposition": `attachment; filename="orders-${sourceId}-${day}.${format}"`,
    });
    if (request.method === "HEAD") return void response.end();
    const signal = untilClosed(response);
    response.setTimeout(STALLED_MS, () => response.destroy());
    try {
      await readOrUnavailable(exportOrders({ pool: exportPool, format, filter, out: response, signal }));
      response.end();
    } catch (error) {
      if (!response.headersSent && !signal.aborted) {
        response.removeHeader("Content-Disposition");
        throw error;
      }
      if (!signal.aborted) logger.error({ err: error, source: sourceId, format }, "an export broke off");
      response.destroy();
    }
  };
}
