import { parseAnswer } from "../provider/exchange.ts";
import {
  connect,
  get,
  listOrders,
  looseOrder,
  readFreshness,
  toMillis,
  writeParameters,
  type ConnectionOptions,
  type Freshness,
  type Order,
  type OrderList,
  type OrdersQuery,
  type Time,
} from "./reads.ts";
import type { Change } from "./feed.ts";
import { followChanges, type ChangesOptions } from "./follow.ts";

// The client promises that a reader of a mirror misses nothing: a list hides no order that changes meanwhile, and a
// loop over the changes brings each once and in sequence, over restarts of both sides. Requests go through the
// transport of the provider's client, so errors and retries are the same. Start at `createMirrorClient`; `follow.ts`
// has the loop, `feed.ts` the pages and the stream, `reads.ts` the requests, `webhook.ts` the other direction. This
// file exports a name for every type that its functions accept or return.
export { ProviderError } from "../provider/errors.ts";
export { compareTimes, toDate } from "./reads.ts";
export { fileStore, postgresStore } from "./cursorStores.sql.ts";
export { verifyWebhook, WebhookRefusedError } from "./webhook.ts";
export type { ConnectionOptions, Freshness, Order, Time } from "./reads.ts";
export type { OrderList, OrdersPage, OrdersQuery } from "./reads.ts";
export type { Change, CompleteRecord, OnComplete } from "./feed.ts";
export type { CursorStore, PostgresClient } from "./cursorStores.sql.ts";
export type { ChangesOptions, FollowState } from "./follow.ts";
export type { WebhookMessage, WebhookRequest } from "./webhook.ts";

export interface OrderResult extends Freshness {
  readonly order: Order;
}

interface Abortable {
  readonly signal?: AbortSignal | undefined;
}

export interface OrderOptions extends Abortable {
  /** Waits for a later `updatedAt`, up to `wait`; then the order is as it is. */
  readonly updatedAfter?: Time | undefined;
  /** In seconds, 0 to 30, beside the deadline of a request. Default 0. */
  readonly wait?: number | undefined;
}

/**
 * Reads one source of a mirror. Reads are retried after network and server failures; what stays refused or
 * unanswered is a ProviderError.
 */
export interface MirrorClient {
  /** All orders of a query: `for await (const order of mirror.orders({ status: "created" }))`. */
  orders(query?: OrdersQuery, options?: Abortable): OrderList;
  /** `reference` may be an externalOrderId. Throws a ProviderError with the failure `not_found`. */
  order(reference: string, options?: OrderOptions): Promise<OrderResult>;
  /** Every change of every order: `for await (const change of mirror.changes({ store }))`. See ChangesOptions. */
  changes(options?: ChangesOptions): AsyncGenerator<Change, void, void>;
}

/** Throws ConfigurationError for an address or token that cannot be used in a request. */
export function createMirrorClient(options: ConnectionOptions): MirrorClient {
  const connection = connect(options);
  const { send } = connection;
  return {
    orders: (query, { signal } = {}) => listOrders(send, query, { signal }),
    async order(reference, { signal, ...query } = {}) {
      const request = get(ORDER_ROUTE, { reference, query: writeParameters(query) });
      const answer = await send(request, { signal, waitMs: toMillis(query.wait) });
      // request_id belongs to the answer, not to the order.
      const { request_id: _, ...order } = parseAnswer(looseOrder, `GET ${ORDER_ROUTE}`, answer);
      return { order: order as Order, ...readFreshness(answer) };
    },
    changes: (changes = {}) => followChanges(connection, changes),
  };
}

const ORDER_ROUTE = "/v1/orders/{reference}";
