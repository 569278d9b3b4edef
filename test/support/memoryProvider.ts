import { formatInstant, parseInstant } from "../../src/domain/order/instant.ts";
import type { Instant } from "../../src/domain/order/instant.ts";
import type { PollClient } from "../../src/poll/cycle/deps.ts";
import type { ListOrdersQuery, OrdersPage } from "../../src/provider/client.ts";
import { OrderNotFoundError } from "../../src/provider/errors.ts";
import { systemClock } from "../../src/runtime/lifecycle/clock.ts";
import { readSnapshot } from "../../src/wire/order.ts";
import { makeOrder } from "./orders.ts";

export interface ListRead {
  readonly query: ListOrdersQuery;
  /** Of the monotonic clock. */
  readonly atMs: number;
}

/** A provider in memory, behind the client's interface: for what happens around the requests, not in them. */
export interface MemoryProvider extends PollClient {
  readonly reads: readonly ListRead[];
  readonly singleReads: readonly string[];
  /** Puts an order, or changes it. */
  put(reference: string, updatedAt: Instant, more?: Record<string, unknown>): void;
  remove(reference: string): void;
  /** An element of every list page that is no order. */
  serveToo(raw: string): void;
  /** Runs before each answer of listOrders and getOrder; what it throws is the answer. */
  before: (signal: AbortSignal | undefined) => Promise<void> | void;
  /** At most so many orders on a page. */
  limitMax: number;
}

export function makeMemoryProvider(): MemoryProvider {
  const orders = new Map<string, { raw: string; updatedAt: Instant }>();
  const extras: string[] = [];
  const reads: ListRead[] = [];
  const singleReads: string[] = [];
  const now = () => systemClock.now();

  function listPage({ updatedSince = 0n, updatedUntil = 0n, limit = 50, offset = 0 }: ListOrdersQuery) {
    const inside = [...orders.values()]
      .filter(({ updatedAt }) => updatedAt >= updatedSince && updatedAt < updatedUntil)
      .toSorted((left, right) => (left.updatedAt < right.updatedAt ? -1 : 1));
    const raws = [...extras, ...inside.map(({ raw }) => raw)];
    const used = Math.min(limit, provider.limitMax);
    const page = raws.slice(offset, offset + used);
    return {
      elements: page.map((raw) => ({ raw, value: JSON.parse(raw) as unknown })),
      hasMore: offset + page.length < raws.length,
      limit: used,
      offset,
    };
  }

  const provider: MemoryProvider = {
    reads,
    singleReads,
    before: () => undefined,
    limitMax: 200,
    put(reference, updatedAt, more = {}) {
      const order = makeOrder({ reference, updatedAt: formatInstant(updatedAt), more });
      orders.set(reference, { raw: JSON.stringify(order), updatedAt });
    },
    remove: (reference) => void orders.delete(reference),
    serveToo: (raw) => void extras.push(raw),
    async listOrders(query, options = {}) {
      reads.push({ query, atMs: performance.now() });
      const requestedAt = now();
      await provider.before(options.signal);
      return {
        ...listPage(query),
        requestedAt,
        requestId: null,
        rates: [],
        readOrders: refuse,
      } as OrdersPage;
    },
    async getOrder(reference, options = {}) {
      singleReads.push(reference);
      const requestedAt = now();
      await provider.before(options.signal);
      const order = orders.get(reference);
      const facts = { status: 404, code: "order_not_found", requestId: null };
      if (order === undefined) throw new OrderNotFoundError("GET /v1/orders/{reference} was refused", facts);
      const snapshot = readSnapshot(order.raw, JSON.parse(order.raw));
      const answer = { status: 200, headers: new Headers(), text: order.raw };
      return { snapshot, requestedAt, requestId: null, answer, subscriptionState: null, readOrder: refuse };
    },
    listBranches: () => Promise.resolve({ data: [], hasMore: false, request_id: "memory", raws: [] }),
    providerClock: {
      observe: () => undefined,
      providerNow: now,
      instantAt: (monotonicMs) => now() - BigInt(Math.round((performance.now() - monotonicMs) * 1e6)),
      isSynchronized: () => true,
      skewSeconds: () => 0,
    },
  };
  return provider;
}

/** Polling reads pages leniently. */
function refuse(): never {
  throw new TypeError("not asked for by polling");
}

/** So many seconds ago, cut to a microsecond. */
export function secondsAgo(seconds: number): Instant {
  return parseInstant(formatInstant(systemClock.now() - BigInt(Math.round(seconds * 1e9)), 6));
}
