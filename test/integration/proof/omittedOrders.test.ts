import { expect, it } from "vitest";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import { readPollState } from "../../../src/poll/pollState.sql.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import type { ListedOrder } from "../../../src/domain/source/orderSource.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { LIVE } from "../../support/providers/testSandbox.ts";
import { CLOCK_START, startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const MARGIN_SECONDS = 300;

/** A poller in virtual time whose provider's lists show only what `shows` lets through. */
async function startWorld(shows: (listed: ListedOrder, second: number) => boolean) {
  const world = await startVirtualWorld({ speed: 1, trafficPerMinute: 10 });
  const { clock, pool, steer, provider, sandbox } = world;
  await steer("POST", "/seed", { orders: 100 });
  const budget = makeBudget({ clock });
  const client = makeProviderClient({
    baseUrl: sandbox.url,
    apiKey: LIVE,
    budget,
    clock,
    logger: silentLogger,
  });
  const { rows } = await provider.query<{ reference: string }>(
    `select reference from sandbox.orders where livemode and next_move_at is null
     order by updated_at desc limit 1`,
  );
  const [{ reference } = { reference: "" }] = rows;
  const start = () =>
    world.startPoller("one", {
      client: {
        ...client,
        async listWindow(...query) {
          const page = await client.listWindow(...query);
          const second = clock.monotonicMs() / 1_000;
          return { ...page, elements: page.elements.filter((one) => shows(one, second)) };
        },
      },
    });
  /** At the end: how far the claim trails, the wrong claims since the start, and whether lists are in doubt. */
  async function watch(from: number, until: number) {
    const wrong: string[] = [];
    let doubted = 0;
    let claimed = 0n;
    for (let second = from; second <= until; second += 5) {
      await clock.runUntil(second * 1_000);
      claimed = (await readPollState(pool, "live"))?.safeThrough ?? 0n;
      wrong.push(...(await world.falseClaims(claimed)));
      const { rows: states } = await pool.query(
        "select from mirror.poll_state where list_doubted_at is not null",
      );
      doubted = states.length;
    }
    return { lag: until - Number((claimed - CLOCK_START) / 1_000_000_000n), wrong, doubted };
  }
  return { pool, reference, start, watch };
}

it("claims again a margin after it first missed an order that is shown singly and never listed", async () => {
  let hidden = "";
  const { pool, reference, start, watch } = await startWorld(
    (one) => one.kind !== "order" || one.snapshot.fields.reference !== hidden,
  );
  hidden = reference;
  await requestRefetches(pool, { sourceId: "live", references: [reference], reason: "test" });
  start();
  const before = await watch(5, MARGIN_SECONDS);
  expect(before).toMatchObject({ wrong: [], doubted: 1 });
  expect(before.lag).toBeGreaterThan(MARGIN_SECONDS + 180);
  const after = await watch(MARGIN_SECONDS + 5, 3 * MARGIN_SECONDS);
  expect(after).toMatchObject({ wrong: [], doubted: 0 });
  expect(after.lag).toBeLessThan(MARGIN_SECONDS + 180);
});

it("claims nothing wrong while lists are empty for two margins, and goes on afterwards", async () => {
  const isEmpty = (second: number) => second >= 600 && second < 1_200;
  const { start, watch } = await startWorld((_, second) => !isEmpty(second));
  start();
  expect(await watch(5, 600)).toMatchObject({ wrong: [], doubted: 0 });
  expect(await watch(605, 1_200)).toMatchObject({ wrong: [], doubted: 1 });
  const after = await watch(1_205, 1_800);
  expect(after).toMatchObject({ wrong: [], doubted: 0 });
  expect(after.lag).toBeLessThan(MARGIN_SECONDS + 180);
});
