import fc from "fast-check";
import { expect, it } from "vitest";
import { makeGroupApply } from "../../../src/apply/groupApply.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeRandom } from "../../support/faults/random.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { openAppliedMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller, poll } from "../../support/mirror/livePoller.ts";
import { makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const { pool } = await openAppliedMirror();
const apply = makeLiveApply(pool);
const provider = makeMemoryProvider();
let events = 0;

/** Changes orders, and applies the events of that in one batch. */
async function change(
  references: readonly string[],
  applyBatch: (seqs: readonly number[]) => Promise<unknown>,
) {
  const changes = references.map((reference) => {
    const updatedAt = systemClock.now();
    const status = `status ${(events += 1)}`;
    provider.put(reference, updatedAt, { status });
    const order = { reference, status, updatedAt: formatInstant(updatedAt) };
    return { eventId: `evt_${events}`, body: makeEventBody({ id: `evt_${events}`, order }) };
  });
  await applyBatch(await putIntoInbox(pool, changes));
}

async function countDeadlocks(): Promise<number> {
  await pool.query("select pg_stat_force_next_flush()");
  const counted = "select deadlocks::float8 from pg_stat_database where datname = current_database()";
  return (await pool.query<{ deadlocks: number }>(counted)).rows[0]!.deadlocks;
}

/** What happens at the same time: orders in a list of such pages, and so many who change some of them at once. */
const loads = fc.record({
  orders: fc.integer({ min: 30, max: 150 }),
  pageRows: fc.integer({ min: 5, max: 40 }),
  changers: fc.integer({ min: 1, max: 4 }),
  /** In one batch of events. */
  changes: fc.integer({ min: 1, max: 20 }),
  isGrouped: fc.boolean(),
  seed: fc.nat(),
});

it("windows of several pages and batches of events never wait for each other's end", async () => {
  const before = await countDeadlocks();
  const property = fc.asyncProperty(
    loads,
    async ({ orders, pageRows, changers, changes, isGrouped, seed }) => {
      await pool.query(EMPTY_MIRROR);
      provider.reset();
      provider.limitMax = pageRows;
      for (let order = 0; order < orders; order += 1) provider.put(`R${order}`, secondsAgo(60 - order / 10));
      const poller = makeLivePoller({ client: provider, pool, apply, intervalSeconds: 0.01 });
      const random = makeRandom(seed);
      const choose = () => Array.from({ length: changes }, () => `R${Math.floor(random() * orders)}`);
      const applyBatch = isGrouped ? makeGroupApply(apply) : apply.applyEvents;
      let isOver = false;
      // Even within a cycle, which lasts as long as orders move ahead of it.
      provider.before = () => void (isOver ||= provider.reads.length > 10);
      // A failed attempt rejects.
      const changing = Array.from({ length: changers }, async () => {
        while (!isOver) await change(choose(), applyBatch);
      });
      const reading = async () => {
        while (!isOver) expect(await poll(poller)).toMatchObject({ outcome: "polled" });
      };
      await Promise.all([reading().finally(() => (isOver = true)), ...changing]);
      await poller.close();
    },
  );
  await fc.assert(property, { numRuns: 5, endOnFailure: true });
  expect((await countDeadlocks()) - before).toBe(0);
}, 120_000);
