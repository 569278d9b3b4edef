/**
 * Orders and branches for readers: the provider's own reads, answered from the mirror to the byte, and exports.
 *
 * Every answer says up to when it is complete (`freshness.ts`). `orderQuery.ts` reads parameters, `orderReads.sql.ts`
 * has the statements, `orderWait.ts` lets requests wait for a change or a proof, `exportOrders.sql.ts` writes files.
 * Start at `makeListOrders`.
 */
import type { Pool } from "../database/database.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { selectFreshness, selectOrder, selectOrders, type ServedOrder } from "../orders/orderReads.sql.ts";
import type { Authenticate } from "./authenticate.ts";
import { resolveFilter, parseExportQuery, parseOrderQuery, writeCursor } from "./orderQuery.ts";
import { exportOrders, type ExportFormat } from "../orders/exportOrders.sql.ts";
import { ORDER_NOT_FOUND, RefusedRequestError } from "../wire/refusal.ts";
import { assertComplete, awaitComplete, completeSchema, writeFreshness } from "./freshness.ts";
import type { OrderWait } from "./orderWait.ts";
import { readTarget } from "../wire/endpoints.ts";
import { timeParameter } from "../wire/listParameters.ts";
import { parseQuery } from "./parseQuery.ts";
import { withoutRequestId, sendJson, setHeaders, untilClosed, whenClosed, type Route } from "./respond.ts";
import type { Shares } from "./shares.ts";
import { formatInstant } from "../domain/order/instant.ts";
import { selectBranches } from "../sources/branches.sql.ts";

export interface OrderRouteDeps {
  readonly pool: Pool;
  readonly authenticate: Authenticate;
  readonly orderWait: OrderWait;
  readonly unread: Shares;
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
  const { pool, authenticate, orderWait, unread } = deps;
  return async (request, response) => {
    const caller = authenticate(request);
    const { sourceId, client } = caller;
    unread.assertFree(client);
    const parameters = readTarget(request.url).query;
    const asked = parseOrderQuery(parameters);
    await awaitComplete({ orderWait, caller, response }, asked);
    if (response.destroyed) return;
    const filter = await resolveFilter(pool, { sourceId, asked });
    const { limit, offset, sort, complete } = asked;
    // One more than requested: its existence is `hasMore`.
    const found = await selectOrders(pool, { ...asked, ...filter, limit: limit + 1 });
    writeFreshness(response, found.freshness);
    await assertComplete(pool, { sourceId, complete, freshness: found.freshness });
    const orders = found.orders.slice(0, limit);
    const hasMore = found.orders.length > limit;
    const last = orders.at(-1);
    if (hasMore && last !== undefined) {
      parameters.delete("offset");
      parameters.set("cursor", writeCursor(sort, last.position));
      response.setHeader("Link", `<?${parameters.toString()}>; rel="next"`);
    }
    const revisions = asked.revisions === "1";
    sendJson(response, writePage({ orders, hasMore, limit, offset, revisions }), { unread, client });
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
  const { pool, authenticate, orderWait, unread } = deps;
  return async (request, response) => {
    const caller = authenticate(request);
    const { sourceId, client } = caller;
    unread.assertFree(client);
    const reference = String(request.params["reference"]);
    // Postgres' text cannot hold NUL; the statement would fail.
    if (reference.includes("\0")) throw new RefusedRequestError(ORDER_NOT_FOUND);
    const { updatedAfter, complete, wait } = parseQuery(waitSchema, readTarget(request.url).query);
    await awaitComplete({ orderWait, caller, response }, { complete, wait });
    if (updatedAfter !== undefined) {
      const awaited = { sourceId, reference, instant: updatedAfter };
      const options = { client, timeoutMs: wait * 1_000, signal: untilClosed(response) };
      const newer = await orderWait(awaited, options);
      response.setHeader("X-Waited", newer ? "newer" : "timeout");
    }
    if (response.destroyed) return;
    const { raw, freshness } = await selectOrder(pool, { sourceId, reference });
    writeFreshness(response, freshness);
    await assertComplete(pool, { sourceId, complete, freshness });
    if (raw === undefined) throw new RefusedRequestError(ORDER_NOT_FOUND);
    sendJson(response, withoutRequestId(raw), { unread, client });
  };
}

/**
 * A page of a list, without `request_id`. Each of `orders` is the unchanged JSON text of one order; `revisions` adds a
 * list with the revision of each, in the same sequence.
 */
function writePage(page: {
  orders: readonly ServedOrder[];
  hasMore: boolean;
  limit: number;
  offset: number;
  revisions: boolean;
}): string {
  const { orders, hasMore, limit, offset } = page;
  // Added one by one: V8 then copies them once, when the page is complete, and a page is garbage in its largest heap.
  let texts = "";
  for (const { raw } of orders) texts += texts === "" ? raw : `,${raw}`;
  const list = () =>
    orders.map(({ revision, changedAt }) => ({ revision, changedAt: formatInstant(changedAt) }));
  const revisions = page.revisions ? `,"revisions":${JSON.stringify(list())}` : "";
  return `{"data":[${texts}],"hasMore":${hasMore},"limit":${limit},"offset":${offset}${revisions}}`;
}

const NOT_READ = {
  status: 503,
  code: "temporarily_unavailable",
  message: "The branches have not been read from the provider yet.",
  headers: { "Retry-After": "5" },
};

/**
 * GET /v1/branches (spec, "list branches"): open branches as the provider listed them at `X-Branches-As-Of`, in its
 * order and in one page. 503 before they were first read: an empty list would say that there are none. Every parameter
 * is accepted, because the spec shows none.
 */
export function makeListBranches(deps: Omit<OrderRouteDeps, "orderWait">): Route {
  const { pool, authenticate, unread } = deps;
  return async (request, response) => {
    const { sourceId, client } = authenticate(request);
    const branches = await selectBranches(pool, sourceId);
    if (branches === undefined) throw new RefusedRequestError(NOT_READ);
    response.setHeader("X-Branches-As-Of", branches.asOf);
    sendJson(response, `{"data":[${branches.raws.join(",")}],"hasMore":false}`, { unread, client });
  };
}

/** A client that accepts nothing for this long is disconnected, and its database connection released. */
const STALLED_MS = 60_000;
/**
 * A client that takes a little from time to time would otherwise hold a connection, and an old snapshot, indefinitely.
 */
const EXPORT_MAX_MS = 30 * 60_000;

const CONTENT_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8; header=present",
  ndjson: "application/x-ndjson; charset=utf-8",
};

