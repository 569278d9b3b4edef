import { expect, it } from "vitest";
import { requestRefetches } from "../../../../src/poll/refetches.sql.ts";
import { readPollState } from "../../../support/mirror/tables.ts";
import { CLOCK_START, startVirtualWorld } from "../../../support/virtual/virtualTime.ts";

const MARGIN_SECONDS = 300;

it("claims again a margin after it first missed an order that is shown singly and never listed", async () => {
  const world = await startVirtualWorld({ speed: 1, trafficPerMinute: 10 });
  const { clock, pool, provider } = world;
  await world.steer("POST", "/seed", { orders: 100 });
  const { rows } = await provider.query<{ reference: string }>(
    `select reference from sandbox.orders where livemode and next_move_at is null
     order by updated_at desc limit 1`,
  );
  const hidden = rows[0]!.reference;
  await requestRefetches(pool, { sourceId: "live", references: [hidden], reason: "test" });
  world.spoil(({ url, body }) => {
    if (url.pathname !== "/v1/orders") return undefined;
    const page = JSON.parse(body) as { data: { reference: string }[] };
    const data = page.data.filter(({ reference }) => reference !== hidden);
    return { body: JSON.stringify({ ...page, data }) };
  });
  world.startPoller("one");
  /** At the end: how far the claim trails, the wrong claims since the start, and whether lists are in doubt. */
  async function watch(from: number, until: number) {
    const wrong: string[] = [];
    let claimed = 0n;
    for (let second = from; second <= until; second += 5) {
      await clock.runUntil(second * 1_000);
      claimed = (await readPollState(pool, "live"))?.safeThrough ?? 0n;
      wrong.push(...(await world.falseClaims(claimed)));
    }
    const states = await pool.query("select from mirror.poll_state where list_doubted_at is not null");
    const lag = until - Number((claimed - CLOCK_START) / 1_000_000_000n);
    return { isBehind: lag > MARGIN_SECONDS + 180, wrong, doubted: states.rowCount };
  }
  expect(await watch(5, MARGIN_SECONDS)).toEqual({ isBehind: true, wrong: [], doubted: 1 });
  const after = await watch(MARGIN_SECONDS + 5, 3 * MARGIN_SECONDS);
  expect(after).toEqual({ isBehind: false, wrong: [], doubted: 0 });
});
