import { beforeEach, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { completeRefetch, requestRefetches, takeRefetches } from "../../../src/poll/refetches.sql.ts";
import { countQuarantined, replayQuarantined } from "../../../src/quarantine/replay.sql.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource, at, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
await addSource(database.pool, "test", "test");
beforeEach(() =>
  database.pool.query(
    emptying("orders history changes pending quarantine refetches inbox", {
      restartsIdentity: true,
    }),
  ),
);

const EVERYTHING = { quarantineId: null, sourceId: null, reason: null };
const LIMIT = 100;

function apply(liveMode: "live" | "test" = "live") {
  const modes = new Map([
    ["live", liveMode],
    ["test", "test"],
  ] as const);
  return makeApply({ events: deliveryEvents, pool: database.pool, logger: silentLogger, modes });
}

/** Quarantines events of the wrong mode, as a misconfigured source would. */
async function quarantineEvents(references: readonly string[]): Promise<void> {
  const events = references.map((reference) => ({
    eventId: `evt_${reference}`,
    body: makeEventBody({ id: `evt_${reference}`, order: { reference, updatedAt: at(1) } }),
  }));
  await apply("test").applyEvents(await putIntoInbox(database.pool, events));
}

async function quarantineRead(reference: string | null): Promise<void> {
  await database.pool.query(
    "insert into mirror.quarantine (source_id, via, reference, reason, raw) values ('live', 'poll', $1, 'unreadable_order', $2)",
    [reference, Buffer.from(`{"reference":"${reference}"}`)],
  );
}

it("counts exactly what a replay would include, and changes nothing", async () => {
  await quarantineEvents(["R1", "R2"]);
  await quarantineRead("R3");
  await quarantineRead(null);
  expect(await countQuarantined(database.pool, EVERYTHING)).toMatchObject({
    events: 2,
    reads: 1,
    unnamed: 1,
    reasons: [
      { reason: "unreadable_order", count: 2 },
      { reason: "wrong_mode", count: 2 },
    ],
    throughId: "4",
  });
  const some = { ...EVERYTHING, reason: "wrong_mode" };
  expect(await countQuarantined(database.pool, some)).toMatchObject({ events: 2, reads: 0, throughId: "2" });
  const none = { ...EVERYTHING, sourceId: "test" };
  expect(await countQuarantined(database.pool, none)).toMatchObject({ events: 0, throughId: null });
});

it("replays events, which are applied once the cause is gone", async () => {
  await quarantineEvents(["R1", "R2"]);
  const batch = await replayQuarantined(database.pool, { filter: EVERYTHING, throughId: "2", limit: LIMIT });
  expect(batch).toEqual({ seqs: [1, 2], reads: 0 });
  const decisions = await apply().applyEvents(batch.seqs);
  expect(decisions.map(({ verdict }) => verdict)).toEqual(["applied", "applied"]);
  expect(await countQuarantined(database.pool, EVERYTHING)).toMatchObject({ events: 0 });
});

it("leaves an event that fails again to the next replay", async () => {
  await quarantineEvents(["R1"]);
  const { throughId } = await countQuarantined(database.pool, EVERYTHING);
  const replay = () =>
    replayQuarantined(database.pool, { filter: EVERYTHING, throughId: throughId ?? "", limit: LIMIT });
  const { seqs } = await replay();
  await apply("test").applyEvents(seqs);
  expect(await countQuarantined(database.pool, EVERYTHING)).toMatchObject({ events: 1 });
  expect(await replay()).toEqual({ seqs: [], reads: 0 });
});

it("replays a single event, and never a dismissed one", async () => {
  await quarantineEvents(["R1", "R2", "R3"]);
  await database.pool.query("update mirror.quarantine set state = 'dismissed' where quarantine_id = 3");
  const one = { ...EVERYTHING, quarantineId: "2" };
  const options = { throughId: "9", limit: LIMIT };
  expect((await replayQuarantined(database.pool, { filter: one, ...options })).seqs).toEqual([2]);
  expect((await replayQuarantined(database.pool, { filter: EVERYTHING, ...options })).seqs).toEqual([1]);
});

it("requests a refetch for a quarantined read and skips a read without a reference", async () => {
  await quarantineRead("R3");
  await quarantineRead(null);
  const batch = await replayQuarantined(database.pool, { filter: EVERYTHING, throughId: "9", limit: LIMIT });
  expect(batch).toEqual({ seqs: [], reads: 1 });
  const { rows } = await database.pool.query("select source_id, reference from mirror.refetches");
  expect(rows).toEqual([{ source_id: "live", reference: "R3" }]);
  expect(await countQuarantined(database.pool, EVERYTHING)).toMatchObject({ reads: 0, unnamed: 1 });
});

it("keeps a replayed read out of what is proved until a read has shown it, even when a person requests one", async () => {
  await quarantineRead("R3");
  await replayQuarantined(database.pool, { filter: EVERYTHING, throughId: "9", limit: LIMIT });
  await requestRefetches(database.pool, { sourceId: "live", references: ["R3"], reason: "asked" });
  const { rows } = await database.pool.query("select reference, kind from mirror.exceptions");
  expect(rows).toEqual([{ reference: "R3", kind: "replayed" }]);
  const [refetch] = await takeRefetches(database.pool, { sourceId: "live", limit: 1 });
  await completeRefetch(database.pool, {
    sourceId: "live",
    refetch: refetch!,
    shown: undefined,
    found: null,
  });
  expect((await database.pool.query("select from mirror.exceptions")).rowCount).toBe(0);
});
