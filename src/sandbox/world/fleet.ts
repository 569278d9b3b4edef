import { STATUSES, type Status } from "../api/parameters.ts";
import { refused } from "../api/refusal.ts";
import { chance, choose, makeCode } from "./chance.ts";
import { moveOrders, addOrders, type NewOrder } from "../api/orderBook.ts";
import { putStates, readDueOrders, rescheduleMoves, takeOrderNumbers } from "../api/orders.sql.ts";
import { nextStatus, type OrderRow, type Origin } from "../api/orderRow.ts";
import {
  addSeconds,
  floorTo,
  instantFromMillis,
  NANOS_PER_MILLI,
  NANOS_PER_SECOND,
  type Instant,
} from "../../domain/order/instant.ts";
import { GAZETTEER } from "./gazetteer.ts";
import { planTrip } from "./routing.ts";
import { addMillis, type SandboxState } from "./state.ts";
import type { Branch } from "./directory.ts";

const MOVES_PER_BATCH_MAX = 200;

/** After a change of speed, open orders move within this time at speed 1. */
const SPREAD_MS = 600_000;

/** Share of the sandbox's own traffic that never arrives. */
const ACCIDENT_SHARE = 0.05;
/** The statuses in which an order may end early: the first two through the business, the others through the fleet. */
const ACCIDENT_STATUSES = STATUSES.slice(0, 4);

/** Moves live orders whose next step is due, at most one batch. */
export async function moveDueOrders(state: SandboxState): Promise<void> {
  await state.write(async (connection) => {
    const due = await readDueOrders(connection, state.clock.now(), MOVES_PER_BATCH_MAX);
    const moves = due.flatMap((row) => {
      const status = decideStep(state.dials.seed, row);
      return status ? [{ row, status }] : [];
    });
    if (moves.length > 0) await moveOrders(state, connection, moves);
  });
}

/** Changes the fleet's speed and reschedules its open orders; at speed 0 they do not move. */
export async function setFleetSpeed(state: SandboxState, speed: number): Promise<void> {
  state.dials.fleetSpeed = speed;
  const spreadNanos = speed === 0 ? null : instantFromMillis(SPREAD_MS / speed);
  await state.write((connection) => rescheduleMoves(connection, { now: state.clock.now(), spreadNanos }));
}

function decideStep(seed: number, row: OrderRow): Status | undefined {
  const meetsAccident = row.origin === "traffic" && chance(seed, "accident", row.number) < ACCIDENT_SHARE;
  if (meetsAccident) {
    const at = Math.floor(chance(seed, "accidentStatus", row.number) * ACCIDENT_STATUSES.length);
    if (ACCIDENT_STATUSES[at] === row.status) return "cancelled";
  }
  return nextStatus(row.status);
}

const FIRST_NAMES = ["Anna", "Bram", "Chantal", "Daan", "Emma", "Fatima", "Gijs", "Hanna", "Ilse", "Joost"];
const ORDERS_PER_BATCH_MAX = 1_000;

const ORGANIZATION_ID = "sandbox";
/** After the process was suspended, at most this many missed orders are created. */
const CATCH_UP_MAX = 100;
const MINUTE_NANOS = 60e9;

export type Traffic = ReturnType<typeof makeTraffic>;

/** Orders that the business creates automatically, at a steady pace. */
export function makeTraffic(state: SandboxState) {
  const { clock, dials } = state;
  const intervalOf = () => BigInt(Math.round(MINUTE_NANOS / dials.ordersPerMinute));
  let dueAt: Instant | null = null;
  const restart = () => {
    dueAt = dials.ordersPerMinute > 0 ? clock.now() + intervalOf() : null;
  };
  restart();
  return {
    /** Returns the instant at which the next one is due; null if traffic is off. */
    dueAt: () => dueAt,
    /** Restarts counting after a change of the pace. */
    restart,
    /** Creates the orders that are due. */
    run: async () => {
      const now = clock.now();
      if (dueAt === null || dueAt > now) return;
      const missed = Number((now - dueAt) / intervalOf()) + 1;
      dueAt += BigInt(missed) * intervalOf();
      const count = Math.min(missed, CATCH_UP_MAX);
      if (!state.directory.branchesOf(ORGANIZATION_ID).some(canTakeOrders)) return;
      await makeOrders(state, { organizationId: ORGANIZATION_ID, livemode: true, count, origin: "traffic" });
    },
  };
}

/** Whose an order is, and who creates it. */
interface Owner {
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly origin: Origin;
}

/** Creates plausible orders of an organization, at its connected branches in turn; see findBranches. */
export async function makeOrders(
  state: SandboxState,
  request: Owner & { count: number },
): Promise<OrderRow[]> {
  const branches = findBranches(state, request.organizationId);
  const rows: OrderRow[] = [];
  while (rows.length < request.count) {
    const batch = Math.min(ORDERS_PER_BATCH_MAX, request.count - rows.length);
    const make = (number: bigint) => imagineOrder(state, { ...request, branches, number });
    rows.push(...(await state.write((connection) => addOrders(state, connection, { count: batch, make }))));
  }
  state.wake();
  return rows;
}

