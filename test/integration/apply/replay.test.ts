import { beforeEach, expect, it } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { completeRefetch, requestRefetches, takeRefetches } from "../../../src/poll/refetches.sql.ts";
import {
  countQuarantined,
  dismissQuarantined,
  endAnswered,
  replayQuarantined,
} from "../../../src/apply/quarantine.sql.ts";
import { addSeconds } from "../../../src/domain/order/instant.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource, at, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

const { pool } = await openTestDatabase();
await addSource(pool, "live");
await addSource(pool, "test", "test");
beforeEach(() => pool.query(EMPTY_MIRROR));

const EVERYTHING = { quarantineId: null, sourceId: null, reason: null };
const replay = (filter = {}) =>
  replayQuarantined(pool, { filter: { ...EVERYTHING, ...filter }, throughId: "9", limit: 100 });
const countAll = (filter = {}) => countQuarantined(pool, { ...EVERYTHING, ...filter });

function apply(liveMode: "live" | "test" = "live") {
  const modes = new Map([
    ["live", liveMode],
    ["test", "test"],
  ] as const);
  return makeApply({ pool: pool, logger: silentLogger, modes });
}

/** Quarantines events of the wrong mode, as a misconfigured source would. */
async function quarantineEvents(references: readonly string[]): Promise<void> {
  const events = references.map((reference) => ({
    eventId: `evt_${reference}`,
    body: makeEventBody({ id: `evt_${reference}`, order: { reference, updatedAt: at(1) } }),
  }));
  await apply("test").applyEvents(await putIntoInbox(pool, events));
}

async function quarantineRead(reference: string | null): Promise<void> {
  await pool.query(
    "insert into mirror.quarantine (source_id, via, reference, reason, raw) values ('live', 'poll', $1, 'unreadable_order', $2)",
    [reference, Buffer.from(`{"reference":"${reference}"}`)],
  );
}

const EXCEPTIONS =
  "select reference, kind from mirror.exceptions where reference is not null order by reference";
const readExceptions = async () => (await pool.query<{ reference: string }>(EXCEPTIONS)).rows;

it("replays events, which are applied once the cause is gone, and leaves what fails again to the next replay", async () => {
  await quarantineEvents(["R1", "R2"]);
  const reasons = [{ reason: "wrong_mode", count: 2 }];
  expect(await countAll()).toEqual({ events: 2, reads: 0, unnamed: 0, reasons, throughId: "2" });
  expect(await replay()).toEqual({ seqs: [1, 2], reads: 0 });
  expect((await apply().applyEvents([1])).map(({ verdict }) => verdict)).toEqual(["applied"]);
  await apply("test").applyEvents([2]);
  expect(await countAll()).toMatchObject({ events: 1 });
  const same = { filter: EVERYTHING, throughId: "2", limit: 100 };
  expect(await replayQuarantined(pool, same)).toEqual({ seqs: [], reads: 0 });
});

it("requests a refetch for a quarantined read, which no proof includes until a read has shown it", async () => {
  await quarantineRead("R3");
  await quarantineRead(null);
  // Its next read was put off, because the last ones failed.
  await pool.query(
    "insert into mirror.refetches (source_id, reference, reason, failures, next_attempt_at) values ('live', 'R3', '', 5, 'infinity')",
  );
  expect(await replay()).toEqual({ seqs: [], reads: 1 });
  const { rows } = await pool.query(
    "select reference, failures from mirror.refetches where next_attempt_at <= clock_timestamp()",
  );
  expect(rows).toEqual([{ reference: "R3", failures: 0 }]);
  expect(await countAll()).toMatchObject({ reads: 0, unnamed: 1 });
  // Even when a person requests one.
  await requestRefetches(pool, { sourceId: "live", references: ["R3"], reason: "asked" });
  expect(await readExceptions()).toEqual([{ reference: "R3", kind: "replayed" }]);
  const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
  const read = { refetch: refetch!, shown: undefined, differed: false, marginSeconds: 5 };
  await completeRefetch(pool, { sourceId: "live", ...read });
  expect(await readExceptions()).toEqual([]);
});

it("keeps the exception of a read that a person dismisses, and takes it back when it is processed again", async () => {
  await quarantineRead("R3");
  // Not seen by the person, because it came later.
  await quarantineRead(null);
  const actor = { role: "operator", person: null } as const;
  const all = { filter: EVERYTHING, throughId: "1", target: "all", because: "a test" };
  expect(await dismissQuarantined(pool, { actor, ...all })).toBe(1);
  expect(await readExceptions()).toEqual([{ reference: "R3", kind: "unreadable_order" }]);
  expect(await replay()).toEqual({ seqs: [], reads: 0 });
  expect(await replay({ quarantineId: "1" })).toEqual({ seqs: [], reads: 1 });
  expect(await readExceptions()).toEqual([{ reference: "R3", kind: "replayed" }]);
});

it("ends what reads could not show once a later read shows the order, and nothing else", async () => {
  const { show } = makeObserver(pool, makeLiveApply(pool));
  const showIn = (seconds: number, reference: string, updatedAt: string) =>
    show(addSeconds(systemClock.now(), seconds), [{ reference, updatedAt }], { marginSeconds: 10 });
  await quarantineEvents(["EVENT"]);
  for (const reference of ["SHOWN", "EARLIER", "CLAIMED", null]) await quarantineRead(reference);
  await showIn(-60, "EARLIER", at(1));
  // Beyond the read's own horizon.
  await showIn(1, "CLAIMED", new Date().toISOString());
  for (const reference of ["SHOWN", "EVENT"]) await showIn(1, reference, at(2));
  await endAnswered(pool, "test");
  expect(await countAll()).toMatchObject({ events: 1, reads: 3, unnamed: 1 });
  await endAnswered(pool, "live");
  expect(await countAll()).toMatchObject({ events: 1, reads: 2, unnamed: 1 });
  const left = (await readExceptions()).map(({ reference }) => reference);
  expect(left).toEqual(["CLAIMED", "EARLIER"]);
});
