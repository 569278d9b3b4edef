import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { recordDelivery, takeDueDeliveries } from "./delivery.sql.ts";
import type { AttemptResult, DueSandboxDelivery } from "./delivery.sql.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import { sendDelivery } from "./sendDelivery.ts";

/** Sends events, several concurrently. */
export interface Deliverer {
  /** Starts due deliveries while there is room; on a virtual clock, waits for them to end. */
  readonly begin: () => Promise<void>;
  /** Whether the maximum number is under way; when one ends, it wakes the loop. */
  readonly isFull: () => boolean;
  /** Waits until every delivery under way has ended; returns how many there were. */
  readonly drain: () => Promise<number>;
}

const DELIVERIES_AT_ONCE_MAX = 16;
const RECORD_PAUSE_MS = 1_000;

export function makeDeliverer(deps: {
  state: SandboxState;
  systemClock: Clock;
  signal: AbortSignal;
}): Deliverer {
  const { state, systemClock, signal } = deps;
  const underWay = new Set<Promise<void>>();
  /** Retried until it is recorded: a delivery that stays taken would not be attempted again before the next start. */
  const record = async (result: AttemptResult) => {
    for (;;) {
      try {
        await recordDelivery(state.pool, result);
        return;
      } catch (error) {
        if (signal.aborted) throw error;
        state.logger.warn({ err: error }, "an attempt could not be recorded yet");
        await systemClock.sleep(RECORD_PAUSE_MS, signal);
      }
    }
  };
  const deliver = async (delivery: DueSandboxDelivery) => {
    const result = await sendDelivery(state, delivery, { systemClock, signal });
    // Ended by the shutdown, not by the receiver: it stays taken, and the next start attempts it again.
    if (signal.aborted && result.status === null) return;
    await record(result);
    const { eventId, eventType, reference } = delivery;
    state.logger.debug(
      { event_id: eventId, event_type: eventType, reference, outcome: result.state, status: result.status },
      "delivery attempted",
    );
    state.wake();
  };
  return {
    isFull: () => underWay.size >= DELIVERIES_AT_ONCE_MAX,
    begin: async () => {
      // One at a time on a virtual clock, so that receivers see the same sequence in every run.
      const room = state.clock.kind === "virtual" ? 1 : DELIVERIES_AT_ONCE_MAX - underWay.size;
      if (room <= 0 || signal.aborted) return;
      for (const delivery of await takeDueDeliveries(state.pool, state.clock.now(), room)) {
        const task = deliver(delivery)
          .catch((error: unknown) => state.logger.error({ err: error }, "a delivery was not recorded"))
          .finally(() => underWay.delete(task));
        underWay.add(task);
      }
      if (state.clock.kind === "virtual") await Promise.all(underWay);
    },
    drain: async () => (await Promise.all(underWay)).length,
  };
}