/** An invented past: `count` orders, created at even intervals in [since, until). */
interface PastRequest extends Omit<Owner, "origin"> {
  readonly count: number;
  readonly since: Instant;
  readonly until: Instant;
}

/**
 * Creates past orders: finished ones, and those of the last forty minutes as just created. No events, because they
 * would have been sent long ago.
 */
export async function seedOrders(state: SandboxState, request: PastRequest): Promise<void> {
  const { organizationId, count, since, until } = request;
  const branches = findBranches(state, organizationId);
  const interval = (until - since) / BigInt(count);
  for (let made = 0; made < count; made += ORDERS_PER_BATCH_MAX) {
    await state.write(async (connection) => {
      const size = Math.min(ORDERS_PER_BATCH_MAX, count - made);
      const taken = await takeOrderNumbers(connection, size, state.dials.seed);
      const rows = taken.map((each, index) => {
        const createdAt = floorTo(since + interval * BigInt(made + index), NANOS_PER_MILLI);
        return imaginePast(state, { ...request, ...each, branches, createdAt });
      });
      const now = state.clock.now();
      const states = rows.map((row) => ({ row, visibleAt: now }));
      await putStates(connection, states, now);
    });
  }
}

/** Older orders of the past are finished. */
const PAST_SECONDS = 2_400;

function imaginePast(
  state: SandboxState,
  past: PastRequest & { number: bigint; reference: string; branches: readonly Branch[]; createdAt: Instant },
): OrderRow {
  const { number, reference, createdAt, until, organizationId, livemode, branches } = past;
  const { seed, fleetSpeed } = state.dials;
  const drawn = (name: string) => chance(seed, name, number);
  const isOpen = until - createdAt < BigInt(PAST_SECONDS) * NANOS_PER_SECOND;
  const finished = drawn("past") < ACCIDENT_SHARE ? "cancelled" : "delivered";
  const status = isOpen ? "created" : finished;
  const order = imagineOrder(state, { organizationId, livemode, origin: "seed", branches, number });
  const at = (seconds: number) => addMillis(createdAt, Math.floor(seconds * 1_000));
  const updatedAt = isOpen ? createdAt : at(1_900 + drawn("pastStay") * 100);
  const pickupTime = floorTo(at(900 + drawn("pastPickup") * 420), 60n * NANOS_PER_SECOND);
  const moves = isOpen && livemode && fleetSpeed > 0;
  return {
    ...order,
    number,
    reference,
    externalOrderId: `OLD-${number}`,
    status,
    basis: "asap",
    pickupTime,
    deliveryTime: addSeconds(pickupTime, 1_200),
    realPickup: status === "delivered" ? at(800) : null,
    realDelivery: status === "delivered" ? updatedAt : null,
    createdAt,
    updatedAt,
    nextMoveAt: moves ? addMillis(state.clock.now(), (drawn("pastMove") * SPREAD_MS) / fleetSpeed) : null,
  };
}

/** The branches of an organization at which orders can be made up. Throws branch_not_connected if there is none. */
function findBranches({ directory }: SandboxState, organizationId: string): readonly Branch[] {
  const branches = directory.branchesOf(organizationId).filter(canTakeOrders);
  if (branches.length > 0) return branches;
  throw refused(422, "branch_not_connected", "No open branch has coordinates and a primary connection.");
}

/** Tells whether a creation without a zoneCode could succeed. */
function canTakeOrders(branch: Branch): boolean {
  return (
    !branch.closed &&
    branch.coordinates !== null &&
    branch.connections.some((connection) => connection.isPrimary)
  );
}

function imagineOrder(
  state: SandboxState,
  request: Owner & { branches: readonly Branch[]; number: bigint },
): NewOrder {
  const { seed } = state.dials;
  const { number, branches, origin, organizationId, livemode } = request;
  const branch = choose(branches, seed, "branch", number);
  // A street near the branch, if the gazetteer knows streets there.
  const near = GAZETTEER.filter(({ city }) => city === branch.address.city);
  const street = choose(near.length > 0 ? near : GAZETTEER, seed, "street", number);
  const house = 1 + Math.floor(chance(seed, "house", number) * street.houses);
  const address = { street: `${street.street} ${house}`, city: street.city, postcode: street.postcode };
  const coordinates = { latitude: street.latitude, longitude: street.longitude };
  const zoneCode = branch.connections.find((each) => each.isPrimary)?.zoneCode ?? "";
  return {
    organizationId,
    livemode,
    // Not one that a caller may have used already.
    externalOrderId: `WEB-${makeCode(10, seed, "external", number)}`,
    origin,
    firstName: choose(FIRST_NAMES, seed, "name", number),
    phone: `+31 6 0000 ${String(number % 10_000n).padStart(4, "0")}`,
    scheduleMode: "asap",
    ...planTrip(state, { branch, zoneCode, address, coordinates }),
  };
}
