import { afterAll, expect, it } from "vitest";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import type { Priority } from "../../../src/domain/source/orderSource.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { json, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";

const provider = await startScriptedProvider();
afterAll(() => provider.close());

const LISTS = 6;
const GAP_MS = 556;

// Sliding and fixed windows of the provider, over an hour of virtual time: unit/provider/budget.
it("concurrent requests reach the provider spaced, at the full rate, and urgent ones first", async () => {
  const page = { data: [], hasMore: false, limit: 1, offset: 0, request_id: "r" };
  provider.script(json(200, page));
  const client = makeProviderClient({
    baseUrl: provider.url,
    apiKey: "dos_live_1",
    budget: makeBudget({ clock: systemClock }),
    clock: systemClock,
    logger: silentLogger,
  });
  const order: Priority[] = [];
  const list = async (priority: Priority) => {
    await client.listOrders({ limit: 1 }, { priority });
    order.push(priority);
  };
  const lists = Array.from({ length: LISTS / 2 }, () => [list("backfill"), list("poll")]).flat();
  const reads = Array.from({ length: 20 }, () => client.getOrder("DO-1").catch(() => undefined));
  await Promise.all([...lists, ...reads]);
  const arrived = (isList: boolean) =>
    provider.requests.filter(({ url }) => url.startsWith("/v1/orders?") === isList).map(({ atMs }) => atMs);
  const listed = arrived(true);
  const gaps = listed.slice(1).map((atMs, index) => atMs - listed[index]!);
  expect(listed).toHaveLength(LISTS);
  expect(Math.min(...gaps)).toBeGreaterThan(GAP_MS - 10);
  expect(listed.at(-1)! - listed[0]!).toBeLessThan((LISTS - 1) * GAP_MS * 1.5);
  // Four at a time, each place again after a second.
  const read = arrived(false);
  expect(read.at(-1)! - read[0]!).toBeGreaterThan(4 * 880);
  // The first backfill request did not have to wait.
  expect(order).toEqual(["backfill", "poll", "poll", "poll", "backfill", "backfill"]);
});
