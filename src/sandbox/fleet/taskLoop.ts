import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { makeLoop } from "../../runtime/lifecycle/loop.ts";
import { addMillis } from "../world/sandboxClock.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import type { Scope, SandboxTasks } from "./sandboxTasks.ts";
import { saveClock } from "../world/world.sql.ts";

/** Runs the tasks. On a virtual clock they run only after something was done or the clock was advanced. */
export interface TaskLoop {
  /** Call when something may be due. */
  readonly wake: () => void;
  /**
   * Virtual only: advances the clock by `ms` and runs everything that falls due on the way, each at its own instant.
   */
  readonly advance: (ms: number) => Promise<void>;
  /** Resolves when nothing is due and nothing is under way. */
  readonly idle: () => Promise<void>;
  /** Runs `work` while the tasks are paused. */
  readonly pause: InTurn;
  /** Stops the loop, and resolves when nothing is under way. */
  readonly end: () => Promise<void>;
}

type InTurn = <Result>(work: () => Promise<Result>) => Promise<Result>;

interface LoopDeps {
  readonly state: SandboxState;
  readonly tasks: SandboxTasks;
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

const IDLE_MS = 1_000;

export function makeTaskLoop(deps: LoopDeps): TaskLoop {
  const { state, tasks, systemClock, signal } = deps;
  const inTurn = makeTurns();
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
    wake: loop.wake,
    pause: inTurn,
    advance: (ms) =>
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
    idle: async () => {
      do await runAllDue();
      while ((await tasks.drain()) > 0);
    },
    end: async () => {
      await loop.stop();
      await tasks.drain();
    },
  };
}

/** Serialises the loop, clock advances and resets, which work on the same data. */
function makeTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}

/** Returns when the next task is due. */
async function runWhileDue({ tasks, signal }: LoopDeps, scope: Scope): Promise<Instant | null> {
  for (;;) {
    const { done, dueAt } = await tasks.runOnce(scope);
    if (!done || signal.aborted) return dueAt;
  }
}

/** Milliseconds until `dueAt`, if waiting helps: a virtual clock does not advance meanwhile. */
function pauseUntil({ clock }: SandboxState, dueAt: Instant | null): number {
  if (dueAt === null || clock.kind === "virtual") return IDLE_MS;
  return Math.min(IDLE_MS, Math.max(1, millisFromInstant(dueAt - clock.now())));
}
