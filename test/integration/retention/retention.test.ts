import { beforeEach, describe, expect, it } from "vitest";
import { replayQuarantined } from "../../../src/apply/quarantine.sql.ts";
import { readFeed } from "../../../src/api/feedReader.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource, at, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { removeOlder, type TestPass } from "../../support/mirror/retention.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

const { pool, apply, tell: tellLive } = await openLiveMirror();
const { applyEvents } = apply;
await addSource(pool, "test");
const ofTest = makeObserver(pool, makeLiveApply(pool, "test"));

describe("retention removes old rows", () => {
  beforeEach(() => pool.query(EMPTY_MIRROR));

  const put = (eventId: string, body: Buffer) => putIntoInbox(pool, [{ eventId, body }]);
  const tell = (eventId: string, reference: string, version: number) =>
    tellLive({ reference, updatedAt: at(version), status: `status ${version}` }, { eventId });
  const age = (span = "10 days") =>
    pool.query(`
      update mirror.inbox set received_at = received_at - interval '${span}';
      update mirror.history set seen_at = seen_at - interval '${span}';
      update mirror.changes set changed_at = changed_at - interval '${span}'`);
  const remove = async (keptFor: TestPass["keptFor"] = {}) =>
    (await removeOlder(pool, { keptFor, stepRows: 2 })).removed;
  const events = { eventsKeptFor: "P7D" };
  const list = async (query: string) =>
    (await pool.query<{ name: string }>(query)).rows.map(({ name }) => name);

  it("of input about no order, open in quarantine or not, and nothing else of the same age", async () => {
    const ignored = Buffer.from(JSON.stringify({ id: "i", created: at(1), livemode: true, data: { of: 1 } }));
    const unreadable = makeEventBody({ id: "u", order: { reference: "U", updatedAt: "some day" } });
    await tell("evt_order", "A", 1);
    await applyEvents(await put("evt_ignored", ignored));
    await applyEvents(await put("evt_no_json", Buffer.from("not JSON")));
    await applyEvents(await put("evt_unreadable", unreadable));
    const waiting = await put("evt_waiting", Buffer.from([0xff, 0xfe]));
    await pool.query(`
      insert into mirror.quarantine (source_id, via, reference, reason, raw)
      values ('live', 'poll', null, 'unreadable_order', '{}'), ('live', 'poll', 'R', 'unreadable_order', '{"a":1}')`);
    await age("40 days");
    await pool.query("update mirror.quarantine set quarantined_at = quarantined_at - interval '40 days'");
    await applyEvents(await put("evt_young", Buffer.from("not JSON either")));
    expect(await remove()).toBe(3);
    const left = () => list("select event_id as name from mirror.inbox order by seq");
    expect(await left()).toEqual(["evt_order", "evt_unreadable", "evt_waiting", "evt_young"]);
    expect(await list("select coalesce(reference, via) as name from mirror.quarantine order by 1")).toEqual([
      "R",
      "U",
      "webhook",
    ]);
    await applyEvents(waiting);
    expect(await remove()).toBe(1);
    expect(await left()).toEqual(["evt_order", "evt_unreadable", "evt_young"]);
  });

  it("of events, and of those without a decision or in quarantine once they no longer have to stay", async () => {
    const unreadable = makeEventBody({ id: "u", order: { reference: "U", updatedAt: "some day" } });
    await applyEvents(await put("evt_bad", unreadable));
    const waiting = await put(
      "evt_waiting",
      makeEventBody({ id: "w", order: { reference: "W", updatedAt: at(1) } }),
    );
    await tell("evt_a", "A", 1);
    await age();
    await tell("evt_young", "B", 1);
    expect(await remove(events)).toBe(1);
    expect(await remove(events)).toBe(0);
    await applyEvents(waiting);
    expect(await remove(events)).toBe(1);
    await pool.query("update mirror.quarantine set state = 'dismissed'");
    expect(await remove(events)).toBe(1);
    expect(await list("select event_id as name from mirror.inbox")).toEqual(["evt_young"]);
    // Processed again, its entry would wait for the event for ever.
    const everything = { quarantineId: "1", sourceId: null, reason: null };
    await replayQuarantined(pool, { filter: everything, throughId: "1", limit: 1 });
    expect(await list("select seq as name from mirror.pending")).toEqual([]);
  });

  it("of events, and the history keeps their snapshots", async () => {
    const order = `{ "reference":"A",\n "é€😀": 1.10, "status":"created", "updatedAt":"${at(1)}" }`;
    const body = Buffer.from(`{"note":"ü","data": ${order} ,"type":"t","created":"${at(1)}"}`);
    await applyEvents(await put("evt_1", body));
    const read = () => list("select raw::text as name from mirror.snapshots");
    expect(await read()).toEqual([order]);
    expect(await list("select raw::text as name from mirror.history")).toEqual([null]);
    await age();
    expect(await remove(events)).toBe(1);
    expect(await read()).toEqual([order]);
    expect(await list("select raw::text as name from mirror.history")).toEqual([order]);
  });

  it("of the feed, and every reader within the removed rows must start again", async () => {
    await ofTest.tell({ reference: "T", updatedAt: at(1) }, { sourceId: "test" });
    const readEnd = async (sourceId: string) =>
      (await readFeed(pool, { sourceId, after: "latest", limit: 10 })).next;
    const quiet = await readEnd("test");
    const readers: (typeof quiet)[] = [];
    for (const version of [1, 2, 3, 4]) {
      await tell(`evt_${version}`, "A", version);
      readers.push(await readEnd("live"));
    }
    await age();
    expect(await removeOlder(pool, { keptFor: { changesKeptFor: "P7D" } })).toMatchObject({ removed: 5 });
    const read = (after: (typeof readers)[number]) =>
      readFeed(pool, { sourceId: "live", after, limit: 10 }).then(
        () => "read",
        (error: unknown) => (error as { status?: number }).status,
      );
    expect(await Promise.all(readers.map(read))).toEqual([410, 410, 410, "read"]);
    // What was removed is of another source, or a reader starts at the end.
    expect(await readFeed(pool, { sourceId: "test", after: quiet, limit: 10 })).toMatchObject({
      entries: [],
    });
    expect(await read(await readEnd("live"))).toBe("read");
  });
});
