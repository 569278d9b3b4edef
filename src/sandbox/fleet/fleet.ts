import { ORDER_STATUSES } from "../../wire/listParameters.ts";
import { chance } from "../world/chance.ts";
import { rescheduleMoves } from "../control/control.sql.ts";
import { moveOrders } from "../api/orderBook.ts";
import { readDueOrders } from "../api/order.sql.ts";
import { nextStatus } from "../api/orderRow.ts";
import type { OrderRow, Status } from "../api/orderRow.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { saveFleetSpeed } from "../world/world.sql.ts";

const MOVES_PER_BATCH_MAX = 200;

/** After a change of speed, open orders move within this time at speed 1. */
const SPREAD_NANOS = 600_000_000_000;

/** Share of the sandbox's own traffic that never arrives. */
const ACCIDENT_SHARE = 0.05;
/** The statuses in which an order may end early: the first two through the business, the others through the fleet. */
const ACCIDENT_STATUSES = ORDER_STATUSES.slice(0, 4);

/** Moves live orders whose next step is due; returns how many. At most one batch. */
export async function moveDueOrders(state: SandboxState): Promise<number> {
  return state.write(async (connection) => {
    const due = await readDueOrders(connection, state.clock.now(), MOVES_PER_BATCH_MAX);
    const moves = due.flatMap((row) => {
      const status = decideStep(state.dials.seed, row);
      return status ? [{ row, status }] : [];
    });
    if (moves.length > 0) await moveOrders(state, connection, moves);
    return moves.length;
  });
}

/** Changes the fleet's speed and reschedules its open orders; at speed 0 they do not move. */
export async function setFleetSpeed(state: SandboxState, speed: number): Promise<void> {
  state.dials.fleetSpeed = speed;
  const spreadNanos = speed === 0 ? null : BigInt(Math.round(SPREAD_NANOS / speed));
  await state.write(async (connection) => {
    await rescheduleMoves(connection, { now: state.clock.now(), spreadNanos });
    await saveFleetSpeed(connection, speed);
  });
}

function decideStep(seed: number, row: OrderRow): Status | undefined {
  const meetsAccident = row.origin === "traffic" && chance(seed, "accident", row.number) < ACCIDENT_SHARE;
  if (meetsAccident) {
    const at = Math.floor(chance(seed, "accidentStatus", row.number) * ACCIDENT_STATUSES.length);
    if (ACCIDENT_STATUSES[at] === row.status) return "cancelled";
  }
  return nextStatus(row.status);
}
