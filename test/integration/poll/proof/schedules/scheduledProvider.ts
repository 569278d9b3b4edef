import fc from "fast-check";
import { formatInstant, millisFromInstant, type Instant } from "../../../../../src/domain/order/instant.ts";
import type { OrderSource } from "../../../../../src/domain/source/orderSource.ts";
import type { WalkRequest } from "../../../../../src/domain/window/walk.ts";
import { ProviderError } from "../../../../../src/provider/errors.ts";
import { makeProviderClock } from "../../../../../src/provider/providerClock.ts";
import type { Clock } from "../../../../../src/process/clock.ts";
import { readSnapshot, readListed } from "../../../../../src/wire/order.ts";
import { makeOrder } from "../../../../support/mirror/orders.ts";

export interface Shown {
  readonly updatedAt: Instant;
  readonly status: string;
}

interface State extends Shown {
  /** When the provider made the change; its timestamp may be earlier. */
  readonly since: Instant;
}

/** A provider's choices where the spec leaves them open, in every combination. */
export const arbitraryMake = fc.record({
  sort: fc.constantFrom("updatedAt", "creation"),
  descending: fc.boolean(),
  /** Bounds are truncated to whole seconds. */
  cutsBounds: fc.boolean(),
  /** Orders on a page. */
  limit: fc.constantFrom(2, 3, 50),
  /** What its reads show of the digits of a second; its events show all. */
  digits: fc.constantFrom("all", "cut", "rounded"),
  /** Its reads write times with another offset than its events. */
  offset: fc.boolean(),
  /** Statuses come again: an order has one of so many. */
  statuses: fc.constantFrom(3, 1_000),
  /** The business's own identifiers of some orders are the references of others. */
  borrows: fc.boolean(),
});
export type Make = typeof arbitraryMake extends fc.Arbitrary<infer One> ? One : never;

/** How: with the provider's code, as any gateway would, or with another order. */
export type Denial = "named" | "unnamed" | "another order";

/** The business's own identifiers; a single read finds an order by these, too, if none has such a reference. */
const BORROWED: ReadonlyMap<string, string> = new Map([
  ["A", "INVENTED"],
  ["B", "C"],
  ["C", "B"],
  ["D", "E"],
]);
/** What the orders of a provider show besides reference, status and updatedAt. */
export const showMore = ({ borrows }: Make, reference: string, realPickupTime: string) => {
  const borrowed = borrows ? BORROWED.get(reference) : undefined;
  return { realPickupTime, externalOrderId: borrowed ?? `shop-${reference}` };
};

const nanos = (seconds: number) => BigInt(Math.round(seconds * 1e3)) * 1_000_000n;
const SECOND = nanos(1);
/** A time in the content of every order, with digits that reads may cut. */
export const PICKED_UP = 1_789_000_000_250_000_000n;

