import { OrderMirrorError } from "../domain/errors.ts";
import { failureOf } from "../domain/source/errors.ts";
import type { ProviderAnswer } from "../provider/exchange.ts";
import { parseAnswer } from "../provider/exchange.ts";
import { systemClock } from "../runtime/lifecycle/clock.ts";
import { listBranchesResponseSchema } from "../wire/api.ts";
import type { ListBranchesResponse } from "../wire/api.ts";
import { connect, get, listOrders, looseOrder, readFreshness, writeParameters } from "./reads.ts";
import type {
  Connection,
  ConnectionOptions,
  Freshness,
  Order,
  OrderList,
  OrdersQuery,
  Time,
} from "./reads.ts";
import type { Change } from "./feed.ts";
import { followChanges } from "./follow.ts";
import type { ChangesOptions } from "./follow.ts";

// The client promises that a reader of a mirror misses nothing: a list hides no order that changes meanwhile, and a loop over the
// changes brings each once and in sequence, over restarts of both sides. It sends by the provider client's transport, so errors
// and retries are the same. Start at `createMirrorClient`; `follow.ts` has the loop, `feed.ts` what it reads, `reads.ts` the
// requests, `webhook.ts` the other direction. This file exports a name for every type that its functions accept or return.
export { ProviderError } from "../provider/errors.ts";
export { compareTimes, toDate } from "./reads.ts";
export { fileStore } from "./cursorStores.sql.ts";
export { postgresStore } from "./cursorStores.sql.ts";
export { verifyWebhook, WebhookRefusedError } from "./webhook.ts";
export type { Freshness, Order, Time } from "./reads.ts";
export type { Change, CompleteRecord, OnComplete } from "./feed.ts";
export type { ConnectionOptions } from "./reads.ts";
export type { CursorStore } from "./cursorStores.sql.ts";
export type { ChangesOptions, FollowState } from "./follow.ts";
export type { OrderList, OrdersPage, OrdersQuery } from "./reads.ts";
export type { PostgresClient } from "./cursorStores.sql.ts";
export type { WebhookMessage, WebhookRequest } from "./webhook.ts";

export interface OrderResult extends Freshness {
  readonly order: Order;
}

export interface BranchesResult extends Freshness {
  readonly branches: ListBranchesResponse["data"];
}

interface Abortable {
  readonly signal?: AbortSignal | undefined;
}

export interface WaitOptions extends Abortable {
  /** Waits for a later `updatedAt`; without it, until the mirror has the order. */
  readonly updatedAfter?: Time | undefined;
  /** Default 60,000. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Reads one source of a mirror. Reads are retried after network and server failures; what stays refused or
 * unanswered is a ProviderError.
 */
export interface MirrorClient {
  /** All orders of a query: `for await (const order of mirror.orders({ status: "created" }))`. */
  orders(query?: OrdersQuery, options?: Abortable): OrderList;
  /** `reference` may be an externalOrderId. Throws a ProviderError with the failure `not_found`. */
  order(reference: string, options?: Abortable): Promise<OrderResult>;
  /** The order, as soon as it has changed. Throws WaitTimeoutError. */
  waitFor(reference: string, options?: WaitOptions): Promise<OrderResult>;
  /** All open branches. */
  branches(options?: Abortable): Promise<BranchesResult>;
  /** Every change of every order: `for await (const change of mirror.changes({ store }))`. See ChangesOptions. */
  changes(options?: ChangesOptions): AsyncGenerator<Change, void, void>;
}

/** The order did not change in time. */
export class WaitTimeoutError extends OrderMirrorError {
  override readonly name = "WaitTimeoutError";
  override readonly retry = "later";
}

/** Throws ConfigurationError for an address or token that cannot be used in a request. */
export function createMirrorClient(options: ConnectionOptions): MirrorClient {
  const connection = connect(options);
  const { send } = connection;
  return {
    orders: (query, { signal } = {}) => listOrders(send, query, { signal }),
    order: async (reference, { signal } = {}) =>
      readOrder(await send(get(ORDER_ROUTE, { reference }), { signal })),
    waitFor: (reference, wait = {}) => waitFor(connection, reference, wait),
    async branches({ signal } = {}) {
      const answer = await send(get(BRANCHES_ROUTE), { signal });
      const { data } = parseAnswer(listBranchesResponseSchema, `GET ${BRANCHES_ROUTE}`, answer);
      return { branches: data, ...readFreshness(answer) };
    },
    changes: (changes = {}) => followChanges(connection, changes),
  };
}

const ORDER_ROUTE = "/v1/orders/{reference}";
const BRANCHES_ROUTE = "/v1/branches";

function readOrder(answer: ProviderAnswer): OrderResult {
  // request_id belongs to the answer, not to the order.
  const { request_id: _, ...order } = parseAnswer(looseOrder, `GET ${ORDER_ROUTE}`, answer);
  return { order: order as Order, ...readFreshness(answer) };
}

/** Of the time that a request may take, how much the mirror may wait: it must still answer. */
const WAIT_SHARE = 2 / 3;
const WAIT_SECONDS_MAX = 30;
const REPEAT_MS = 1_000;
/** Every updatedAt is later. */
const EVER = "1970-01-01T00:00:00Z";

async function waitFor(
  { send, deadlineMs }: Connection,
  reference: string,
  { updatedAfter = EVER, timeoutMs = 60_000, signal }: WaitOptions,
): Promise<OrderResult> {
  const untilMs = performance.now() + timeoutMs;
  const onceSeconds = Math.min(WAIT_SECONDS_MAX, Math.floor((deadlineMs / 1_000) * WAIT_SHARE));
  for (;;) {
    const askedAtMs = performance.now();
    const leftSeconds = Math.max(0, Math.ceil((untilMs - performance.now()) / 1_000));
    const query = writeParameters({ updatedAfter, wait: Math.min(onceSeconds, leftSeconds) });
    try {
      const answer = await send(get(ORDER_ROUTE, { reference, query }), { signal });
      if (answer.headers.get("x-waited") === "newer") return readOrder(answer);
    } catch (error) {
      // The mirror may learn of it yet.
      if (failureOf(error) !== "not_found") throw error;
    }
    const nowMs = performance.now();
    if (nowMs >= untilMs) throw new WaitTimeoutError(`the order did not change within ${timeoutMs} ms`);
    // Only if it was answered at once: the mirror may be of a release that does not wait.
    const pauseMs = Math.min(askedAtMs + REPEAT_MS, untilMs) - nowMs;
    if (pauseMs > 0) await systemClock.sleep(pauseMs, signal);
  }
}
