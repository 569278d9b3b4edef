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
  /** Does all that is due now and waits for the deliveries; returns how many things were done. */
  readonly runOnce: () => Promise<number>;
  /** The next instant at which anything is due; null when nothing is. */
  readonly dueAt: () => Promise<Instant | null>;
  /** Waits until every delivery under way has ended. */
  readonly settle: () => Promise<void>;
}

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
    if (free <= 0 || signal.aborted) return 0;
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
    return due.length;
  };
  return {
    runOnce: async () => {
      const ended = faultTimer.run();
      const late = await state.write((connection) => putLateChanges(connection, state.clock.now()));
      const ordered = await traffic.run();
      const moved = await moveDueOrders(state);
      const started = await startDeliveries();
      return ended + late + ordered + moved + started;
    },
    dueAt: async () => {
      const { delivery, move, lateChange } = await readDueTimes(state.pool);
      // With all senders busy, the end of one of them wakes the loop.
      const sendable = underWay.size < DELIVERIES_AT_ONCE_MAX ? delivery : null;
      return earliest([sendable, move, lateChange, traffic.dueAt(), faultTimer.dueAt()]);
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
