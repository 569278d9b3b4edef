import { expect, it, vi } from "vitest";
import { makeGroupApply } from "../../../src/apply/groupApply.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeRandom } from "../../support/faults/random.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { openAppliedMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller, poll } from "../../support/mirror/livePoller.ts";
import { makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const { pool } = await openAppliedMirror();
const ORDERS = 400;
const apply = makeLiveApply(pool);
const applyInGroups = makeGroupApply(apply);
const provider = makeMemoryProvider();
provider.limitMax = 40;
let events = 0;

/** Changes an order, and applies the event of that. */
async function change(reference: string): Promise<void> {
  const updatedAt = systemClock.now();
  const status = `status ${(events += 1)}`;
  provider.put(reference, updatedAt, { status });
  const order = { reference, status, updatedAt: formatInstant(updatedAt) };
  const body = makeEventBody({ id: `evt_${events}`, order });
  await applyInGroups(await putIntoInbox(pool, [{ eventId: `evt_${events}`, body }]));
}

it("windows of several pages and batches of events never wait for each other's end", async () => {
  for (let order = 0; order < ORDERS; order += 1) provider.put(`R${order}`, secondsAgo(60 - order / 10));
  const poller = makeLivePoller({ client: provider, pool, apply, intervalSeconds: 0.01 });
  const random = makeRandom(20_261_128);
  let isOver = false;
  const changing = Array.from({ length: 8 }, async () => {
    while (!isOver) await change(`R${Math.floor(random() * ORDERS)}`);
  });
  const reads = provider.reads.length;
  while (provider.reads.length < reads + 80) expect(await poll(poller)).toMatchObject({ outcome: "polled" });
  isOver = true;
  await Promise.all(changing);
  const { rows } = await pool.query<{ deadlocks: string }>(
    "select deadlocks from pg_stat_database where datname = current_database()",
  );
  expect(rows).toEqual([{ deadlocks: "0" }]);
});

it("shows each page at once, and an event about its orders is applied before the window's end", async () => {
  const shownAlready = await pool.query<{ now: string }>("select mirror.nanos_of(clock_timestamp()) as now");
  const begun = provider.reads.length;
  for (let order = 0; order < 100; order += 1) provider.put(`NEW${order}`, secondsAgo(1 - order / 1_000));
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  provider.before = () => (provider.reads.length > begun + 2 ? held : undefined);
  const poller = makeLivePoller({ client: provider, pool, apply });
  const cycle = poll(poller);
  await vi.waitUntil(() => provider.reads.length > begun + 2, { timeout: 60_000 });
  const { rows } = await pool.query<{ reference: string }>(
    "select reference from mirror.orders where reference like 'NEW%' or observed_at > $1 order by version limit 1",
    [shownAlready.rows[0]!.now],
  );
  expect(rows).toHaveLength(1);
  await change(rows[0]!.reference);
  provider.before = () => undefined;
  release();
  expect(await cycle).toMatchObject({ outcome: "polled" });
});
