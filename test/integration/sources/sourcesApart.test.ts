import { beforeEach, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { missAgain, makeObserver } from "../../support/mirror/liveApply.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readChanges, readFeedEnd, readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import { readDecisions } from "../../../src/changes/changeTail.sql.ts";
import { readExport, type ExportRows } from "../../../src/orders/exportOrders.sql.ts";
import { findArrived, ORDER_SORTS, selectOrder, selectOrders } from "../../../src/orders/orderReads.sql.ts";
import { planDeliveries } from "../../../src/outgoing/outgoingDeliveries.sql.ts";
import { syncEndpoints } from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { EMPTY_MIRROR, prove } from "../../support/mirror/tables.ts";
import { countQuarantined, replayAll } from "../../../src/apply/quarantine.sql.ts";
import { countAnnouncements } from "../../../src/poll/lostEvents.sql.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource, at, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";

const { pool } = await openLiveMirror();
await addSource(pool, "twin");
const apply = makeApply({
  pool,
  logger: silentLogger,
  modes: new Map([
    ["live", "live"],
    ["twin", "live"],
  ] as const),
});
const BASE = parseInstant(at(0));
const LIVE = { sourceId: "live" };
const EVERYTHING = { quarantineId: null, sourceId: null, reason: null };

const { tell } = makeObserver(pool, apply);
const orderAt = (second: number, reference = "R") => ({
  reference,
  updatedAt: at(second),
  status: `status ${second}`,
});
const send = (sourceId: string, second: number) =>
  tell(orderAt(second), { sourceId, eventId: `evt_${second}` });
const read = (sourceId: string, second: number, reference = "R", unreadable = "Q") =>
  apply.applyReads({
    sourceId,
    via: "poll",
    snapshots: [makeSnapshot(orderAt(second, reference))],
    unreadable: [{ raw: `{"reference":"${unreadable}"}`, detail: "not an order", reference: unreadable }],
    time: readAt(parseInstant(at(second + 1_000)), 5),
  });

const plan = (sourceId: string) =>
  planDeliveries(pool, { endpointId: `of ${sourceId}`, definition: "", types: null, statuses: null }, 100);

/** Two sources with the same references, external ids, events and subscriptions. */
beforeEach(async () => {
  await pool.query(EMPTY_MIRROR);
  const endpointOf = (sourceId: string) => ({
    endpointId: `of ${sourceId}`,
    sourceIds: [sourceId],
    definition: "",
  });
  await syncEndpoints(pool, ["live", "twin"].map(endpointOf));
  for (const sourceId of ["live", "twin"]) {
    await prove(pool, at(0), { source_id: sourceId });
    await send(sourceId, 1);
    await send(sourceId, 2);
    await apply.applyEvents(
      await putIntoInbox(pool, [
        { sourceId, eventId: "evt_bad", body: Buffer.from('{"id":"evt_bad","about":"R"}') },
      ]),
    );
    await read(sourceId, 3);
    await pool.query(
      "insert into mirror.refetches (source_id, reference, reason) values ($1, 'R', 'test') on conflict do nothing",
      [sourceId],
    );
  }
});

/** Every row of the source, in every table. */
async function everything(sourceId: string): Promise<unknown> {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'source_id'
     where c.relnamespace = 'mirror'::regnamespace and c.relkind = 'r' order by 1`,
  );
  const rowsOf = ({ name }: { name: string }) =>
    pool.query<{ row: string }>(
      `select to_jsonb(t)::text as row from mirror.${name} t where source_id = $1 order by 1`,
      [sourceId],
    );
  const found: [string, string[]][] = [];
  for (const table of tables) found.push([table.name, (await rowsOf(table)).rows.map(({ row }) => row)]);
  return found.filter(([, rows]) => rows.length > 0);
}

it.each<[string, () => Promise<unknown>]>([
  ["an event", () => send("live", 2_000)],
  ["an event that is older", () => send("live", 0)],
  ["a read", () => read("live", 2_000)],
  ["a read that corrects", () => read("live", 1)],
  [
    "an order that is gone",
    () => {
      const [horizon, requestedAt] = [BASE + 10n ** 15n, BASE + 10n ** 15n];
      return missAgain(pool, { ...LIVE, reference: "R", horizon, requestedAt });
    },
  ],
  ["an erasure", () => eraseOrder(pool, { sourceId: "live", reference: "R" })],
  [
    "an erasure, and what comes after it",
    async () => {
      await eraseOrder(pool, { sourceId: "live", reference: "R" });
      await send("live", 2_000);
      await read("live", 2_001);
    },
  ],
  [
    "a replay of the quarantine",
    () => replayAll(pool, { filter: { ...EVERYTHING, ...LIVE }, throughId: "1000000" }, () => undefined),
  ],
  ["counting what events announced", () => countAnnouncements(pool, "live")],
  ["a plan of outgoing webhooks", async () => expect(await plan("live")).toMatchObject({ planned: 3 })],
])("nothing that happens to the orders of one source shows in another: %s", async (_, happen) => {
  const before = await everything("twin");
  await happen();
  expect(await everything("twin")).toEqual(before);
});

it("an erasure in one source does not keep the same reference out of another", async () => {
  await eraseOrder(pool, { sourceId: "live", reference: "R" });
  await send("twin", 2_000);
  const { rows } = await pool.query<{ source: string; id: string | null }>(
    "select source_id as source, external_order_id as id from mirror.orders order by 1",
  );
  expect(rows).toEqual([
    { source: "live", id: null },
    { source: "twin", id: "shop-R" },
  ]);
});

async function readOne(reference: string): Promise<unknown> {
  const { raw, freshness } = await selectOrder(pool, { ...LIVE, reference });
  return { raw, safeThrough: freshness?.safeThrough, exceptions: freshness?.exceptions };
}
async function collect(batches: AsyncIterable<ExportRows>): Promise<unknown[]> {
  const items: unknown[] = [];
  for await (const { rows } of batches) items.push(...rows);
  return items;
}
const awaited = (reference: string | null, second: number) => ({
  ...LIVE,
  reference,
  instant: parseInstant(at(second)),
});

it.each<[string, () => Promise<unknown>]>([
  ["an order", () => readOne("R")],
  ["an order by its externalOrderId", () => readOne("shop-R")],
  ["an order that only the other has", () => readOne("S")],
  ["an order that only the other has, by its externalOrderId", () => readOne("shop-S")],
  ...ORDER_SORTS.map((sort): [string, () => Promise<unknown>] => [
    `the list by ${sort}`,
    () => selectOrders(pool, { ...LIVE, sort, limit: 10, offset: 0 }),
  ]),
  ["the export as rows", () => collect(readExport(pool, { format: "csv", filter: LIVE }))],
  ["the export as objects", () => collect(readExport(pool, { format: "ndjson", filter: LIVE }))],
  [
    "waiting for a change and for a proof",
    () => findArrived(pool, [awaited("R", 3), awaited("shop-R", 3), awaited("S", 3), awaited(null, 0)]),
  ],
  [
    "the feed",
    async () => {
      const fence = await readFeedFence(pool);
      const { epoch } = await readFeedEnd(pool, { ...LIVE, fence });
      const after = { epoch, position: 0n, digest: "" };
      const { changes, complete } = await readChanges(pool, { ...LIVE, after, fence, limit: 100 });
      return { changes, complete };
    },
  ],
  ["the end of the feed", async () => readFeedEnd(pool, { ...LIVE, fence: await readFeedFence(pool) })],
  ["the decisions", () => readDecisions(pool, { ...LIVE, reference: "R", limit: 100 })],
  ["the quarantine", () => countQuarantined(pool, { ...EVERYTHING, ...LIVE })],
])("what is done to another source is not read in this one: %s", async (_, look) => {
  const before = await look();
  await send("twin", 2_000);
  await read("twin", 2_001, "S", "T");
  await prove(pool, at(100), { source_id: "twin" });
  expect(await look()).toEqual(before);
});

it("an outgoing plan has the changes of its own source, from its own place in the feed", async () => {
  await plan("live");
  await send("twin", 2_000);
  expect(await plan("live")).toMatchObject({ read: 0, planned: 0 });
  expect(await plan("twin")).toMatchObject({ planned: 4 });
  const { rows } = await pool.query<{ wrong: string }>(
    `select count(*) as wrong from mirror.outgoing_deliveries d join mirror.changes c using (position)
     where c.source_id <> d.source_id`,
  );
  expect(rows).toEqual([{ wrong: "0" }]);
});
