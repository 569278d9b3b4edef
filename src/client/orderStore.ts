import type { OrderState } from "../domain/order/order.ts";
import { compareBounds, digestState } from "../wire/stateRange.ts";
import type { RangeSum, StateBound, StateRange } from "../wire/stateRange.ts";
import { readSnapshot } from "../wire/order.ts";
import type { Order } from "./answers.ts";

/** For an erased order, `hash` is what the mirror says instead of the hash of its content. */
export interface StoredOrder extends OrderState {
  readonly order: Order;
}

/**
 * A reader's own copy of the orders, for `mirror.reconcile`. States are sorted by version and then by hash; a bound is a
 * place in that sequence, also one that no state has. Ranges include `since` and exclude `until`. A store must keep the
 * hash that it is given. Each method is given many ranges so that a database needs one statement for them.
 */
export interface OrderStore {
  /** The number of states in each range, and the exclusive or of digestState(salt, hash) of all of them. */
  sums(ranges: readonly StateRange[], salt: string): Promise<readonly RangeSum[]>;
  /**
   * For each range with more than `parts` states, ascending bounds within it that cut it into that many parts of about
   * the same number of states, none of them empty; for others, none.
   */
  cuts(ranges: readonly StateRange[], parts: number): Promise<readonly (readonly StateBound[])[]>;
  /** The states in each range. */
  states(ranges: readonly StateRange[]): Promise<readonly (readonly OrderState[])[]>;
  /** Stores these orders instead of those with the same reference. */
  put(orders: readonly StoredOrder[]): Promise<void>;
  remove(references: readonly string[]): Promise<void>;
}

/** An order with its state. Throws UnreadableSnapshotError for what no mirror serves, such as an unreadable updatedAt. */
export function stateOf(order: Order): StoredOrder {
  const { version, hash, fields } = readSnapshot("", order);
  return { reference: fields.reference, version, hash, order };
}

/** Keeps orders in memory: `orders` has them by reference. */
export function memoryOrders(
  initial: Iterable<StoredOrder> = [],
): OrderStore & { readonly orders: ReadonlyMap<string, StoredOrder> } {
  const orders = new Map<string, StoredOrder>();
  for (const order of initial) orders.set(order.reference, order);
  /** Undefined after a change. */
  let sorted: readonly StoredOrder[] | undefined;
  const within = ({ since, until }: StateRange) => {
    sorted ??= [...orders.values()].toSorted(compareBounds);
    return sorted.slice(findPlace(sorted, since), findPlace(sorted, until));
  };
  return {
    orders,
    sums: (ranges, salt) =>
      Promise.resolve(
        ranges.map((range) => {
          const states = within(range);
          return { count: states.length, sum: sumStates(states, salt) };
        }),
      ),
    cuts: (ranges, parts) => Promise.resolve(ranges.map((range) => cut(within(range), parts))),
    states: (ranges) => Promise.resolve(ranges.map(within)),
    put(added) {
      for (const order of added) orders.set(order.reference, order);
      sorted = undefined;
      return Promise.resolve();
    },
    remove(references) {
      for (const reference of references) orders.delete(reference);
      sorted = undefined;
      return Promise.resolve();
    },
  };
}

/** The exclusive or of the digests of states. */
export function sumStates(states: readonly OrderState[], salt: string): bigint {
  let sum = 0n;
  for (const { hash } of states) sum ^= digestState(salt, hash);
  return sum;
}

/** The index of the first state at or behind a bound. */
function findPlace(sorted: readonly StateBound[], bound: StateBound): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const state = sorted[middle];
    if (state !== undefined && compareBounds(state, bound) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

function cut(states: readonly OrderState[], parts: number): StateBound[] {
  if (states.length <= parts) return [];
  return Array.from({ length: parts - 1 }, (_, index) => {
    const first = Math.floor(((index + 1) * states.length) / parts);
    const { version = 0n, hash = "" } = states[first] ?? {};
    // The hash is long, and rarely needed.
    return { version, hash: states[first - 1]?.version === version ? hash : "" };
  });
}
