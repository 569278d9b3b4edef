import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { floorTo } from "../../../src/domain/order/instant.ts";
import { seconds } from "../../support/providers/nastyProvider.ts";
import { arbitrarySizes, arbitraryBehaviour } from "../../support/providers/nastyScenarios.ts";
import {
  OVERLAP_SECONDS,
  PAGE_LIMIT,
  readByWalk,
  simulatePolling,
  sound,
} from "../../support/virtual/simulatedPolling.ts";
import type { Rules, Scenario } from "../../support/virtual/simulatedPolling.ts";

const SEED = 20_261_121;
const SECOND = seconds(1);

const readByOffsets: Rules["read"] = (ask, { since, until }) => {
  for (let offset = 0; ;) {
    const page = ask({ since: since - SECOND, until: until + SECOND, limit: PAGE_LIMIT, offset });
    offset += page.rows.length;
    if (!page.hasMore) return { proved: true };
  }
};

/** Continues from the last timestamp of each page, and assumes that pages are ascending. */
const readTrustingOrder: Rules["read"] = (ask, window) => {
  let since = window.since - SECOND;
  for (let offset = 0; ;) {
    const { rows, hasMore } = ask({ since, until: window.until + SECOND, limit: PAGE_LIMIT, offset });
    const last = rows.at(-1);
    if (!hasMore || last === undefined) return { proved: true };
    const next = floorTo(last.updatedAt, SECOND) - SECOND;
    offset = next > since ? 0 : offset + rows.length;
    if (next > since) since = next;
  }
};

const flawed: Record<string, Rules> = {
  "takes the greatest updatedAt for its cursor": { ...sound, cursor: "greatest updatedAt" },
  "leaves no overlap": { ...sound, overlapSeconds: 0 },
  "takes a walked window for a proof": { ...sound, closing: "none" },
  "ends the head sweep with the present": { ...sound, closing: "closed" },
  "reads the present in whatever direction its pages have": {
    ...sound,
    read: (ask, window) => readByWalk(ask, window, false),
  },
  "goes from offset to offset": { ...sound, read: readByOffsets },
  "does not look how pages are sorted": { ...sound, read: readTrustingOrder },
  "stamps what it saw with the time of writing": { ...sound, stamp: "write" },
  "believes its own clock": { ...sound, clock: "local" },
};

const behaviour = {
  ...arbitraryBehaviour(OVERLAP_SECONDS),
  localSkewSeconds: fc.constantFrom(-600, 0, 600),
  crashShare: fc.constantFrom(0, 0, 0.02, 0.2),
  crashAtStep: fc.constant(0),
  answerSecondsMax: fc.constantFrom(1, 300),
};
const small: fc.Arbitrary<Scenario> = fc.record({ ...behaviour, ...arbitrarySizes("small") });
const full: fc.Arbitrary<Scenario> = fc.record({ ...behaviour, ...arbitrarySizes("full") });

const WELL = { staleAfterPolls: [], stale: [], different: [], falseClaims: [], gap: false, secondWrites: 0 };

function judge(scenario: Scenario, rules?: Rules) {
  const { steps: _steps, ...ending } = simulatePolling(scenario, rules);
  return ending;
}

describe("polling a nasty provider, with events, refetches and a process that dies", () => {
  it("ends with the provider's orders, no gap, no false claim, and no writes in a second pass", () => {
    fc.assert(
      fc.property(small, (scenario) => {
        expect(judge(scenario)).toEqual(WELL);
      }),
      { numRuns: 2_000, seed: SEED },
    );
  });

  it("does so with pages of 100 and 200, and up to 200 changes per second", () => {
    fc.assert(
      fc.property(full, (scenario) => {
        expect(judge(scenario)).toEqual(WELL);
      }),
      { numRuns: 60, seed: SEED },
    );
  });

  it("survives the death of the process after each of its steps", () => {
    const [sample] = fc.sample(
      small.map((scenario) => ({
        ...scenario,
        orders: 60,
        limitMax: 10,
        updatesPerSecond: 2,
        crashShare: 0,
        cycles: 6,
      })),
      { numRuns: 1, seed: SEED },
    );
    const { steps } = simulatePolling(sample!);
    expect(steps).toBeGreaterThan(50);
    for (let crashAtStep = 1; crashAtStep <= steps; crashAtStep += 1) {
      expect({ crashAtStep, ...judge({ ...sample!, crashAtStep }) }).toEqual({ crashAtStep, ...WELL });
    }
  });

  it.each(Object.entries(flawed))("fails with a poller that %s", (_, rules) => {
    const property = fc.property(small, (scenario) => {
      expect(judge(scenario, rules)).toEqual(WELL);
    });
    const { failed, counterexample } = fc.check(property, {
      numRuns: 1_000,
      seed: SEED,
      endOnFailure: true,
    });
    expect({ failed, counterexample }).toEqual({ failed: true, counterexample: [expect.anything()] });
  });
});
