import type { Instant } from "../domain/instant.ts";
import type { Clock } from "../runtime/clock.ts";
import { readDueTimes, settleDelivery, takeDueDeliveries } from "./deliverySql.ts";
import type { DueDelivery } from "./deliverySql.ts";
import { moveDueOrders } from "./fleet.ts";
import { putLateChanges } from "./orderSql.ts";
import type { SandboxState } from "./sandboxState.ts";
import type { FaultTimer } from "./faultTimer.ts";
import { sendDelivery } from "./sendDelivery.ts";
import type { Traffic } from "./traffic.ts";

/** What happens by itself: late changes become visible, the business orders, the fleet moves, events are sent. */
export interface Works {
  /**
   * Does what is due now, as far as one batch goes; deliveries are only begun. Returns whether anything was done,
   * and when the next thing is due by what was known before, null when nothing was. With `deliveries` the world
   * itself stays as it is.
   */
  readonly runOnce: (scope: Scope) => Promise<{ done: boolean; dueAt: Instant | null }>;
  /** Waits until every delivery under way has ended. */
  readonly settle: () => Promise<void>;
}

export type Scope = "all" | "deliveries";

const DELIVERIES_AT_ONCE_MAX = 16;

export function makeWorks(deps: {
  state: SandboxState;
  traffic: Traffic;
  faultTimer: FaultTimer;
  systemClock: Clock;
  signal: AbortSignal;
}): Works {
  const { state, traffic, faultTimer, systemClock, signal } = deps;
  const underWay = new Set<Promise<void>>();
  const deliver = async (delivery: DueDelivery) => {
    const result = await sendDelivery(state, delivery, { systemClock, signal });
    // Ended by the shutdown, not by the receiver: it stays taken, and the next start attempts it again.
    if (signal.aborted && result.status === null) return;
    await settleDelivery(state.pool, result);
    const { eventId, eventType, reference } = delivery;
    state.logger.debug(
      { event_id: eventId, event_type: eventType, reference, outcome: result.state, status: result.status },
      "delivery attempted",
    );
    state.wake();
  };
  const startDeliveries = async () => {
    const free = DELIVERIES_AT_ONCE_MAX - underWay.size;
    if (free <= 0 || signal.aborted) return;
    // One at a time on a virtual clock, so that receivers see the same sequence in every run.
    const limit = state.clock.kind === "virtual" ? 1 : free;
    const due = await takeDueDeliveries(state.pool, state.clock.now(), limit);
    for (const delivery of due) {
      const task = deliver(delivery)
        .catch((error: unknown) => state.logger.error({ err: error }, "a delivery could not be recorded"))
        .finally(() => underWay.delete(task));
      underWay.add(task);
    }
    if (state.clock.kind === "virtual") await Promise.all(underWay);
  };
  return {
    runOnce: async (scope) => {
      const due = await readDueTimes(state.pool);
      // With all senders busy, the end of one of them wakes the loop.
      const delivery = underWay.size < DELIVERIES_AT_ONCE_MAX ? due.delivery : null;
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
      if (isDue(delivery)) await startDeliveries();
      return { done: true, dueAt };
    },
    settle: async () => {
      await Promise.all(underWay);
    },
  };
}

function earliest(instants: readonly (Instant | null)[]): Instant | null {
  return instants.reduce<Instant | null>(
    (first, instant) => (instant !== null && (first === null || instant < first) ? instant : first),
    null,
  );
}
