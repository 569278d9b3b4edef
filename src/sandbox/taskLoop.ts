import PQueue from "p-queue";
import { millisFromInstant, type Instant } from "../domain/order/instant.ts";
import type { Clock } from "../process/clock.ts";
import { makeLoop } from "../process/loop.ts";
import { putLateChanges } from "./api/orders.sql.ts";
import { readDueTimes } from "./events/events.sql.ts";
import type { Deliverer } from "./events/events.ts";
import { moveDueOrders, type Traffic } from "./world/fleet.ts";
import { addMillis, type SandboxState } from "./world/state.ts";
import { saveClock } from "./world/world.sql.ts";

// What the sandbox does of its own accord: finds what is due, and does it. Start at `makeTaskLoop`.

interface LoopDeps {
  readonly state: SandboxState;
  readonly traffic: Traffic;
  readonly deliverer: Deliverer;
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

const IDLE_MS = 1_000;

export type TaskLoop = ReturnType<typeof makeTaskLoop>;

/**
 * Automatic activity: late changes become visible, the business orders, the fleet moves, events are sent. On a virtual
 * clock it runs only after something was done or the clock was advanced.
 */
export function makeTaskLoop(deps: LoopDeps) {
  const { state, deliverer, systemClock, signal } = deps;
  // The loop and advances of the clock work on the same data.
  const turns = new PQueue({ concurrency: 1 });
  const inTurn = <Result>(work: () => Promise<Result>) => turns.add(work);
  // A virtual world only changes when its clock is advanced; otherwise it would depend on the timing of this loop.
  const scope = state.clock.kind === "virtual" ? "deliveries" : "all";
  const runAllDue = () => inTurn(() => runWhileDue(deps, scope));
  const loop = makeLoop({
    run: async () => pauseUntil(state, await runAllDue()),
    everyMs: IDLE_MS,
    onError: (error) => state.logger.error({ err: error }, "the tasks of the sandbox failed"),
    clock: systemClock,
  });
  loop.start();
  return {
    /** Call when something may be due. */
    wake: loop.wake,
    /** Virtual only: advances by `ms` and runs everything due on the way, each at its own instant. */
    advance: (ms: number) =>
      inTurn(async () => {
        const target = addMillis(state.clock.now(), ms);
        for (;;) {
          const dueAt = await runWhileDue(deps, "all");
          if (dueAt === null || dueAt > target || signal.aborted) break;
          state.clock.moveTo(dueAt);
        }
        state.clock.moveTo(target);
        await saveClock(state.pool, state.clock.now());
      }),
    /** Resolves when nothing is due and nothing is under way. */
    idle: async () => {
      do await runAllDue();
      while ((await deliverer.drain()) > 0);
    },
    /** Stops the loop, and resolves when nothing is under way. */
    end: async () => {
      await loop.stop();
      await deliverer.drain();
    },
  };
}

/** With `deliveries` the world itself stays unchanged. */
type Scope = "all" | "deliveries";

/** Returns when the next task is due, null if none is. */
async function runWhileDue(deps: LoopDeps, scope: Scope): Promise<Instant | null> {
  for (;;) {
    const { done, dueAt } = await runOnce(deps, scope);
    if (!done || deps.signal.aborted) return dueAt;
  }
}

/**
 * Does what is due now, at most one batch; deliveries are only started. Returns whether anything was done, and when the
 * next thing was due as far as known before.
 */
async function runOnce({ state, traffic, deliverer }: LoopDeps, scope: Scope) {
  const due = await readDueTimes(state.pool, deliverer.sending());
  const delivery = deliverer.isFull() ? null : due.delivery;
  const own = [due.lateChange, traffic.dueAt(), due.move];
  const dueAt = earliest(scope === "all" ? [...own, delivery] : [delivery]);
  const now = state.clock.now();
  const isDue = (instant: Instant | null) => instant !== null && instant <= now;
  if (!isDue(dueAt)) return { done: false, dueAt };
  if (scope === "all") {
    if (isDue(due.lateChange)) await state.write((connection) => putLateChanges(connection, now));
    await traffic.run();
    if (isDue(due.move)) await moveDueOrders(state);
  }
  if (isDue(delivery)) await deliverer.begin();
  return { done: true, dueAt };
}

function earliest(instants: readonly (Instant | null)[]): Instant | null {
  const known = instants.filter((instant) => instant !== null);
  return known.toSorted((left, right) => (left < right ? -1 : 1))[0] ?? null;
}

/** Milliseconds until `dueAt`, if waiting helps: a virtual clock does not advance meanwhile. */
function pauseUntil({ clock }: SandboxState, dueAt: Instant | null): number {
  if (dueAt === null || clock.kind === "virtual") return IDLE_MS;
  return Math.min(IDLE_MS, Math.max(1, millisFromInstant(dueAt - clock.now())));
}
