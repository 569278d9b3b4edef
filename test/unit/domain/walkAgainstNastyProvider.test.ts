import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { safeThrough } from "../../support/virtual/safeThroughModel.ts";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";
import { BOUND_GRANULE, provableUntil } from "../../../src/domain/window/window.ts";
import type { Window } from "../../../src/domain/window/window.ts";
import { NastyProvider, seconds, START } from "../../support/providers/nastyProvider.ts";
import type { ServedRow } from "../../support/providers/nastyProvider.ts";
import { arbitrarySizes, arbitraryBehaviour } from "../../support/providers/nastyScenarios.ts";
import type { NastyScenario } from "../../support/providers/nastyScenarios.ts";

const SETTLE_SECONDS = 5;
const OVERLAP_SECONDS = 60;
const INTERVAL_SECONDS = 30;
const LIMIT = 200;
const HISTORY_SINCE = addSeconds(START, -400);

/** How a poller reads a window. `proved`: it knows that it missed nothing. */
type ReadWindow = (
  provider: NastyProvider,
  window: Window,
  see: (row: ServedRow) => void,
) => { proved: boolean };

const nameState = ({ reference, revision }: { reference: string; revision: number }) =>
  `${reference}/${revision}`;

/** The behaviour of a poller. Flawed pollers replace a part. */
interface Poller {
  readonly read: ReadWindow;
  /** `greatest` is the greatest updatedAt seen. */
  readonly nextWindow: (options: { polledThrough: Instant; end: Instant; greatest: Instant }) => Window;
}

const walk = (
  provider: NastyProvider,
  window: Window,
  see: (row: ServedRow) => void,
  beforeRequest: () => void = () => undefined,
) => {
  let state = startWalk({ window, limit: LIMIT, pagesMax: 5_000 });
  for (let request = nextRequest(state); request; request = nextRequest(state)) {
    beforeRequest();
    const page = provider.list(request);
    const rows = page.rows.map((row) => ({
      key: nameState(row),
      version: row.updatedAt,
    }));
    state = receivePage(state, { ...page, rows });
    for (const index of state.fresh) see(page.rows[index]!);
  }
  expect(state.outcome?.kind).toBe("read");
  return { proved: state.outcome?.kind === "read" && state.outcome.proved };
};

const readByOffsets: ReadWindow = (provider, { since, until }, see) => {
  for (let offset = 0; ;) {
    const page = provider.list({
      since: since - seconds(1),
      until: until + seconds(1),
      limit: LIMIT,
      offset,
    });
    page.rows.forEach(see);
    offset += page.rows.length;
    if (!page.hasMore) return { proved: true };
  }
};

const nextWindow =
  (overlapSeconds: number): Poller["nextWindow"] =>
  ({ polledThrough, end }) => {
    const from = polledThrough < end ? polledThrough : end;
    const since = addSeconds(from, -overlapSeconds);
    return { since: since < end ? since : end - BOUND_GRANULE, until: end };
  };
const sound: Poller = { read: walk, nextWindow: nextWindow(OVERLAP_SECONDS) };

const flawed: Record<string, Poller> = {
  "goes from offset to offset": { ...sound, read: readByOffsets },
  "leaves no overlap": { ...sound, nextWindow: nextWindow(0) },
  "takes the greatest updatedAt for its cursor, and asks for all that is later": {
    ...sound,
    nextWindow: ({ greatest }) => ({
      since: addSeconds(greatest, -OVERLAP_SECONDS),
      until: addSeconds(greatest, 86_400),
    }),
  },
};

interface Ending {
  /** Orders whose last state no fast window showed. */
  readonly missedByFast: string[];
  /** Orders whose last state nothing showed, after one delayed sweep at the end. */
  readonly missed: string[];
  /** Changes that the poller had claimed without having seen them. */
  readonly falseClaims: string[];
  readonly allProved: boolean;
}

/** Polls through the scenario and the quiet after it, then sweeps once more. */
function simulate(scenario: NastyScenario, poller: Poller = sound): Ending {
  const provider = new NastyProvider(scenario);
  const seen = new Map<string, number>();
  const proved: Window[] = [];
  const falseClaims = new Set<string>();
  let polledThrough: Instant = HISTORY_SINCE;
  let greatest: Instant = polledThrough;
  let reached: Instant = HISTORY_SINCE;
  let allProved = true;

  const see = ({ reference, revision, updatedAt }: ServedRow) => {
    seen.set(reference, Math.max(revision, seen.get(reference) ?? 0));
    if (updatedAt > greatest) greatest = updatedAt;
  };
  const unseen = (before?: Instant) =>
    provider
      .visible()
      .filter(({ stamp }) => before === undefined || stamp < before)
      .filter(({ reference, revision }) => (seen.get(reference) ?? 0) < revision)
      .map(({ reference }) => reference);
  const pollFast = () => {
    const end = provableUntil(provider.providerNow, SETTLE_SECONDS);
    const window = poller.nextWindow({ polledThrough, end, greatest });
    allProved = poller.read(provider, window, see).proved && allProved;
    polledThrough = window.until;
  };
  const sweepDelayed = (lookbackSeconds: number) => {
    const lateSeconds = SETTLE_SECONDS + OVERLAP_SECONDS;
    const until = provableUntil(provider.providerNow, lateSeconds);
    const lookback = addSeconds(until, -lookbackSeconds);
    const since = lookback < reached ? lookback : reached;
    const window = { since, until };
    if (poller.read(provider, window, see).proved) proved.push(window);
    reached = safeThrough(reached, proved);
    for (const reference of unseen(reached)) falseClaims.add(reference);
  };

  for (let cycle = 0; cycle < scenario.cycles; cycle += 1) {
    for (const burst of scenario.bursts)
      if (burst.cycle === cycle) provider.burst(burst.orders, burst.spreadSeconds);
    const due = provider.now + seconds(INTERVAL_SECONDS);
    pollFast();
    if (cycle % 3 === 2) sweepDelayed(60);
    if (provider.now < due) provider.advance(Number(due - provider.now) / 1e9);
  }
  provider.calmDown();
  const quietSeconds = scenario.lateSecondsMax + scenario.futureSecondsMax + scenario.skewSeconds;
  for (let waited = 0; waited <= quietSeconds + INTERVAL_SECONDS; waited += INTERVAL_SECONDS) {
    provider.advance(INTERVAL_SECONDS);
    pollFast();
  }
  const missedByFast = unseen();
  provider.advance(SETTLE_SECONDS + OVERLAP_SECONDS + scenario.futureSecondsMax);
  sweepDelayed(10_000);
  return { missedByFast, missed: unseen(), falseClaims: [...falseClaims], allProved };
}

