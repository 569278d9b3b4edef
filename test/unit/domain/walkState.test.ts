import fc from "fast-check";
import { expect, it } from "vitest";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import { decodeWalk, encodeWalk } from "../../../src/domain/window/walkState.ts";
import { nextRequest, receivePage, startWalk } from "../../../src/domain/window/walk.ts";
import type { Walk } from "../../../src/domain/window/walk.ts";
import { NastyProvider } from "../../support/providers/nastyProvider.ts";
import { arbitrarySizes, arbitraryBehaviour } from "../../support/providers/nastyScenarios.ts";

const behaviour = arbitraryBehaviour(60);
const scenarios = fc.oneof(
  { arbitrary: fc.record({ ...behaviour, ...arbitrarySizes("small") }), weight: 30 },
  { arbitrary: fc.record({ ...behaviour, ...arbitrarySizes("full") }), weight: 1 },
);

/** What distinguishes walks that continue differently. */
const essence = (walk: Walk) => ({
  ...walk,
  fresh: [],
  seen: { count: walk.seen.count, complete: walk.seen.complete },
});

it("continues after it was stored exactly as in memory, page for page", () => {
  let stored = 0;
  fc.assert(
    fc.property(scenarios, (scenario) => {
      const provider = new NastyProvider(scenario);
      provider.advance(10);
      for (const { orders } of scenario.bursts) provider.burst(orders);
      provider.advance(30);
      const until = addSeconds(provider.providerNow, -5);
      const window = { since: addSeconds(until, -150), until };
      let inMemory = startWalk({ window, limit: 200, pagesMax: 500 });
      let restored = inMemory;
      const pages: string[][] = [];
      for (let request = nextRequest(inMemory); request; request = nextRequest(inMemory)) {
        expect(nextRequest(restored)).toEqual(request);
        const served = provider.list(request);
        const rows = served.rows.map(({ reference, revision, updatedAt: version }) => ({
          key: `${reference}/${revision}`,
          version,
        }));
        const { count } = inMemory.seen;
        inMemory = receivePage(inMemory, { ...served, rows });
        const after = receivePage(restored, { ...served, rows });
        expect(after.fresh).toEqual(inMemory.fresh);
        pages.push(inMemory.seen.count > count ? [...inMemory.seen.newest] : []);
        restored = decodeWalk(encodeWalk(after), pages)!;
        expect(essence(restored)).toEqual(essence(inMemory));
        stored += 1;
      }
      expect(restored.outcome).toEqual(inMemory.outcome);
    }),
    { numRuns: 300, seed: 20_261_122 },
  );
  expect(stored).toBeGreaterThan(600);
});

it("starts again when another program version stored it in a different form", () => {
  const walk = startWalk({ window: { since: 0n, until: 10n }, limit: 200, pagesMax: 500 });
  const text = JSON.stringify({ ...(JSON.parse(encodeWalk(walk)) as object), format: 0 });
  expect(decodeWalk(text, [])).toBeUndefined();
  expect(decodeWalk(encodeWalk(walk), [])).toEqual(walk);
});
