import { expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import { mostInTenSeconds, startVirtualWorld, type VirtualWorld } from "../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
const SECOND_NANOS = 10n ** 9n;
const ORDERS = process.env["TEST_LONG"] === "1" ? 100_000 : 20_000;
const PAGE = 200;
/** The nine tenths of the order-list policy that we use. */
const ALLOWED_PER_SECOND = 1.8;
const DAY_NANOS = 86_400n * SECOND_NANOS;

/** Start times of the windows that reach the settled present. */
function livePolls(sent: VirtualWorld["sent"], start: bigint): number[] {
  const live = sent.filter(({ url, atMs }) => {
    const until = url.searchParams.get("updatedUntil");
    return (
      until !== null && parseInstant(until) > start + BigInt(Math.round(atMs * 1e6)) - 10n * SECOND_NANOS
    );
  });
  return live
    .map(({ atMs }) => atMs)
    .filter((atMs, index, all) => index === 0 || atMs > all[index - 1]! + 5_000);
}

it("keeps rate and interval through half an hour of polls, backfills, verifications and failing leaders", async () => {
  const world = await startVirtualWorld({ speed: 1, trafficPerMinute: 6 });
  const { clock, pool, sandbox, sent, steer, startPoller } = world;
  const start = sandbox.now();
  await steer("POST", "/seed", { orders: ORDERS, since: formatInstant(start - 29n * DAY_NANOS) });
  const leader = async () => {
    const { rows } = await pool.query<{ holder: string }>("select holder from mirror.leases");
    return rows[0]?.holder;
  };
  const first = startPoller("first");
  await clock.runUntil(MINUTE_MS);
  const second = startPoller("second");
  await clock.runUntil(5 * MINUTE_MS);
  expect(await leader()).toBe("first");

  // The long history was read with few more requests than necessary, as fast as the rate allows.
  const { rows } = await pool.query<{ requests: number; orders: number }>(
    "select sum(requests)::int as requests, sum(orders)::int as orders from mirror.coverage where until < $1",
    [start],
  );
  const { requests, orders } = rows[0]!;
  expect(orders).toBeGreaterThanOrEqual(ORDERS);
  // A window has thirty pages at most, and its last one is seldom full.
  expect(requests).toBeLessThanOrEqual(1.12 * (ORDERS / PAGE));
  // From the first cycle to the end of the last history window, including other reads.
  const busy = world.listTimes().slice(0, requests);
  expect(busy.length / ((busy.at(-1)! - busy[0]!) / 1_000)).toBeGreaterThanOrEqual(0.95 * ALLOWED_PER_SECOND);

  // Requests a backfill and a verification of everything; the leader dies during them.
  const month = { sourceId: "live", since: start - 29n * DAY_NANOS, until: sandbox.now() };
  const backfillId = await requestPeriod(pool, { kind: "backfill", ...month });
  const verificationId = await requestPeriod(pool, { kind: "verification", ...month });
  await clock.runUntil(5.5 * MINUTE_MS);
  first.kill();
  await clock.runUntil(12 * MINUTE_MS);
  expect(await leader()).toBe("second");

  const third = startPoller("third");
  await clock.runUntil(17 * MINUTE_MS);
  second.freeze();
  await clock.runUntil(19 * MINUTE_MS);
  second.thaw();
  await clock.runUntil(30 * MINUTE_MS);
  expect(await leader()).toBe("third");
  third.kill();

  expect(sent.filter(({ status }) => status !== 200)).toEqual([]);
  expect(mostInTenSeconds(world.listTimes())).toBeLessThanOrEqual(20);
  const polls = livePolls(sent, start);
  const gaps = polls.slice(1).map((atMs, index) => Math.round(atMs - polls[index]!));
  // Allows for a history page under way and a tick of one second.
  expect(gaps.filter((gapMs) => gapMs > 32_000).length).toBeLessThanOrEqual(2);
  // A new leader waits for the old lease to expire, then for its predecessor's rate window.
  expect(Math.max(...gaps)).toBeLessThanOrEqual(30_000 + 15_000 + 10_000 + 5_000);
  expect(await readRequest(pool, backfillId)).toMatchObject({ state: "done", unproved: 0 });
  expect(await readRequest(pool, verificationId)).toMatchObject({ state: "done", differed: 0 });
  expect(await world.differences(sandbox.now() - 60n * SECOND_NANOS)).toEqual([]);
});