export interface ExportRouteDeps extends OrderRouteDeps {
  /** EXPORTS_MAX connections of their own, so that exports do not delay reads: each occupies one while it lasts. */
  readonly exportPool: Pool;
  readonly exports: Shares;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's span. */
  readonly limits?: { readonly stalledMs?: number } | undefined;
}

/**
 * GET /v1/orders.csv and /v1/orders.ndjson: all orders of a filter, with the parameters of the list
 * except those for pages. With `complete` they are answered only if they are complete, otherwise 412 not_complete. 503
 * too_many_exports while others have all connections, or the client itself half of them.
 *
 * An export that fails midway, or lasts longer than half an hour, ends without the terminator of the transfer, so that
 * a client never mistakes a part for the whole.
 */
export function makeExportOrders(format: ExportFormat, deps: ExportRouteDeps): Route {
  const { pool, exportPool, exports, authenticate, orderWait, clock, logger, limits = {} } = deps;
  return async (request, response) => {
    const caller = authenticate(request);
    const { sourceId, client } = caller;
    const asked = parseExportQuery(readTarget(request.url).query);
    await awaitComplete({ orderWait, caller, response }, asked);
    if (response.destroyed) return;
    // Before the orders: the claim must not be more recent than they are.
    const freshness = await selectFreshness(pool, sourceId);
    writeFreshness(response, freshness);
    await assertComplete(pool, { sourceId, complete: asked.complete, freshness });
    const filter = await resolveFilter(pool, { sourceId, asked });
    whenClosed(response, exports.take(client));
    const day = formatInstant(clock.now(), 0).slice(0, 10);
    setHeaders(response, {
      "Content-Type": CONTENT_TYPES[format],
      "Content-Disposition": `attachment; filename="orders-${sourceId}-${day}.${format}"`,
    });
    if (request.method === "HEAD") return void response.end();
    const gone = untilClosed(response);
    const signal = AbortSignal.any([gone, AbortSignal.timeout(EXPORT_MAX_MS)]);
    response.setTimeout(limits.stalledMs ?? STALLED_MS, () => {
      // Otherwise the client waits for the database, whose statements have their own limit.
      if (response.writableNeedDrain || response.writableEnded) response.destroy();
    });
    try {
      await exportOrders({ pool: exportPool, format, filter, out: response, signal });
      response.end();
    } catch (error) {
      if (!response.headersSent && !gone.aborted) {
        response.removeHeader("Content-Disposition");
        throw error;
      }
      if (!gone.aborted) logger.error({ err: error, source: sourceId, format }, "an export broke off");
      response.destroy();
    }
  };
}
