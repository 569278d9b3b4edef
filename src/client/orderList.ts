import { z } from "zod";
import type { SendRequest } from "../provider/transport.ts";
import { makeUnreadable, parseAnswer } from "../provider/exchange.ts";
import { looseOrder, NO_PROGRESS, readFreshness, writeParameters } from "./answers.ts";
import type { Freshness, Order, Time } from "./answers.ts";
import { get } from "./connection.ts";

/** Which orders to list. Periods are half-open: `…Since` and `…From` are inclusive, `…Until` is exclusive. */
export interface OrdersQuery {
  /** Requires updatedUntil. */
  readonly updatedSince?: Time | undefined;
  /** Requires updatedSince. */
  readonly updatedUntil?: Time | undefined;
  /** Of the planned pickup. */
  readonly pickupFrom?: Time | undefined;
  readonly pickupUntil?: Time | undefined;
  /** Of the planned delivery. */
  readonly deliveryFrom?: Time | undefined;
  readonly deliveryUntil?: Time | undefined;
  readonly status?: string | undefined;
  /** Reference or id; closed branches too. */
  readonly branch?: string | undefined;
  /** Name of the fleet. */
  readonly fleet?: string | undefined;
  readonly scheduleMode?: string | undefined;
  readonly externalOrderIdPrefix?: string | undefined;
  /** Only orders that the mirror first saw at or after this time. */
  readonly firstSeenSince?: Time | undefined;
  /** Ascending. Default updatedAt; with firstSeenSince firstSeenAt. */
  readonly sort?: "updatedAt" | "pickupTime" | "firstSeenAt" | undefined;
  /** Orders per request, 1 to 200; default 200. */
  readonly limit?: number | undefined;
  /**
   * Each page has every change before this time, except for the orders in `exceptions`. Otherwise a ProviderError
   * with the code `not_complete` is thrown.
   */
  readonly complete?: Time | undefined;
  /** How long a page waits for that, in seconds, 0 to 30; less than the deadline of a request. Default 0. */
  readonly wait?: number | undefined;
}

export interface OrdersPage extends Freshness {
  readonly orders: readonly Order[];
}

/** Orders one by one, or page by page. Each loop reads from the beginning. */
export interface OrderList extends AsyncIterable<Order> {
  pages(): AsyncGenerator<OrdersPage, void, void>;
}

/** How often the mirror's order has changed, and when it last did. */
export interface Revision {
  readonly revision: number;
  readonly changedAt: string;
}

const PAGE_MAX = 200;
const ROUTE = "/v1/orders";

const listSchema = z.looseObject({
  data: z.array(looseOrder),
  revisions: z.array(z.object({ revision: z.number(), changedAt: z.string() })).optional(),
});

/**
 * Lists orders by cursor, not by offset: an order that changes meanwhile is read again in its new place instead of
 * moving others out of the walk, and a new one is not a reason to read one twice.
 */
export function listOrders(
  send: SendRequest,
  query: OrdersQuery = {},
  { signal }: { signal?: AbortSignal | undefined } = {},
): OrderList {
  async function* pages() {
    for await (const { revisions: _, ...page } of readPages(send, { ...query }, signal)) yield page;
  }
  return {
    pages,
    async *[Symbol.asyncIterator]() {
      for await (const { orders } of pages()) yield* orders;
    },
  };
}

/** All pages of the list; with `revisions: 1` each has the revisions of its orders. */
export async function* readPages(
  send: SendRequest,
  query: OrdersQuery & { revisions?: 1 },
  signal: AbortSignal | undefined,
): AsyncGenerator<OrdersPage & { readonly revisions: readonly Revision[] }, void, void> {
  let parameters: URLSearchParams | undefined = writeParameters({ limit: PAGE_MAX, ...query });
  while (parameters !== undefined) {
    const answer = await send(get(ROUTE, { query: parameters }), { signal });
    const { data, revisions = [] } = parseAnswer(listSchema, `GET ${ROUTE}`, answer);
    yield { orders: data, revisions, ...readFreshness(answer) };
    const next = findNext(answer.headers.get("link"));
    if (next?.toString() === parameters.toString()) throw makeUnreadable(`GET ${ROUTE}`, answer, NO_PROGRESS);
    parameters = next;
  }
}

const NEXT = /<\?([^>]*)>; rel="next"/;

function findNext(link: string | null): URLSearchParams | undefined {
  const parameters = NEXT.exec(link ?? "")?.[1];
  return parameters === undefined ? undefined : new URLSearchParams(parameters);
}
