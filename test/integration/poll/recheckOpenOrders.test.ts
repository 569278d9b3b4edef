import { expect, it, onTestFinished } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { makePool } from "../../../src/database/database.ts";
import { requestOverdueRefetches } from "../../../src/poll/ledger/openOrders.sql.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { addSource, makeSnapshot, readAt } from "../../support/mirror/orders.ts";

const HOUR = 3_600;

it("refetches overdue open orders once a day, and no others", async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  await addSource(pool, "live");
  const apply = makeLiveApply(pool);
  const provider = makeMemoryProvider();
  const put = async (reference: string, hours: number, status: string, deliveryHours = hours) => {
    const updatedAt = secondsAgo(hours * HOUR);
    const more = { status, deliveryTime: formatInstant(secondsAgo(deliveryHours * HOUR)) };
    await apply.applyReads({
      sourceId: "live",
      via: "poll",
      snapshots: [makeSnapshot({ reference, updatedAt: formatInstant(updatedAt), status, more })],
      time: readAt(systemClock.now(), 1),
    });
    provider.put(reference, updatedAt, more);
  };
  await put("due", 6.1, "picked_up");
  await put("young", 5.9, "picked_up");
  await put("planned for later", 30, "created", -20);
  await put("just due by its plan", 30, "created", 6.1);
  await put("not due by its plan", 30, "created", 5.9);
  await put("over", 30, "cancelled");
  await put("of a status nobody knows", 30, "delivered");
  await put("too old", 15 * 24, "created");

  // A change of one of them that the mirror missed.
  provider.put("due", secondsAgo(5 * HOUR), { status: "arrived_for_delivery" });
  const poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.05,
    backfillSince: "PT1M",
    holder: "test",
  });
  onTestFinished(() => poller.close());
  poller.start();
  const status = async () =>
    (await pool.query<{ status: string }>("select status from mirror.orders where reference = 'due'")).rows[0]
      ?.status;
  await expect.poll(status, { timeout: 60_000 }).toBe("arrived_for_delivery");
  await expect
    .poll(() => provider.singleReads.toSorted(), { timeout: 60_000 })
    .toEqual(["due", "just due by its plan"]);
  await poller.close();

  const again = () =>
    requestOverdueRefetches(pool, { sourceId: "live", unchangedHours: 6, lookbackDays: 14, limit: 100 });
  expect(await again()).toBe(0);
  await pool.query("update mirror.open_order_checks set checked_at = now() - interval '25 hours'");
  // The other one changed five hours ago.
  expect(await again()).toBe(1);
});
