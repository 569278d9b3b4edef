import { millisFromInstant } from "../domain/instant.ts";
import type { Clock } from "../runtime/clock.ts";
import { addMillis } from "./sandboxClock.ts";
import type { SandboxState } from "./sandboxState.ts";
import type { Works } from "./works.ts";
import { saveClock } from "./worldSql.ts";

/** Keeps the works going. On a virtual clock they only run when something was done or the clock is moved. */
export interface WorkLoop {
  /** Something may be due now. */
  readonly wake: () => void;
  /** Virtual only: moves the clock on by `ms`, doing on the way what falls due, each at its own instant. */
  readonly advance: (ms: number) => Promise<void>;
  /** Resolves when nothing is due and nothing is under way. */
  readonly idle: () => Promise<void>;
  /** Runs `work` while the works rest. */
  readonly pause: InTurn;
  /** Resolves when the loop has seen the abort of its signal. */
  readonly ended: () => Promise<void>;
}

type InTurn = <Result>(work: () => Promise<Result>) => Promise<Result>;

interface LoopDeps {
  readonly state: SandboxState;
  readonly works: Works;
  readonly systemClock: Clock;
  readonly signal: AbortSignal;
}

const IDLE_MS = 1_000;
const FAILURE_PAUSE_MS = 1_000;

export function makeWorkLoop(deps: LoopDeps): WorkLoop {
  const { state, works, signal } = deps;
  const inTurn = makeTurns();
  const runAllDue = () => inTurn(() => runWhileDue(deps));
  const rest = makeRest(deps);
  const running = runLoop(deps, async () => {
    rest.begin();
    await runAllDue();
    await rest.untilDue();
  });
  return {
    wake: rest.wake,
    pause: inTurn,
    advance: (ms) =>
      inTurn(async () => {
        const target = addMillis(state.clock.now(), ms);
        await runWhileDue(deps);
        for (;;) {
          const due = await works.dueAt();
          if (due === null || due > target || signal.aborted) break;
          state.clock.moveTo(due);
          await runWhileDue(deps);
        }
        state.clock.moveTo(target);
        await saveClock(state.pool, state.clock.now());
      }),
    idle: async () => {
      await runAllDue();
      await works.settle();
      await runAllDue();
    },
    ended: async () => {
      await running;
      await works.settle();
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

async function runWhileDue({ works, signal }: LoopDeps): Promise<void> {
  while (!signal.aborted && (await works.runOnce()) > 0);
}

async function runLoop({ state, systemClock, signal }: LoopDeps, turn: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    try {
      await turn();
    } catch (error) {
      if (signal.aborted) return;
      state.logger.error({ err: error }, "the works of the sandbox failed");
      await systemClock.sleep(FAILURE_PAUSE_MS, signal).catch(() => undefined);
    }
  }
}

/** Sleeps between two turns; a wake during the turn makes the sleep that follows it fall away. */
function makeRest({ state, works, systemClock, signal }: LoopDeps) {
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
    untilDue: async () => {
      const due = state.clock.kind === "real" ? await works.dueAt() : null;
      if (woken) return;
      const leftMs = due === null ? IDLE_MS : millisFromInstant(due - state.clock.now());
      sleeping = new AbortController();
      const ms = Math.min(IDLE_MS, Math.max(1, leftMs));
      await systemClock.sleep(ms, AbortSignal.any([signal, sleeping.signal])).catch(() => undefined);
    },
  };
}
