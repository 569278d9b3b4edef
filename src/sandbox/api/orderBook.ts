import { refuseOrder } from "./refusal.ts";
import { chance } from "../world/chance.ts";
import { addMillis, shownTime, type SandboxState } from "../world/state.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { emitEvents, type DeliveryPlan } from "../events/events.ts";
import { putStates, readOrder, takeOrderNumbers, type OrderName } from "./orders.sql.ts";
import { cutTo, type OrderRow } from "./orderRow.ts";
import type { Status } from "./parameters.ts";
import type { Connection } from "../world/world.sql.ts";
import type { Trip } from "../world/routing.ts";

/** Stay of an order in a status at speed 1, in milliseconds. */
const STAY_MS: Readonly<Partial<Record<Status, number>>> = {
  created: 600_000,
  arrived_for_pickup: 180_000,
  picked_up: 720_000,
  arrived_for_delivery: 120_000,
};
/** The actual stay is 60 % to 140 % of that. */
const STAY_SPREAD = 0.8;

/** Plans the instant of the fleet's next step, at least `restMs` from now; null if it takes none. */
function planNextMove(
  row: OrderRow,
  state: Pick<SandboxState, "clock" | "dials">,
  restMs = 0,
): Instant | null {
  const stayMs = STAY_MS[row.status];
  const { fleetSpeed, seed } = state.dials;
  if (!row.livemode || stayMs === undefined || fleetSpeed <= 0) return null;
  const factor = 1 + STAY_SPREAD * (chance(seed, "stay", row.number, row.status) - 0.5);
  return addMillis(state.clock.now(), Math.max(restMs, (stayMs * factor) / fleetSpeed));
}

/** Deliberate treatment of one change, regardless of the shares in force. */
export interface ChangePlan extends DeliveryPlan {
  /** The fleet pauses for this long after the change. */
  readonly restMs?: number | undefined;
}

export type NewOrder = Omit<
  OrderRow,
  "number" | "reference" | "status" | "createdAt" | "updatedAt" | "realPickup" | "realDelivery" | "nextMoveAt"
>;

/** Fields that the business may change; see updateOrder. */
export type OrderPatch = Partial<Pick<OrderRow, "firstName" | "phone"> & Trip>;

/** Makes and stores `count` new orders, in the caller's transaction. */
export async function addOrders(
  state: SandboxState,
  connection: Connection,
  { count, make }: { count: number; make: (number: bigint) => NewOrder },
): Promise<OrderRow[]> {
  const taken = await takeOrderNumbers(connection, count, state.dials.seed);
  const rows = taken.map((named): OrderRow => {
    const order = make(named.number);
    const { at, updatedAt } = stamp(state);
    const row: OrderRow = {
      ...order,
      ...named,
      status: "created",
      createdAt: cutTo(at, state.faults.current().timestampGranularity),
      updatedAt,
      realPickup: null,
      realDelivery: null,
      nextMoveAt: null,
    };
    return { ...row, nextMoveAt: planNextMove(row, state) };
  });
  await store(state, connection, rows);
  await emitEvents(
    state,
    connection,
    rows.map((row) => ({ row, at: row.createdAt, plan: {} })),
  );
  return rows;
}

/** The order as its writer sees it, including changes that readers do not see yet. Throws order_not_found. */
export async function findForChange(connection: Connection, order: OrderName): Promise<OrderRow> {
  const row = await readOrder(connection, "latest", order);
  if (!row) throw refuseOrder();
  return row;
}

/** Moves orders to another status and records the events, in the caller's transaction. */
export async function moveOrders(
  state: SandboxState,
  connection: Connection,
  moves: readonly { row: OrderRow; status: Status }[],
  plan: ChangePlan = {},
): Promise<OrderRow[]> {
  const steps = moves.map(({ row: before, status }) => {
    const { at, updatedAt } = stamp(state, before);
    const exact = cutTo(at, state.faults.current().timestampGranularity);
    const row: OrderRow = {
      ...before,
      status,
      updatedAt,
      realPickup: status === "picked_up" ? exact : before.realPickup,
      realDelivery: status === "delivered" ? exact : before.realDelivery,
    };
    return { row: { ...row, nextMoveAt: planNextMove(row, state, plan.restMs) }, at, plan };
  });
  const rows = steps.map(({ row }) => row);
  await store(state, connection, rows);
  await emitEvents(state, connection, steps);
  return rows;
}

/** Changes fields of an order, in the caller's transaction. */
export async function patchOrder(
  state: SandboxState,
  connection: Connection,
  before: OrderRow,
  patch: OrderPatch,
): Promise<OrderRow> {
  const { at, updatedAt } = stamp(state, before);
  const row = { ...before, ...patch, updatedAt };
  await store(state, connection, [row]);
  await emitEvents(state, connection, [{ row, at, plan: {}, isUpdate: true }]);
  return row;
}

/** The instant of a change by the provider's clock, and the updatedAt that it records. */
function stamp(state: SandboxState, before?: OrderRow): { at: Instant; updatedAt: Instant } {
  const faults = state.faults.current();
  const at = shownTime(state.clock.stamp(), faults);
  const updatedAt = cutTo(at, faults.timestampGranularity);
  // Assumed: an order's updatedAt never decreases.
  const goesBack = before !== undefined && updatedAt < before.updatedAt;
  return { at, updatedAt: goesBack ? before.updatedAt : updatedAt };
}

/** Stores rows, a share of them for later visibility. */
async function store(state: SandboxState, connection: Connection, rows: readonly OrderRow[]): Promise<void> {
  const { lateCommitShare, lateCommitMs } = state.faults.current();
  const now = state.clock.now();
  const isLate = (row: OrderRow) =>
    chance(state.dials.seed, "late", row.number, row.status) < lateCommitShare;
  const states = rows.map((row) => ({ row, visibleAt: isLate(row) ? addMillis(now, lateCommitMs) : now }));
  await putStates(connection, states, now);
}
