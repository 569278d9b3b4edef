import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const HOUR_MS = 3_600_000;
const MEGABYTE = 1_048_576;
/** What the poller tracks for six hours takes 0.2 MB; two kilobytes that each cycle leaves behind, 0.4 MB more. */
const GROWTH_MAX_MEGABYTES = 0.6;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

async function measureHeap(): Promise<number> {
  for (let times = 0; times < 3; times += 1) {
    collectGarbage();
    // Finalizers run between two turns of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed / MEGABYTE;
}

it.runIf(process.env["TEST_LONG"] === "1")("a poller's heap does not grow within six hours", async () => {
  const { clock, sent, startPoller, pool } = await startVirtualWorld({ speed: 1, trafficPerMinute: 1 });
  // Half as often as by default, and the lease renewed once per cycle, so that six hours pass quickly.
  startPoller("alone", { intervalSeconds: 60, leaseTtlMs: 180_000 });
  const heap: number[] = [];
  for (let hour = 1; hour <= 6; hour += 1) {
    await clock.runUntil(hour * HOUR_MS);
    expect(sent.length).toBeGreaterThanOrEqual(60);
    // The world's own record of the requests.
    (sent as unknown[]).length = 0;
    heap.push(await measureHeap());
  }
  const { rows } = await pool.query<{ orders: number }>("select count(*)::int as orders from mirror.orders");
  expect(rows[0]!.orders).toBeGreaterThan(100);
  const growth = Math.min(...heap.slice(3)) - Math.min(...heap.slice(0, 3));
  expect(growth).toBeLessThan(GROWTH_MAX_MEGABYTES);
});
