import { afterAll, expect, it } from "vitest";
import { stopPrograms, startRole } from "../../support/programs/program.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import { startScriptedProvider, text } from "../../support/providers/scriptedProvider.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { makeOrder } from "../../support/mirror/orders.ts";

const { database, pool } = await openTestDatabase();
const provider = await startScriptedProvider();
afterAll(async () => {
  await stopPrograms();
  await provider.close();
});

const HEAP_MEGABYTES = 64;
const ORDERS = 1_500;
const NOTE = "x".repeat(45_000);
const orders = Array.from({ length: ORDERS }, (_, order) => ({
  reference: `BIG${order}`,
  updatedAt: formatInstant(secondsAgo(36_000 - order * 10)),
}));

/** The list of the spec, with orders of 45 kB: 67 MB in one window of a day. */
function answerList(url: string): string {
  const query = new URL(url, provider.url).searchParams;
  const [since = "", until = ""] = ["updatedSince", "updatedUntil"].map((name) => query.get(name) ?? "");
  const inside = orders.filter(({ updatedAt }) => updatedAt >= since && updatedAt < until);
  const [limit, offset] = [Number(query.get("limit")), Number(query.get("offset"))];
  const data = inside
    .slice(offset, offset + limit)
    .map((order) => makeOrder({ ...order, more: { note: NOTE } }));
  return JSON.stringify({ data, hasMore: offset + limit < inside.length, limit, offset });
}

it("a poller whose heap is smaller than a window reads and proves it all the same", async () => {
  provider.script((response, request) => {
    const { url } = request;
    const body = url.startsWith("/v1/branches") ? '{"data":[],"hasMore":false}' : answerList(url);
    text(200, body, { "content-type": "application/json" })(response, request);
  });
  const poller = await startRole("poller", {
    DATABASE_URL: database.url,
    DELIVERY_BASE_URL: provider.url,
    DELIVERY_LIVE_API_KEY: "dos_live_large",
    POLL_INTERVAL_SECONDS: "1",
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MEGABYTES}`,
  });
  const countProved = async () => {
    const { rows } = await pool.query<{ orders: number }>(
      "select count(*)::int as orders from mirror.orders, mirror.poll_state p where version < p.safe_through",
    );
    return rows[0]?.orders;
  };
  let hasEnded = false;
  void poller.ended.then(() => (hasEnded = true));
  await expect.poll(async () => hasEnded || (await countProved()) === ORDERS).toBe(true);
  expect(await countProved()).toBe(ORDERS);
});
