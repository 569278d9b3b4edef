import { z } from "zod";
import { tryParseJson } from "../domain/parseJson.ts";
import { ProviderError } from "../provider/errors.ts";
import { DeadlineReached } from "../process/abort.ts";
import { systemClock } from "../process/clock.ts";
import {
  makeExchange,
  makePrepare,
  parseAnswer,
  type ProviderAnswer,
  type ProviderRequest,
} from "../provider/exchange.ts";
import { DEADLINE_MS, makeRetrying, makeTransport, type SendRequest } from "../provider/transport.ts";
import { UNLIMITED } from "../provider/budget.ts";
import { makeProviderClock } from "../provider/providerClock.ts";
import { millisFromInstant, parseInstant } from "../domain/order/instant.ts";
import type { WireOrder } from "../wire/order.ts";

export interface ConnectionOptions {
  /** The address of the mirror's web process, such as `http://127.0.0.1:3000`, with or without `/v1`. */
  readonly baseUrl: string;
  /** A token of API_TOKENS. Without it: for a mirror with LOCAL_TRUST on this machine. */
  readonly token?: string | undefined;
  /** Which source to read; default that of the token. */
  readonly source?: string | undefined;
  /** Deadline of a request in milliseconds, beside its `wait`; default 15,000. A stream only has to begin within it. */
  readonly deadlineMs?: number | undefined;
}

/** The means to send requests to one mirror. */
export interface Connection {
  /** Retries reads after network and server failures. */
  readonly send: SendRequest;
  /** Sends once. */
  readonly sendOnce: SendRequest;
  /** The head of an endless answer, whose body lasts until `abort` is used. Throws as `sendOnce` does. */
  open(request: ProviderRequest, abort: AbortController): Promise<Response>;
}