const behaviour = arbitraryBehaviour(OVERLAP_SECONDS);
const smallScenarios: fc.Arbitrary<NastyScenario> = fc.record({ ...behaviour, ...arbitrarySizes("small") });
const fullScenarios: fc.Arbitrary<NastyScenario> = fc.record({ ...behaviour, ...arbitrarySizes("full") });

const judge = (scenario: NastyScenario, poller?: Poller) => {
  const { missedByFast, missed, falseClaims, allProved } = simulate(scenario, poller);
  return { missed, falseClaims, missedByFast: allProved ? missedByFast : [] };
};
const NOTHING = { missed: [], falseClaims: [], missedByFast: [] };

describe("polling a nasty provider", () => {
  it("misses nothing and claims nothing false with any sort, ties, bounds, lateness and load", () => {
    fc.assert(
      fc.property(smallScenarios, (scenario) => {
        expect(judge(scenario)).toEqual(NOTHING);
      }),
      { numRuns: 1_500, seed: 20_261_120 },
    );
  });

  it("misses nothing with pages of 100 and 200 and 300 orders at one instant", () => {
    fc.assert(
      fc.property(fullScenarios, (scenario) => {
        expect(judge(scenario)).toEqual(NOTHING);
      }),
      { numRuns: 50, seed: 20_261_120 },
    );
  });

  it("shows every order that stays in the window during a proved walk", () => {
    fc.assert(
      fc.property(
        fc.oneof({ arbitrary: smallScenarios, weight: 30 }, { arbitrary: fullScenarios, weight: 1 }),
        fc.tuple(fc.oneof(fc.nat(10), fc.nat(150)), fc.integer({ min: 1, max: 150 })),
        fc.boolean(),
        (scenario, [agoSeconds, spanSeconds], quiet) => {
          const provider = new NastyProvider(scenario);
          provider.advance(10);
          for (const { orders, spreadSeconds } of scenario.bursts) provider.burst(orders, spreadSeconds);
          provider.advance(10);
          if (quiet) provider.calmDown();
          provider.advance(scenario.lateSecondsMax);
          const end = provableUntil(provider.providerNow, SETTLE_SECONDS);
          const until = addSeconds(end, -agoSeconds);
          const window = { since: addSeconds(until, -spanSeconds), until };
          const before = new Set(provider.visible().map(nameState));
          const seen = new Set<string>();
          const { proved } = walk(provider, window, (row) => seen.add(nameState(row)));
          const stayed = provider
            .visible()
            .filter(({ stamp }) => stamp >= window.since && stamp < window.until)
            .map(nameState)
            .filter((state) => before.has(state));
          expect(proved ? stayed.filter((state) => !seen.has(state)) : []).toEqual([]);
          // A walk may be unproved, but never while nothing changes.
          expect(proved || !quiet).toBe(true);
        },
      ),
      { numRuns: 3_000, seed: 20_261_120 },
    );
  });

  it("does not prove a list that only looks sorted while as many rows leave it as it hides", () => {
    fc.assert(
      fc.property(
        fc.record({
          ...behaviour,
          ...arbitrarySizes("small"),
          sort: fc.constantFrom("byReference", "byReferenceDown"),
          orders: fc.constant(60),
          limitMax: fc.constant(10),
          updatesPerSecond: fc.constant(0),
          lateShare: fc.constant(0),
        }),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 6 }),
        (scenario, changed, leaving) => {
          const provider = new NastyProvider(scenario);
          // Some old orders change in the middle of the window, so that they are at the wrong end of the list.
          for (let nth = 0; nth < changed; nth += 1) provider.change(nth, 60);
          provider.advance(10);
          const window = { since: addSeconds(START, -400), until: START };
          const before = new Set(provider.visible().map(nameState));
          const seen = new Set<string>();
          const { proved } = walk(
            provider,
            window,
            (row) => seen.add(nameState(row)),
            () => {
              const left = provider.requests - 2;
              if (left >= 0 && left < leaving) provider.change(scenario.orders - 1 - left);
            },
          );
          const missed = provider
            .visible()
            .filter(({ stamp }) => stamp < window.until)
            .map(nameState)
            .filter((state) => before.has(state) && !seen.has(state));
          expect(proved ? missed : []).toEqual([]);
        },
      ),
      { numRuns: 300, seed: 20_261_120 },
    );
  });

  it.each(Object.entries(flawed))("fails with a poller that %s", (_, poller) => {
    const property = fc.property(smallScenarios, (scenario) => {
      expect(judge(scenario, poller)).toEqual(NOTHING);
    });
    const { failed, counterexample } = fc.check(property, {
      numRuns: 500,
      seed: 20_261_120,
      endOnFailure: true,
    });
    expect({ failed, counterexample }).toEqual({ failed: true, counterexample: [expect.anything()] });
  });
});
