import { formatInstant, parseInstant, type Instant } from "../../../src/domain/order/instant.ts";
import type { OrderSource } from "../../../src/domain/source/orderSource.ts";
import type { WalkRequest } from "../../../src/domain/window/walk.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { readSnapshot, readListed } from "../../../src/wire/order.ts";
import { makeOrder } from "../mirror/orders.ts";

interface ListRead {
  readonly query: WalkRequest;
  readonly requestedAt: Instant;
  /** Of the monotonic clock. */
  readonly atMs: number;
}

export type MemoryProvider = ReturnType<typeof makeMemoryProvider>;

const ROWS_MAX = 200;

/** A provider in memory, behind the interface of a source: for tests of what happens around requests, not in them. */
export function makeMemoryProvider() {
  const orders = new Map<string, { raw: string; updatedAt: Instant }>();
  const extras: string[] = [];
  const reads: ListRead[] = [];
  const singleReads: string[] = [];
  const steering = {
    /** Runs before each answer of listWindow and getOrder; what it throws is the answer. */
    before: (_signal: AbortSignal | undefined): Promise<void> | void => undefined,
    /** Maximum number of orders on a page. */
    limitMax: ROWS_MAX,
    /** What single reads of these orders reject with. */
    failing: new Map<string, Error>(),
  };
  let latest = systemClock.now();
  // No two requests share an instant, however coarse the clock is, so that tests can distinguish them.
  const now = () => {
    const read = systemClock.now();
    latest = read > latest ? read : latest + 1_000n;
    return latest;
  };

  function listPage({ since, until, limit, offset }: WalkRequest) {
    const inside = [...orders.values()]
      .filter(({ updatedAt }) => updatedAt >= since && updatedAt < until)
      .toSorted((left, right) => (left.updatedAt < right.updatedAt ? -1 : 1));
    const raws = [...extras, ...inside.map(({ raw }) => raw)];
    const used = Math.min(limit, steering.limitMax);
    const page = raws.slice(offset, offset + used);
    return {
      elements: page.map((raw) => readListed({ raw, value: JSON.parse(raw) })),
      hasMore: offset + page.length < raws.length,
      limit: used,
    };
  }

  const source: OrderSource = {
    promises: { pageRowsMax: ROWS_MAX, rateWindowMs: 10_000 },
    async listWindow(query, options = {}) {
      const requestedAt = now();
      reads.push({ query, requestedAt, atMs: performance.now() });
      await steering.before(options.signal);
      return { ...listPage(query), requestedAt };
    },
    async getOrder(reference, options = {}) {
      singleReads.push(reference);
      const requestedAt = now();
      await steering.before(options.signal);
      const failure = steering.failing.get(reference);
      if (failure !== undefined) throw failure;
      const order = orders.get(reference);
      if (order === undefined) throw new ProviderError("there is no such order", { failure: "not_found" });
      return { snapshot: readSnapshot(order.raw, JSON.parse(order.raw)), requestedAt };
    },
    listBranches: () => Promise.resolve({ raws: [], hasMore: false }),
    providerClock: {
      providerNow: now,
      isSynchronized: () => true,
      disagreementSeconds: () => null,
      compareWith: () => undefined,
    },
  };
  return Object.assign(steering, source, {
    reads,
    singleReads,
    /** Puts an order, or changes it. */
    put(reference: string, updatedAt: Instant, more: Record<string, unknown> = {}) {
      const order = makeOrder({ reference, updatedAt: formatInstant(updatedAt), more });
      orders.set(reference, { raw: JSON.stringify(order), updatedAt });
    },
    /** An element of every list page that is not an order. */
    serveToo: (raw: string) => void extras.push(raw),
    /** Makes it as it was in the beginning. */
    reset() {
      orders.clear();
      for (const list of [extras, reads, singleReads]) list.length = 0;
      Object.assign(steering, { before: () => undefined, limitMax: ROWS_MAX });
      steering.failing.clear();
    },
  });
}

/** That many seconds ago, truncated to a microsecond. */
export function secondsAgo(seconds: number): Instant {
  return parseInstant(formatInstant(systemClock.now() - BigInt(Math.round(seconds * 1e9)), 6));
}