/** Throws ConfigurationError for an address or token that cannot be used in a request. */
export function connect(options: ConnectionOptions): Connection {
  const { token, source, deadlineMs = DEADLINE_MS } = options;
  const baseUrl = options.baseUrl.replace(/\/v1\/*$/, "");
  const clock = systemClock;
  const providerClock = makeProviderClock(clock);
  const headers = source === undefined ? {} : { "x-source": source };
  const target = { baseUrl, apiKey: token ?? null, headers };
  const prepare = makePrepare(target);
  const logger = { debug: () => undefined };
  const { open: openOnce } = makeExchange({ clock, providerClock });
  const transport = makeTransport({ ...target, budget: UNLIMITED, clock, providerClock, logger, deadlineMs });
  const sendOnce: SendRequest = (request, sending) => transport(request, sending).catch(sayWhy);

  async function open(request: ProviderRequest, abort: AbortController): Promise<Response> {
    const prepared = prepare(request);
    const late = setTimeout(() => abort.abort(new DeadlineReached("deadline reached")), deadlineMs);
    try {
      return (await openOnce({ prepared, learn: () => [], signal: abort.signal }).catch(sayWhy)).response;
    } finally {
      clearTimeout(late);
    }
  }
  return { send: makeRetrying({ send: sendOnce, clock }), sendOnce, open };
}

const refusalSchema = z.object({ error: z.object({ message: z.string() }) });

/**
 * Throws an error again, with the mirror's own sentence, which names the parameter or says what is missing. Unlike the
 * provider's, the mirror's sentences hold no personal data.
 */
function sayWhy(error: unknown): never {
  if (!(error instanceof ProviderError)) throw error;
  const answer = error.readAnswer();
  const { data } = refusalSchema.safeParse(tryParseJson(answer?.text ?? ""));
  if (data === undefined) throw error;
  const { failure, status, code, requestId, policy, fix } = error;
  // A mirror that is not complete may be so later.
  const retry = code === "not_complete" ? "later" : error.retry;
  const facts = { failure, status, code, requestId, policy, retry, fix, answer, cause: error };
  throw new ProviderError(`${error.message}: ${data.error.message}`, facts);
}

/** A read of the mirror. */
export function get(route: string, rest: Pick<ProviderRequest, "query" | "reference"> = {}): ProviderRequest {
  return { method: "GET", route, policy: "sustained", safe: true, ...rest };
}

/** An order object as the provider sent it, unknown fields included. Times are ISO 8601 text. */
export type Order = WireOrder;

/** Only what identifies an order is checked: an order is as the provider sent it, mistakes included. */
export const looseOrder = z.custom<Order>(
  (value) =>
    typeof value === "object" &&
    value !== null &&
    "reference" in value &&
    typeof value.reference === "string",
);

/** An ISO 8601 date-time with offset, or a Date. */
export type Time = string | Date;

/** The extent to which an answer can be trusted. */
export interface Freshness {
  /** The answer has every change with an earlier `updatedAt`; null while that is unknown. */
  readonly safeThrough: string | null;
  /** Orders excluded from this claim: they were seen but could not be read. Counted up to 1,000. */
  readonly exceptions: number;
}

export function readFreshness({ headers }: Pick<ProviderAnswer, "headers">): Freshness {
  return {
    safeThrough: headers.get("x-safe-through"),
    exceptions: Number(headers.get("x-safe-through-exceptions") ?? 0),
  };
}

/** The parameters that have a value, as text. */
export function writeParameters(query: Readonly<Record<string, Time | number | undefined>>): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    parameters.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return parameters;
}

/** Seconds of a wait, as the transport counts them. */
export const toMillis = (seconds = 0) => seconds * 1_000;

/** The Date of a time of an order, rounded down to the millisecond. Throws InvalidInstantError. */
export function toDate(time: string): Date {
  return new Date(millisFromInstant(parseInstant(time)));
}

/** For sorting: negative if `a` is earlier than `b`, 0 if equal, to the nanosecond. Throws InvalidInstantError. */
export function compareTimes(a: string, b: string): number {
  const difference = parseInstant(a) - parseInstant(b);
  if (difference === 0n) return 0;
  return difference < 0n ? -1 : 1;
}

/** Which orders to list. Periods are half-open: `…Since` and `…From` are inclusive, `…Until` is exclusive. */
export interface OrdersQuery {
  /** Requires updatedUntil. */
  readonly updatedSince?: Time | undefined;
  /** Requires updatedSince. */
  readonly updatedUntil?: Time | undefined;
  /** Start of the period of planned pickups. */
  readonly pickupFrom?: Time | undefined;
  readonly pickupUntil?: Time | undefined;
  /** Start of the period of planned deliveries. */
  readonly deliveryFrom?: Time | undefined;
  readonly deliveryUntil?: Time | undefined;
  readonly status?: string | undefined;
  /** Reference or id; closed branches too. */
  readonly branch?: string | undefined;
  /** Name of the fleet. */
  readonly fleet?: string | undefined;
  /** Ascending. Default updatedAt. */
  readonly sort?: "updatedAt" | "pickupTime" | "firstSeenAt" | undefined;
  /** Orders per request, 1 to 200; default 200. */
  readonly limit?: number | undefined;
  /**
   * Each page has every change before this time, except for the orders in `exceptions`. Otherwise a ProviderError
   * with the code `not_complete` is thrown.
   */
  readonly complete?: Time | undefined;
  /** Seconds for which a page waits for `complete`, 0 to 30, beside the deadline of a request. Default 0. */
  readonly wait?: number | undefined;
}

export interface OrdersPage extends Freshness {
  readonly orders: readonly Order[];
}

/** Orders one by one, or page by page. Each loop reads from the beginning. */
export interface OrderList extends AsyncIterable<Order> {
  pages(): AsyncGenerator<OrdersPage, void, void>;
}

/** The number of states of the mirror's order, and the time of the last. */
export interface Revision {
  readonly revision: number;
  readonly changedAt: string;
}

const PAGE_MAX = 200;
const ROUTE = "/v1/orders";
const NEXT = /<\?([^>]*)>; rel="next"/;

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
    const answer = await send(get(ROUTE, { query: parameters }), { signal, waitMs: toMillis(query.wait) });
    const { data, revisions = [] } = parseAnswer(listSchema, `GET ${ROUTE}`, answer);
    yield { orders: data, revisions, ...readFreshness(answer) };
    const next = NEXT.exec(answer.headers.get("link") ?? "")?.[1];
    parameters = next === undefined ? undefined : new URLSearchParams(next);
  }
}
