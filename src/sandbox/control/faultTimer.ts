import type { Instant } from "../../domain/order/instant.ts";
import type { Faults, FaultsPatch } from "./faults.ts";
import { addMillis } from "../world/sandboxClock.ts";
import type { SandboxState } from "../world/sandboxState.ts";

export interface FaultTimer {
  /** Applies `patch` for `ms`; then its faults return to their previous values. */
  readonly setFor: (patch: FaultsPatch, ms: number) => void;
  /** Ends the expired ones; returns how many. */
  readonly run: () => number;
  readonly dueAt: () => Instant | null;
  readonly reset: () => void;
}

export function makeFaultTimer({ clock, faults }: Pick<SandboxState, "clock" | "faults">): FaultTimer {
  let running: { endsAt: Instant; before: FaultsPatch }[] = [];
  return {
    setFor: (patch, ms) => {
      const before = pick(faults.current(), Object.keys(patch) as (keyof Faults)[]);
      faults.set(patch);
      running.push({ endsAt: addMillis(clock.now(), ms), before });
    },
    run: () => {
      const over = running.filter(({ endsAt }) => endsAt <= clock.now());
      running = running.filter((each) => !over.includes(each));
      // The latest first: each restores the values it found.
      for (const { before } of over.reverse()) faults.set(before);
      return over.length;
    },
    dueAt: () =>
      running.reduce<Instant | null>(
        (first, { endsAt }) => (first === null || endsAt < first ? endsAt : first),
        null,
      ),
    reset: () => {
      running = [];
    },
  };
}

function pick(faults: Faults, names: readonly (keyof Faults)[]): FaultsPatch {
  return Object.fromEntries(names.map((name) => [name, faults[name]]));
}
