import { expect, it } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { readPollState } from "../../support/mirror/tables.ts";
import { startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const ORDERS = process.env["TEST_LONG"] === "1" ? 100_000 : 20_000;
const PAGE = 200;
const DAY_NANOS = 86_400n * 10n ** 9n;
/** The nine tenths of the order-list policy that we use. */
const ALLOWED_PER_SECOND = 1.8;

it("reads a long history with few more requests than necessary, as fast as the rate allows", async () => {
  const { clock, pool, sandbox, listTimes, steer, startPoller } = await startVirtualWorld();
  const start = sandbox.now();
  await steer("POST", "/seed", { orders: ORDERS, since: formatInstant(start - 29n * DAY_NANOS) });
  startPoller("only");
  const isDone = async () =>
    ((await readPollState(pool, "live"))?.safeThrough ?? 0n) > start - 3_600n * 10n ** 9n;
  while (!(await isDone()) && clock.monotonicMs() < 1_200_000)
    await clock.runUntil(clock.monotonicMs() + 10_000);
  const { rows } = await pool.query<{ requests: number; orders: number }>(
    "select sum(requests)::int as requests, sum(orders)::int as orders from mirror.coverage where until < $1::bigint",
    [start],
  );
  const { requests = 0 } = rows[0] ?? {};
  expect((await pool.query("select from mirror.orders")).rowCount).toBe(ORDERS);
  // A window has thirty pages at most, and its last one is seldom full.
  expect(requests).toBeLessThanOrEqual(1.12 * (ORDERS / PAGE));
  // From the first cycle to the end of the last history window, including other reads.
  const busy = listTimes().slice(0, requests);
  const seconds = (busy.at(-1)! - busy[0]!) / 1_000;
  expect(busy.length / seconds).toBeGreaterThanOrEqual(0.95 * ALLOWED_PER_SECOND);
});
