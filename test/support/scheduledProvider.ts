import { formatInstant } from "../../src/domain/order/instant.ts";
import type { Instant } from "../../src/domain/order/instant.ts";
import type { OrderSource } from "../../src/domain/source/orderSource.ts";
import type { WalkRequest } from "../../src/domain/window/walk.ts";
import { OrderNotFoundError, ProviderUnavailableError } from "../../src/provider/errors.ts";
import { readSnapshot } from "../../src/wire/order.ts";
import { readListed } from "../../src/wire/page.ts";
import { makeOrder } from "./orders.ts";

interface State {
  /** When the provider made the change; what it dates it to may lie before that. */
  readonly since: Instant;
  readonly updatedAt: Instant;
  readonly status: string;
}

/** A provider in virtual time whose answers may lag, whose stamps may fall, and that can be taken back to an earlier moment. */
export interface ScheduledProvider extends OrderSource {
  /** Its answers show what it was so long ago. */
  lagSeconds: number;
  /** Orders that cannot be read singly. */
  readonly poisoned: Set<string>;
  /** Orders that lists show without a readable time. */
  readonly garbled: Set<string>;
  change(reference: string, skewSeconds: number): { updatedAt: Instant; status: string };
  /** As restored from a backup: what was changed since then never happened. */
  goBack(seconds: number): void;
  /** What it shows now, whatever the lag. */
  truth(): Map<string, { updatedAt: Instant; status: string }>;
}

const LIMIT = 3;
const nanos = (seconds: number) => BigInt(seconds) * 1_000_000_000n;

export function makeScheduledProvider(now: () => Instant): ScheduledProvider {
  let states = new Map<string, State[]>();
  let revision = 0;

  const shownAt = (instant: Instant) =>
    [...states].flatMap(([reference, history]) => {
      const last = history.filter(({ since }) => since <= instant).at(-1);
      return last === undefined ? [] : [{ reference, ...last }];
    });
  const shown = () => shownAt(now() - nanos(provider.lagSeconds));
  const write = (one: { reference: string; updatedAt: Instant; status: string }, garbled = false) =>
    JSON.stringify({
      ...makeOrder({ ...one, updatedAt: formatInstant(one.updatedAt) }),
      ...(garbled && { updatedAt: "yesterday" }),
    });

  function listPage({ since, until, offset }: WalkRequest) {
    const raws = shown()
      .filter(({ updatedAt }) => updatedAt >= since && updatedAt < until)
      .toSorted((left, right) => (left.updatedAt < right.updatedAt ? -1 : 1))
      .map((one) => write(one, provider.garbled.has(one.reference)));
    const page = raws.slice(offset, offset + LIMIT);
    return {
      elements: page.map((raw) => readListed({ raw, value: JSON.parse(raw) })),
      hasMore: offset + page.length < raws.length,
      limit: LIMIT,
    };
  }

  const provider: ScheduledProvider = {
    lagSeconds: 0,
    poisoned: new Set(),
    garbled: new Set(),
    change(reference, skewSeconds) {
      const status = `status ${(revision += 1)}`;
      const since = now();
      const updatedAt = since + nanos(skewSeconds);
      states.set(reference, [...(states.get(reference) ?? []), { since, updatedAt, status }]);
      return { updatedAt, status };
    },
    goBack(seconds) {
      const until = now() - nanos(seconds);
      states = new Map(
        [...states].map(([reference, history]) => [reference, history.filter(({ since }) => since <= until)]),
      );
    },
    truth: () =>
      new Map(shownAt(now()).map(({ reference, updatedAt, status }) => [reference, { updatedAt, status }])),
    promises: { pageRowsMax: LIMIT, rateWindowMs: 10_000 },
    listWindow: (query) => Promise.resolve({ ...listPage(query), requestedAt: now(), rate: "no headers" }),
    getOrder(reference) {
      const facts = { status: 404, code: "order_not_found", requestId: null };
      if (provider.poisoned.has(reference)) {
        const failed = { ...facts, status: 500, code: null };
        return Promise.reject(
          new ProviderUnavailableError("this order cannot be read", failed, { reason: "server" }),
        );
      }
      const one = shown().find((order) => order.reference === reference);
      if (one === undefined) return Promise.reject(new OrderNotFoundError("there is no such order", facts));
      const raw = write(one);
      return Promise.resolve({ snapshot: readSnapshot(raw, JSON.parse(raw)), requestedAt: now() });
    },
    listBranches: () => Promise.resolve({ raws: [], hasMore: false }),
    providerClock: {
      providerNow: now,
      isSynchronized: () => true,
      skewSeconds: () => 0,
    },
  };
  return provider;
}
