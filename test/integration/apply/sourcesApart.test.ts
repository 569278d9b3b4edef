import { beforeEach, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { countAnnouncements } from "../../../src/poll/ledger/lostEvents.sql.ts";
import { takeRefetches } from "../../../src/poll/ledger/refetches.sql.ts";
import { replayAll } from "../../../src/quarantine/replayAll.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";

const { pool } = await openLiveMirror();
await addSource(pool, "twin");
const apply = makeApply({
  events: deliveryEvents,
  pool,
  logger: silentLogger,
  modes: new Map([
    ["live", "live"],
    ["twin", "live"],
  ] as const),
});
const BASE = parseInstant(at(0));

const send = async (sourceId: string, second: number, more: object = {}) => {
  const eventId = `evt_${second}`;
  const order = { reference: "R", updatedAt: at(second), status: `status ${second}` };
  const body = makeEventBody({ id: eventId, order: { ...order, more: { ...more } } });
  return apply.applyEvents(await putIntoInbox(pool, [{ sourceId, eventId, body }]));
};
const read = (sourceId: string, second: number) =>
  apply.applyReads({
    sourceId,
    via: "poll",
    snapshots: [makeSnapshot({ reference: "R", updatedAt: at(second), status: `status ${second}` })],
    unreadable: [{ raw: '{"reference":"Q"}', detail: "not an order", reference: "Q" }],
    time: readAt(parseInstant(at(second + 1_000)), 5),
  });

/** Two sources with the same references, external ids and events; then the same single reads are asked for. */
beforeEach(async () => {
  await pool.query(
    emptying("orders history changes pending quarantine refetches inbox erasures webhook_hours"),
  );
  for (const sourceId of ["live", "twin"]) {
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
      const horizon = BASE + 10n ** 15n;
      return applyAbsence(pool, {
        sourceId: "live",
        reference: "R",
        via: "refetch",
        horizon,
        requestedAt: horizon,
      });
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
    () =>
      replayAll(
        pool,
        { filter: { quarantineId: null, sourceId: "live", reason: null }, throughId: "1000000" },
        () => undefined,
      ),
  ],
  ["single reads", () => takeRefetches(pool, { sourceId: "live", limit: 10 })],
  ["counting what events announced", () => countAnnouncements(pool, "live")],
])("nothing that happens to one source shows in another: %s", async (_, happen) => {
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

it("single reads of one source are taken for it alone", async () => {
  await pool.query("delete from mirror.refetches where source_id = 'live'");
  expect(await takeRefetches(pool, { sourceId: "live", limit: 10 })).toEqual([]);
  expect(await takeRefetches(pool, { sourceId: "twin", limit: 10 })).toMatchObject([{ reference: "R" }]);
});
