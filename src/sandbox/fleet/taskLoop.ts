import { millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { addMillis } from "../world/sandboxClock.ts";
import type { SandboxState } from "../world/sandboxState.ts";
import type { Scope, SandboxTasks } from "./sandboxTasks.ts";
import { saveClock } from "../world/world.sql.ts";

/** Keeps the tasks going. On a virtual clock they only run when something was done or the clock is moved. */
export interface TaskLoop {
  /** Something may be due now. */
  readonly wake: () => void;
  /** Virtual only: moves the clock on by `ms`, doing on the way what falls due, each at its own instant. */
  readonly advance: (ms: number) => Promise<void>;
  /** Resolves when nothing is due and nothing is under way. */
  readonly idle: () => Promise<void>;
  /** Runs `work` while the tasks rest. */
  readonly pause: InTurn;
  /** Resolves when the loop has seen the abort of its signal. */
  readonly ended: () => Promise<void>;
}

type InTurn = <Result>(work: () => Promise<Result>) => Promise<Result>;

interface LoopDeps {
  readonly state: SandboxState;
  readonly tasks: SandboxTasks;
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

const IDLE_MS = 1_000;
const FAILURE_PAUSE_MS = 1_000;

export function makeTaskLoop(deps: LoopDeps): TaskLoop {
  const { state, tasks, signal } = deps;
  const inTurn = makeTurns();
  // A virtual world only changes when its clock is moved: else it would depend on when this loop happens to run.
  const scope = state.clock.kind === "virtual" ? "deliveries" : "all";
  const runAllDue = () => inTurn(() => runWhileDue(deps, scope));
  const rest = makeRest(deps);
  const running = runLoop(deps, async () => {
    rest.begin();
    await rest.until(await runAllDue());
  });
  return {
    wake: rest.wake,
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
    ended: async () => {
      await running;
      await tasks.drain();
    },
  };
}

/** One after the other: the loop, a moved clock and a reset must not work on the same things at once. */
function makeTurns(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}

/** Returns when the next thing is due. */
async function runWhileDue({ tasks, signal }: LoopDeps, scope: Scope): Promise<Instant | null> {
  for (;;) {
    const { done, dueAt } = await tasks.runOnce(scope);
    if (!done || signal.aborted) return dueAt;
  }
}

async function runLoop({ state, systemClock, signal }: LoopDeps, turn: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    try {
      await turn();
    } catch (error) {
      if (signal.aborted) return;
      state.logger.error({ err: error }, "the tasks of the sandbox failed");
      await systemClock.sleep(FAILURE_PAUSE_MS, signal).catch(() => undefined);
    }
  }
}

/** Sleeps between two turns; a wake during the turn makes the sleep that follows it fall away. */
function makeRest({ state, systemClock, signal }: LoopDeps) {
  let sleeping: AbortController | undefined;
  let woken = false;
  return {
    begin: () => {
      woken = false;
    },
    wake: () => {
      woken = true;
      sleeping?.abort();
    },
    until: async (dueAt: Instant | null) => {
      if (woken) return;
      // A virtual clock does not come nearer by waiting.
      const waits = dueAt === null || state.clock.kind === "virtual";
      const leftMs = waits ? IDLE_MS : millisFromInstant(dueAt - state.clock.now());
      sleeping = new AbortController();
      const ms = Math.min(IDLE_MS, Math.max(1, leftMs));
      await systemClock.sleep(ms, AbortSignal.any([signal, sleeping.signal])).catch(() => undefined);
    },
  };
}
