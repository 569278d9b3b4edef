import { addMillis } from "./sandboxClock.ts";
import type { Clock } from "../runtime/clock.ts";
import { millisFromInstant } from "../domain/instant.ts";
import type { SandboxState } from "./sandboxState.ts";
import type { Works } from "./works.ts";

/** Keeps the works going. On a virtual clock they only run when something was done or the clock is moved. */
export interface WorkLoop {
  /** Something may be due now. */
  readonly wake: () => void;
  /** Virtual only: moves the clock on by `ms`, doing on the way what falls due, each at its own instant. */
  readonly advance: (ms: number) => Promise<void>;
  /** Resolves when nothing is due and nothing is under way. */
  readonly idle: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const IDLE_MS = 1_000;
const FAILURE_PAUSE_MS = 1_000;

export function makeWorkLoop(deps: {
  state: SandboxState;
  works: Works;
  systemClock: Clock;
  signal: AbortSignal;
}): WorkLoop {
  const { state, works, systemClock, signal } = deps;
  let rest: AbortController | undefined;
  let woken = false;
  let last: Promise<unknown> = Promise.resolve();
  /** One after the other: the loop and a moved clock must not do the same work twice. */
  const inTurn = <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
  const runAllDue = () =>
    inTurn(async () => {
      while (!signal.aborted && (await works.runOnce()) > 0);
    });
  const wake = () => {
    woken = true;
    rest?.abort();
  };
  const restUntilDue = async () => {
    const due = await works.dueAt();
    const leftMs = due === null ? IDLE_MS : millisFromInstant(due - state.clock.now());
    const isVirtual = state.clock.kind === "virtual";
    rest = new AbortController();
    if (woken) return;
    const ms = isVirtual ? IDLE_MS : Math.min(IDLE_MS, Math.max(1, leftMs));
    await systemClock.sleep(ms, AbortSignal.any([signal, rest.signal])).catch(() => undefined);
  };
  const loop = async () => {
    while (!signal.aborted) {
      woken = false;
      try {
        await runAllDue();
        await restUntilDue();
      } catch (error) {
        if (signal.aborted) return;
        state.logger.error({ err: error }, "the works of the sandbox failed");
        await systemClock.sleep(FAILURE_PAUSE_MS, signal).catch(() => undefined);
      }
    }
  };
  const running = loop();
  return {
    wake,
    advance: async (ms) => {
      const target = addMillis(state.clock.now(), ms);
      await runAllDue();
      await inTurn(async () => {
        for (;;) {
          const due = await works.dueAt();
          if (due === null || due > target || signal.aborted) break;
          state.clock.moveTo(due);
          while ((await works.runOnce()) > 0);
        }
        state.clock.moveTo(target);
      });
    },
    idle: async () => {
      await runAllDue();
      await works.settle();
      await runAllDue();
    },
    close: async () => {
      await running;
      await works.settle();
    },
  };
}
