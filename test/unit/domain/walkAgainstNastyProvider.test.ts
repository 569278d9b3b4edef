import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";
import { provableUntil, type Window } from "../../../src/domain/window/window.ts";
import {
  arbitraryBehaviour,
  NastyProvider,
  START,
  type NastyBehaviour,
} from "../../support/providers/nastyProvider.ts";

const LIMIT = 200;
const MARGIN_SECONDS = 5;
const SEED = 20_261_120;
/** Drawn cases; three times as many in the long form. */
const runs = (count: number) => (process.env["TEST_LONG"] === "1" ? 3 * count : count);

const nameState = ({ reference, revision }: { reference: string; revision: number }) =>
  `${reference}/${revision}`;

/** The greatest revision of each order that a walk over the window shows, and whether it knows that it missed nothing. */
function walk(
  provider: NastyProvider,
  window: Window,
  { open = false, beforeRequest = () => undefined }: { open?: boolean; beforeRequest?: () => void } = {},
) {
  const seen = new Map<string, number>();
  let state = startWalk({ window, limit: LIMIT, pagesMax: open ? 500 : 5_000, open });
  for (let request = nextRequest(state); request; request = nextRequest(state)) {
    beforeRequest();
    const page = provider.list(request);
    const rows = page.rows.map((row) => ({ key: nameState(row), version: row.updatedAt }));
    state = receivePage(state, { ...page, rows });
    for (const index of state.fresh) {
      const { reference, revision } = page.rows[index]!;
      seen.set(reference, Math.max(revision, seen.get(reference) ?? 0));
    }
  }
  const { outcome } = state;
  return { seen, kind: outcome?.kind, proved: outcome?.kind === "read" && outcome.proved };
}

/** A provider with a past, that may change no more, and the end of a window up to 150 s ago. */
const scene = fc.record({
  behaviour: fc.oneof(
    { arbitrary: arbitraryBehaviour("small"), weight: 30 },
    { arbitrary: arbitraryBehaviour("full"), weight: 1 },
  ),
  bursts: fc.array(fc.record({ tenths: fc.nat(9), spreadSeconds: fc.constantFrom(0, 0.9) }), {
    maxLength: 2,
  }),
  agoSeconds: fc.oneof(fc.nat(10), fc.nat(150)),
  spanSeconds: fc.integer({ min: 1, max: 150 }),
  isQuiet: fc.boolean(),
});

function begin({ behaviour, bursts, isQuiet }: typeof scene extends fc.Arbitrary<infer One> ? One : never) {
  const provider = new NastyProvider(behaviour);
  provider.advance(10);
  for (const { tenths, spreadSeconds } of bursts)
    provider.burst((behaviour.orders * tenths) / 10, spreadSeconds);
  provider.advance(10);
  if (isQuiet) provider.calmDown();
  provider.advance(behaviour.lateSecondsMax);
  return provider;
}

describe("a walk over the pages of a nasty provider", () => {
  it("shows every order that stays in the window while it is proved, with any sort, ties, bounds, lateness and load", () => {
    fc.assert(
      fc.property(scene, (drawn) => {
        const provider = begin(drawn);
        const end = provableUntil(provider.providerNow, MARGIN_SECONDS);
        const until = addSeconds(end, -drawn.agoSeconds);
        const window = { since: addSeconds(until, -drawn.spanSeconds), until };
        const before = new Set(provider.visible().map(nameState));
        const { seen, kind, proved } = walk(provider, window);
        expect(kind).toBe("read");
        const missed = provider
          .visible()
          .filter(({ stamp }) => stamp >= window.since && stamp < window.until)
          .filter((row) => before.has(nameState(row)) && (seen.get(row.reference) ?? 0) < row.revision);
        expect(proved ? missed : []).toEqual([]);
        // A walk may be unproved, but never while nothing changes.
        expect(proved || !drawn.isQuiet).toBe(true);
      }),
      { numRuns: runs(500), seed: SEED },
    );
  });

  it("shows every order that was there when it began, if the window has no end and it is proved", () => {
    fc.assert(
      fc.property(scene, (drawn) => {
        const provider = begin(drawn);
        const since = addSeconds(provider.providerNow, -drawn.spanSeconds - MARGIN_SECONDS);
        const window = { since, until: addSeconds(provider.providerNow, 3_600) };
        const before = provider.visible().filter(({ stamp }) => stamp >= since && stamp < window.until);
        // A list that grows as fast as it is read has no end, and nothing is proved.
        const { seen, proved } = walk(provider, window, { open: true });
        const missed = before.filter(
          ({ reference, revision }) =>
            !provider.wentBack.has(reference) && (seen.get(reference) ?? 0) < revision,
        );
        expect(proved ? missed : []).toEqual([]);
        expect(proved || !drawn.isQuiet).toBe(true);
      }),
      { numRuns: runs(330), seed: SEED },
    );
  });

  it("does not prove a list that only looks sorted while as many rows leave it as it hides", () => {
    const steady = { orders: 60, limitMax: 10, updatesPerSecond: 0, lateShare: 0 } as const;
    fc.assert(
      fc.property(
        arbitraryBehaviour("small"),
        fc.constantFrom("byReference", "byReferenceDown"),
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: 1, max: 6 }),
        (drawn, sort, changed, leaving) => {
          const behaviour: NastyBehaviour = { ...drawn, ...steady, sort };
          const provider = new NastyProvider(behaviour);
          // Some old orders change in the middle of the window, so that they are at the wrong end of the list.
          for (let nth = 0; nth < changed; nth += 1) provider.change(nth, 60);
          provider.advance(10);
          const window = { since: addSeconds(START, -400), until: START };
          const before = new Set(provider.visible().map(nameState));
          const { seen, proved } = walk(provider, window, {
            beforeRequest() {
              const left = provider.requests - 2;
              if (left >= 0 && left < leaving) provider.change(behaviour.orders - 1 - left);
            },
          });
          const missed = provider
            .visible()
            .filter(({ stamp }) => stamp < window.until)
            .filter((row) => before.has(nameState(row)) && !seen.has(row.reference));
          expect(proved ? missed : []).toEqual([]);
        },
      ),
      { numRuns: runs(100), seed: SEED },
    );
  });
});
