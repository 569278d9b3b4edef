import type { Instant } from "../../domain/order/instant.ts";
import type { Faults, FaultsPatch } from "./faults.ts";
import { addMillis } from "../world/sandboxClock.ts";
import type { SandboxState } from "../world/sandboxState.ts";

export type FaultTimer = ReturnType<typeof makeFaultTimer>;

/** Faults that end automatically. */
export function makeFaultTimer({ clock, faults }: Pick<SandboxState, "clock" | "faults">) {
  let running: { endsAt: Instant; before: FaultsPatch }[] = [];
  return {
    /** Applies `patch` for `ms`; then its faults return to their previous values. */
    setFor: (patch: FaultsPatch, ms: number) => {
      const before = pick(faults.current(), Object.keys(patch) as (keyof Faults)[]);
      faults.set(patch);
      running.push({ endsAt: addMillis(clock.now(), ms), before });
    },
    /** Ends the expired ones. */
    run: () => {
      const over = running.filter(({ endsAt }) => endsAt <= clock.now());
      running = running.filter((each) => !over.includes(each));
      // The latest first: each restores the values it found.
      for (const { before } of over.reverse()) faults.set(before);
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
