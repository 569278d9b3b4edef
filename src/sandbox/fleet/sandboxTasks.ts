import type { Instant } from "../../domain/order/instant.ts";
import type { Deliverer } from "../events/deliverer.ts";
import { readDueTimes } from "../events/delivery.sql.ts";
import type { FaultTimer } from "../control/faultTimer.ts";
import { moveDueOrders } from "./fleet.ts";
import { putLateChanges } from "../api/order.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import type { Traffic } from "./traffic.ts";

/** Automatic activity: late changes become visible, the business orders, the fleet moves, events are sent. */
export interface SandboxTasks {
  /**
   * Does what is due now, at most one batch; deliveries are only started. Returns whether anything was done, and when
   * the next thing is due as far as known before, null if nothing is. With `deliveries` the world itself stays
   * unchanged.
   */
  readonly runOnce: (scope: Scope) => Promise<{ done: boolean; dueAt: Instant | null }>;
  /** Waits until every delivery under way has ended; returns how many there were. */
  readonly drain: () => Promise<number>;
}

export type Scope = "all" | "deliveries";

export function makeSandboxTasks(deps: {
  state: SandboxState;
  traffic: Traffic;
  faultTimer: FaultTimer;
  deliverer: Deliverer;
}): SandboxTasks {
  const { state, traffic, faultTimer, deliverer } = deps;
  return {
    runOnce: async (scope) => {
      const due = await readDueTimes(state.pool);
      const delivery = deliverer.isFull() ? null : due.delivery;
      const own = [faultTimer.dueAt(), due.lateChange, traffic.dueAt(), due.move];
      const dueAt = earliest(scope === "all" ? [...own, delivery] : [delivery]);
      const now = state.clock.now();
      const isDue = (instant: Instant | null) => instant !== null && instant <= now;
      if (!isDue(dueAt)) return { done: false, dueAt };
      if (scope === "all") {
        faultTimer.run();
        if (isDue(due.lateChange)) await state.write((connection) => putLateChanges(connection, now));
        await traffic.run();
        if (isDue(due.move)) await moveDueOrders(state);
      }
      if (isDue(delivery)) await deliverer.begin();
      return { done: true, dueAt };
    },
    drain: deliverer.drain,
  };
}

function earliest(instants: readonly (Instant | null)[]): Instant | null {
  return instants.reduce<Instant | null>(
    (first, instant) => (instant !== null && (first === null || instant < first) ? instant : first),
    null,
  );
}