/** A provider in virtual time. Its answers may lag, its timestamps may decrease, and it can return to an earlier moment. */
export function makeScheduledProvider(clock: Clock, make: Make) {
  const { now } = clock;
  const faults = {
    /** Single reads of these orders are answered as if they were absent. */
    denied: new Map<string, Denial>(),
    /** Its answers show its state of that long ago. */
    lagSeconds: 0,
    /** By how much the `Date` of its answers is ahead of its real clock. */
    clockErrorSeconds: 0,
    /** Its lists show no more orders than this, and say that there are no more. */
    listsAtMost: Infinity,
    /** Orders that cannot be read singly. */
    poisoned: new Set<string>(),
    /** Orders that lists show without a readable time. */
    garbled: new Set<string>(),
    /** Orders with which no page of a list can be served. */
    breaking: new Set<string>(),
    /** Runs before each answer to a list request. */
    before: (): Promise<void> | void => undefined,
  };
  const providerClock = makeProviderClock(clock);
  /** Begins an exchange: returns when it was requested, as the answer's `Date` shows. */
  const beginExchange = () => {
    const startedAtMs = clock.monotonicMs();
    return (): Instant => {
      const date = new Date(millisFromInstant(now() + nanos(faults.clockErrorSeconds))).toUTCString();
      providerClock.observe({ date, receivedAtMs: clock.monotonicMs() });
      return providerClock.instantAt(startedAtMs);
    };
  };
  let states = new Map<string, State[]>();
  let revision = 0;

  const shownAt = (instant: Instant) =>
    [...states].flatMap(([reference, history]) => {
      const last = history.filter(({ since }) => since <= instant).at(-1);
      return last === undefined ? [] : [{ reference, ...last }];
    });
  const shown = () => shownAt(now() - nanos(faults.lagSeconds));
  const represent = (instant: Instant): string => {
    const half = make.digits === "rounded" ? SECOND / 2n : 0n;
    const shownInstant = make.digits === "all" ? instant : ((instant + half) / SECOND) * SECOND;
    if (!make.offset) return formatInstant(shownInstant);
    return formatInstant(shownInstant + 7_200n * SECOND).replace("Z", "+02:00");
  };
  const write = (one: Shown & { reference: string }, garbled = false) => {
    const updatedAt = represent(one.updatedAt);
    return JSON.stringify({
      ...makeOrder({ ...one, updatedAt, more: showMore(make, one.reference, represent(PICKED_UP)) }),
      ...(garbled && { updatedAt: "yesterday" }),
    });
  };

  const bound = (instant: Instant) => (make.cutsBounds ? instant - (instant % SECOND) : instant);

  function listPage(query: WalkRequest) {
    const [since, until] = [bound(query.since), bound(query.until)];
    const inside = shown().filter(({ updatedAt }) => updatedAt >= since && updatedAt < until);
    // Orders are shown in the sequence of their creation, which is stable among equal times.
    const sorted =
      make.sort === "creation"
        ? inside
        : inside.toSorted((left, right) => (left.updatedAt < right.updatedAt ? -1 : 1));
    const listed = (make.descending ? sorted.toReversed() : sorted).slice(0, faults.listsAtMost);
    const page = listed.slice(query.offset, query.offset + make.limit);
    if (page.some(({ reference }) => faults.breaking.has(reference)))
      throw new ProviderError("this page cannot be served", { failure: "unavailable" });
    const raws = page.map((one) => write(one, faults.garbled.has(one.reference)));
    return {
      elements: raws.map((raw) => readListed({ raw, value: JSON.parse(raw) })),
      hasMore: query.offset + page.length < listed.length,
      limit: make.limit,
    };
  }

  const source: OrderSource = {
    promises: { pageRowsMax: make.limit, rateWindowMs: 10_000 },
    async listWindow(query) {
      const answer = beginExchange();
      await faults.before();
      return { ...listPage(query), requestedAt: answer() };
    },
    getOrder(reference) {
      const requestedAt = beginExchange()();
      if (faults.poisoned.has(reference)) {
        return Promise.reject(new ProviderError("this order cannot be read", { failure: "unavailable" }));
      }
      const denial = faults.denied.get(reference);
      const [other] = denial === "another order" ? shown().filter((one) => one.reference !== reference) : [];
      const named = (order: { reference: string }) => order.reference === reference;
      const owned = (order: { reference: string }) =>
        make.borrows && BORROWED.get(order.reference) === reference;
      const found = shown();
      const one = denial === undefined ? (found.find(named) ?? found.find(owned)) : other;
      if (one === undefined) {
        const failure = denial === "unnamed" ? "unavailable" : "not_found";
        return Promise.reject(new ProviderError("there is no such order", { failure }));
      }
      const raw = write(one);
      return Promise.resolve({ snapshot: readSnapshot(raw, JSON.parse(raw)), requestedAt });
    },
    listBranches() {
      beginExchange()();
      return Promise.resolve({ raws: [], hasMore: false });
    },
    providerClock,
  };
  return Object.assign(faults, source, {
    change(reference: string, skewSeconds: number): Shown {
      const status = `status ${(revision += 1) % make.statuses}`;
      const since = now();
      const updatedAt = since + nanos(skewSeconds);
      states.set(reference, [...(states.get(reference) ?? []), { since, updatedAt, status }]);
      return { updatedAt, status };
    },
    /** As restored from a backup: changes since then never happened. */
    goBack(seconds: number) {
      const until = now() - nanos(seconds);
      states = new Map(
        [...states].map(([reference, history]) => [reference, history.filter(({ since }) => since <= until)]),
      );
    },
    /** Lists and single reads show every order again. */
    heal() {
      faults.listsAtMost = Infinity;
      for (const spoilt of [faults.denied, faults.poisoned, faults.garbled, faults.breaking]) spoilt.clear();
    },
    /** Its current state, regardless of the lag. */
    truth: (): Map<string, Shown> =>
      new Map(shownAt(now()).map(({ reference, updatedAt, status }) => [reference, { updatedAt, status }])),
    /** Every change that it has made and not taken back, the current states too. */
    history: () =>
      [...states].flatMap(([reference, history]) => history.map((one) => ({ reference, ...one }))),
  });
}
