import type { Instant } from "../../domain/order/instant.ts";
import { chance } from "../world/chance.ts";
import type { OrderRow, Status } from "../api/orderRow.ts";
import { addMillis } from "../world/sandboxClock.ts";
import type { SandboxState } from "../world/sandboxState.ts";

/** How long an order stays in a status at speed 1. */
const STAY_MS: Readonly<Partial<Record<Status, number>>> = {
  created: 600_000,
  arrived_for_pickup: 180_000,
  picked_up: 720_000,
  arrived_for_delivery: 120_000,
};
/** The actual stay is 60 % to 140 % of that. */
const STAY_SPREAD = 0.8;

/** When the fleet takes the next step, at least `restMs` from now; null if it takes none. */
export function planNextMove(
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
