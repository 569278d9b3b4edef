import { formatInstant } from "../../src/domain/order/instant.ts";
import type { Instant } from "../../src/domain/order/instant.ts";
import type { PollClient } from "../../src/poll/cycle/deps.ts";
import type { ListOrdersQuery, OrdersPage } from "../../src/provider/client.ts";
import { OrderNotFoundError, ProviderUnavailableError } from "../../src/provider/errors.ts";
import { readSnapshot } from "../../src/wire/order.ts";
import { makeOrder } from "./orders.ts";

interface State {
  /** When the provider made the change; what it dates it to may lie before that. */
  readonly since: Instant;
  readonly updatedAt: Instant;
  readonly status: string;
}

/** A provider in virtual time whose answers may lag, whose stamps may fall, and that can be taken back to an earlier moment. */
export interface ScheduledProvider extends PollClient {
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

  function listPage({ updatedSince = 0n, updatedUntil = 0n, offset = 0 }: ListOrdersQuery) {
    const raws = shown()
      .filter(({ updatedAt }) => updatedAt >= updatedSince && updatedAt < updatedUntil)
      .toSorted((left, right) => (left.updatedAt < right.updatedAt ? -1 : 1))
      .map((one) => write(one, provider.garbled.has(one.reference)));
    const page = raws.slice(offset, offset + LIMIT);
    return {
      elements: page.map((raw) => ({ raw, value: JSON.parse(raw) as unknown })),
      hasMore: offset + page.length < raws.length,
      limit: LIMIT,
      offset,
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
    listOrders: (query) =>
      Promise.resolve({
        ...listPage(query),
        requestedAt: now(),
        requestId: null,
        rates: [],
        readOrders: refuse,
      } as OrdersPage),
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
      const answer = { status: 200, headers: new Headers(), text: raw };
      const snapshot = readSnapshot(raw, JSON.parse(raw));
      return Promise.resolve({
        snapshot,
        requestedAt: now(),
        requestId: null,
        answer,
        subscriptionState: null,
        readOrder: refuse,
      });
    },
    listBranches: () => Promise.resolve({ data: [], hasMore: false, request_id: "scheduled", raws: [] }),
    providerClock: {
      observe: () => undefined,
      providerNow: now,
      instantAt: now,
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
