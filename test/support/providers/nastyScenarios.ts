import fc from "fast-check";
import type { NastyBehaviour } from "./nastyProvider.ts";

/** What happens at a nasty provider while it is polled. */
export interface NastyScenario extends NastyBehaviour {
  readonly cycles: number;
  /** Before these cycles this many orders change, in one instant or within a second. */
  readonly bursts: readonly {
    readonly cycle: number;
    readonly orders: number;
    readonly spreadSeconds: number;
  }[];
}

type Size = "limitMax" | "orders" | "updatesPerSecond" | "bursts";
type Arbitraries<Member extends keyof NastyScenario> = {
  [Name in Member]: fc.Arbitrary<NastyScenario[Name]>;
};

/** Its behaviour at any size. No change becomes visible later than an overlap of `overlapSeconds` allows. */
export function arbitraryBehaviour(overlapSeconds: number): Arbitraries<Exclude<keyof NastyScenario, Size>> {
  return {
    seed: fc.nat(),
    sort: fc.constantFrom("ascending", "descending", "byReference", "byReferenceDown", "shuffled"),
    ties: fc.constantFrom("stable", "random"),
    sinceInclusive: fc.boolean(),
    untilInclusive: fc.boolean(),
    cutsBounds: fc.boolean(),
    granule: fc.constantFrom(1_000_000_000n, 1_000_000n, 1_000n),
    keepsFiner: fc.boolean(),
    requestSeconds: fc.constantFrom(0.05, 0.5, 2),
    lateShare: fc.constantFrom(0, 0.03, 0.3),
    lateSecondsMax: fc.constantFrom(1, 20, overlapSeconds - 2),
    futureShare: fc.constantFrom(0, 0.02),
    futureSecondsMax: fc.constantFrom(0, 100),
    skewSeconds: fc.constantFrom(0, 2),
    cycles: fc.integer({ min: 1, max: 7 }),
  };
}

/** `full` has realistic pages and load; `small` a tenth of that, so that thousands of runs are possible. */
export function arbitrarySizes(extent: "small" | "full"): Arbitraries<Size> {
  const isFull = extent === "full";
  const burst = isFull ? fc.constantFrom(90, 300) : fc.constantFrom(9, 30);
  return {
    limitMax: isFull ? fc.constantFrom(100, 200) : fc.constantFrom(10, 20),
    orders: isFull ? fc.constantFrom(500, 2_000) : fc.constantFrom(15, 60, 200),
    updatesPerSecond: isFull ? fc.constantFrom(0, 2, 20, 200) : fc.constantFrom(0, 0.2, 2, 20),
    bursts: fc.array(fc.record({ cycle: fc.nat(6), orders: burst, spreadSeconds: fc.constantFrom(0, 0.9) }), {
      maxLength: 2,
    }),
  };
}
