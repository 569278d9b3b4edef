import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import { readOutgoingEndpoints } from "../../../src/health/conditions/endpoints.sql.ts";
import {
  planDeliveries,
  recordAttempt,
  takeDue,
  type Wanted,
} from "../../../src/outgoing/outgoingDeliveries.sql.ts";
import {
  readFeedPositionAt,
  removeEndpoint,
  replayFrom,
  sendNow,
  setEndpointPaused,
  syncEndpoints,
} from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { redactOrder } from "../../../src/wire/redactOrder.ts";
import { asPool, beside } from "../../support/servers/database.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { at, makeOrder } from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { openSending, references, seeOn } from "../../support/outgoing/sending.ts";

const { pool, change, list, listAs, age, open, states, settled } = await openSending();

const ALL: Wanted = { endpointId: "erp", definition: "", types: null, statuses: null };
const TAKEN = { endpointId: "erp", definition: "", rate: null, ordered: false };
const END = { ...ALL, outcome: "status 200", durationMs: 1, answer: null, result: "delivered" } as const;
const plan = (wanted: Partial<Wanted> = {}, limit = 10) => planDeliveries(pool, { ...ALL, ...wanted }, limit);
const take = (taker: Partial<typeof TAKEN> = {}, limit = 10) => takeDue(pool, { ...TAKEN, ...taker }, limit);
const takeOne = async () => (await take({}, 1))[0]!.deliveryId;
/** Makes changes of these orders, and the deliveries of them. */
const planned = async (...names: string[]) => {
  await change(names);
  await plan();
};
/** As if all had been delivered an hour ago. */
const endAll = () =>
  pool.query(
    "update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now(), created_at = now() - interval '1 hour'",
  );
const endpoints = () => readOutgoingEndpoints(pool);
const remove = async (keptFor = {}) => (await removeOlder(pool, { keptFor })).removed;
/** A transaction that ends with the test, also when an expectation fails. */
const begin = async () => {
  const client = await pool.connect();
  onTestFinished(() => client.release(true));
  await client.query("begin");
  return client;
};

describe("deliveries", () => {
  beforeEach(() => list("erp"));

  it("are made of the sources, kinds and statuses that an endpoint subscribes to", async () => {
    await change(["A"], ["picked_up", "cancelled"]);
    await change(["B"], ["created", "picked_up"]);
    const columns = "reference, revision, history_id, status, previous_status, via, version, verdict";
    await pool.query(
      `insert into mirror.changes (source_id, ${columns}) select 'other', ${columns} from mirror.changes`,
    );
    const wanted = { types: ["order.status_changed" as const], statuses: ["picked_up"] };
    expect(await plan(wanted)).toMatchObject({ read: 4, planned: 1 });
    const { rows } = await pool.query("select reference, event_type from mirror.outgoing_deliveries");
    expect(rows).toEqual([{ reference: "B", event_type: "order.status_changed" }]);
  });

  it("are taken within the limit, also by a process that waited for another", async () => {
    await change(references(3));
    await plan();
    const takeFirst = (client: { query: (...given: never[]) => unknown }) =>
      takeDue(asPool(client), TAKEN, 2);
    expect(await beside(pool, takeFirst, () => take({}, 2))).toEqual([]);
  });

  it("are sent the oldest first, and again from an earlier position on request", async () => {
    const from = await readFeedFence(pool);
    await change(references(40));
    for (const count of [30, 10, 0]) expect(await plan({}, 30)).toMatchObject({ planned: count });
    expect(await take({}, 3)).toMatchObject(references(3).map((reference) => ({ reference })));
    await endAll();
    expect(await replayFrom(pool, { endpointId: "erp", from })).toBe(40);
    expect(await plan({}, 100)).toMatchObject({ planned: 40 });
    expect(new Set(await states())).toEqual(new Set(["pending 0 null"]));
    expect(await endpoints()).toMatchObject([{ late: false }]);
    expect(await replayFrom(pool, { endpointId: "none", from })).toBe(null);
    // What waits anyhow does not begin anew.
    await replayFrom(pool, { endpointId: "erp", from });
    expect(await plan({}, 100)).toMatchObject({ read: 40, planned: 0 });
  });

  it("are sent again from an instant on, although the clock was set back since", async () => {
    await change(["A", "B", "C", "D"]);
    for (const [reference, hours] of Object.entries({ A: 3, B: 1, C: 3 }))
      await pool.query(
        "update mirror.changes set changed_at = now() - make_interval(hours => $2) where reference = $1",
        [reference, hours],
      );
    await plan();
    const hoursAgo = (hours: number) => BigInt(Date.now() - hours * 3_600_000) * 1_000_000n;
    const replay = async (hours: number) =>
      replayFrom(pool, { endpointId: "erp", from: await readFeedPositionAt(pool, hoursAgo(hours)) });
    expect(await replay(-1)).toBe(null);
    // Not planned yet, so not among those that are sent again.
    await change(["E"]);
    for (const [hours, changes] of Object.entries({ 2: 3, 4: 5, 0.5: 2 })) {
      expect([hours, await replay(Number(hours))]).toEqual([hours, changes]);
      await plan();
    }
  });

  it("are not planned by a second process before the first has committed its plan", async () => {
    await change(["A"]);
    const client = await begin();
    expect(await planDeliveries(asPool(client), ALL, 10)).toMatchObject({ planned: 1 });
    expect(await plan()).toMatchObject({ read: 0, planned: 0 });
    await client.query("commit");
    expect(await plan()).toMatchObject({ read: 0, planned: 0 });
  });

  it("are made of no change behind one that is still to be committed, which would be skipped", async () => {
    const client = await begin();
    await seeOn(asPool(client), { reference: "A", updatedAt: at(1) });
    await change(["B"]);
    expect(await plan()).toMatchObject({ read: 0 });
    // Nor is it in the past of an endpoint that is new.
    await list("new");
    await client.query("commit");
    for (const endpointId of ["erp", "new"]) expect(await plan({ endpointId })).toMatchObject({ planned: 2 });
  });

  it("are not planned again by a process that looked at the feed before another one's plan", async () => {
    await change(["A"]);
    const slow = async (statement: { readonly name?: string }, values?: unknown[]) => {
      const answer = await pool.query(statement as never, values);
      if (statement.name !== "read-feed-fence") return answer;
      await change(["B"]);
      expect(await plan()).toMatchObject({ planned: 2 });
      return answer;
    };
    await planDeliveries(asPool({ query: slow }), ALL, 10);
    expect(await plan()).toMatchObject({ read: 0 });
  });

  it("miss nothing when the database is moved to another server, and show positions of that one", async () => {
    await change(["A", "B", "C"]);
    expect(await plan({}, 1)).toMatchObject({ planned: 1 });
    const [former] = await take({}, 1);
    await pool.query("update mirror.feed set server = '1/00000001', server_started = 'epoch'");
    // Whoever lists endpoints notices.
    await open();
    expect(await plan()).toMatchObject({ planned: 2 });
    const epochs = (await take()).map(({ epoch }) => epoch);
    expect([epochs.length, epochs.includes(former!.epoch)]).toEqual([2, false]);
  });

  it("a late answer to the former sending changes nothing", async () => {
    await planned("A");
    const former = await takeOne();
    // Another process took it later, and its attempt was the last.
    await pool.query("update mirror.outgoing_deliveries set state = 'dead', taken_until = null");
    expect(await sendNow(pool, "erp", "dead")).toBe(1);
    await recordAttempt(pool, { deliveryId: former, ...END });
    expect(await states()).toEqual(["pending 0 null"]);
    const again = await takeOne();
    expect(again).not.toBe(former);
    await recordAttempt(pool, { deliveryId: again, ...END });
    expect(await states()).toEqual(["delivered 1 status 200"]);
  });

  it("keep no answer that is recorded while the order is erased, or after that", async () => {
    await planned("A", "B");
    const [one, other] = (await take({}, 2)).map(({ deliveryId }) => {
      return { ...END, deliveryId, answer: "Jansen" };
    });
    await beside(
      pool,
      (client) => recordAttempt(asPool(client), one!),
      () => eraseOrder(pool, { sourceId: "live", reference: "A" }),
    );
    await eraseOrder(pool, { sourceId: "live", reference: "B" });
    await recordAttempt(pool, other!);
    const { rows } = await pool.query("select state, answer from mirror.outgoing_deliveries");
    expect(rows).toEqual(["A", "B"].map(() => ({ state: "delivered", answer: null })));
    await pool.query(emptying("erasures"));
  });

  it("count failures in a row until one succeeds, and keep ten attempts; a late end changes nothing", async () => {
    await planned("A");
    const deliveryId = await takeOne();
    const fail = (n: number) =>
      recordAttempt(pool, { deliveryId, ...END, result: "pending", outcome: `status ${500 + n}` });
    for (let n = 1; n <= 12; n += 1) await fail(n);
    const { rows } = await pool.query<{ kept: { outcome: string }[] }>(
      "select last_attempts as kept from mirror.outgoing_deliveries",
    );
    expect([rows[0]?.kept.length, rows[0]?.kept[0]?.outcome]).toEqual([10, "status 512"]);
    expect(await endpoints()).toMatchObject([{ failuresInRow: 12 }]);
    await recordAttempt(pool, { deliveryId, ...END });
    // The process that took it first had been asleep for minutes.
    await fail(0);
    expect(await states()).toEqual(["delivered 13 status 200"]);
    expect(await endpoints()).toMatchObject([{ failuresInRow: 0 }]);
  });

  it("of an ordered endpoint wait for no other order, source or endpoint", async () => {
    await list("bi");
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type, next_attempt_at)
       values ('erp', 'other', 0, 'A', 'order.new', 'infinity')`,
    );
    await change(["A", "B"], ["created", "assigned"]);
    for (const endpointId of ["erp", "bi"]) await plan({ endpointId });
    const taken = await take({ ordered: true });
    expect(taken).toMatchObject(["A", "B"].map((reference) => ({ reference, revision: 1 })));
    await recordAttempt(pool, { deliveryId: taken[0]!.deliveryId, ...END });
    expect(await take({ ordered: true })).toMatchObject([{ reference: "A", revision: 2 }]);
  });

  it("are taken by their own endpoint only, by nobody with another definition, and not during a pause", async () => {
    await list("erp", "bi");
    await planned("A");
    expect(await take({ endpointId: "bi" })).toEqual([]);
    expect(await take({ definition: "new" })).toEqual([]);
    expect(await plan({ definition: "new" })).toMatchObject({ read: 0 });
    await setEndpointPaused(pool, { endpointId: "erp", paused: true });
    expect(await take()).toEqual([]);
    await plan({ endpointId: "bi" });
    await pool.query("update mirror.outgoing_deliveries set next_attempt_at = 'infinity'");
    await setEndpointPaused(pool, { endpointId: "erp", paused: false });
    expect(await take()).toMatchObject([{ reference: "A" }]);
    expect(await take({ endpointId: "bi" })).toEqual([]);
  });

  it("are dead when their change was removed, and deleted some days after delivery", async () => {
    const endpoint = await open();
    await change(["A"]);
    await settled("delivered 1 status 204");
    expect(await remove()).toBe(0);
    await pool.query(emptying("changes"));
    await pool.query("update mirror.outgoing_deliveries set state = 'dead'");
    await sendNow(pool, endpoint.endpointId, "dead");
    await settled("dead 1 change_removed");
    await pool.query(
      "update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now() - interval '8 days'",
    );
    expect(await remove()).toBe(1);
  });

  it("are made of every change: until then, and while a person pauses the endpoint, changes are not removed", async () => {
    const removeChanges = () => remove({ changesKeptFor: "P30D" });
    await change(["A", "B", "C"]);
    await pool.query("update mirror.changes set changed_at = changed_at - interval '9 years'");
    await setEndpointPaused(pool, { endpointId: "erp", paused: true });
    expect(await removeChanges()).toBe(0);
    expect(await plan({}, 1)).toMatchObject({ planned: 1 });
    expect(await removeChanges()).toBe(0);
    await endAll();
    expect(await removeChanges()).toBe(1);
    expect(await plan()).toMatchObject({ planned: 2 });
    expect(await removeChanges()).toBe(0);
    await age("listed_at", "1 minute");
    expect(await removeEndpoint(pool, "erp")).toBe(true);
    expect(await removeChanges()).toBe(2);
  });

  it("more than 10,000 are not planned, and none is skipped", async () => {
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, event_type)
       select 'erp', 'old', i, 'order.new' from generate_series(1, 9999) i`,
    );
    await list("bi");
    await change(["A", "B", "C"]);
    expect(await plan({}, 100)).toMatchObject({ planned: 1 });
    expect(await plan({}, 100)).toMatchObject({ read: 0, planned: 0 });
    // Another endpoint has room of its own, and what was delivered takes none.
    expect(await plan({ endpointId: "bi" })).toMatchObject({ planned: 3 });
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered' where source_id = 'old'");
    expect(await plan({}, 100)).toMatchObject({ planned: 2 });
  });
});

describe("an endpoint", () => {
  it("that no process lists any more keeps its place and messages, until a person removes it", async () => {
    await list("erp");
    await planned("A");
    await list("bi");
    await list();
    expect(await states()).toEqual(["pending 0 null"]);
    expect(await removeEndpoint(pool, "erp")).toBe(false);
    await age("listed_at", "1 day");
    const [, shown] = await endpoints();
    expect(shown).toMatchObject({ endpointId: "erp", pending: 1, late: false });
    expect(Date.now() / 1_000 - shown!.unlistedSince!).toBeGreaterThan(86_000);
    await change(["B"]);
    // Listed again, it goes on from its place.
    await list("erp");
    expect(await plan()).toMatchObject({ planned: 1 });
    await age("listed_at", "1 minute");
    expect(await removeEndpoint(pool, "erp")).toBe(true);
    expect(await states()).toEqual([]);
    // A new one begins behind the last change.
    await list("erp");
    expect(await plan()).toMatchObject({ planned: 0 });
  });

  it("does not flap between two processes with different lists", async () => {
    await listAs("old", "erp");
    expect(await endpoints()).toMatchObject([{ disputed: false }]);
    for (let turn = 0; turn < 3; turn += 1) {
      expect(await listAs("new", "erp")).toEqual([]);
      expect(await listAs("old", "erp")).toEqual(["erp"]);
    }
    expect(await endpoints()).toMatchObject([{ disputed: true }]);
    // The old process has ended.
    await age("listed_at", "31 seconds");
    // A worker lists it, if with another content.
    expect(await removeEndpoint(pool, "erp")).toBe(false);
    expect(await listAs("new", "erp")).toEqual(["erp"]);
    expect(await listAs("old", "erp")).toEqual([]);
    await age("disputed_at", "31 seconds");
    expect(await endpoints()).toMatchObject([{ disputed: false, unlistedSince: null }]);
  });

  it("gets nothing more of a source that its list does not have any more", async () => {
    await list("erp", "bi");
    await change(["A", "B", "C"]);
    for (const endpointId of ["erp", "bi"]) await plan({ endpointId });
    await pool.query(`update mirror.outgoing_deliveries set state = (array['pending', 'dead', 'delivered'])[position -
      (select min(position) from mirror.changes) + 1] where endpoint_id = 'erp'`);
    await age("listed_at", "31 seconds");
    expect(
      await syncEndpoints(pool, [
        { endpointId: "erp", sourceIds: ["test"], definition: "new" },
        { endpointId: "bi", sourceIds: ["live", "test"], definition: "new" },
      ]),
    ).toHaveLength(2);
    const { rows } = await pool.query(
      "select endpoint_id, state, count(*)::int from mirror.outgoing_deliveries group by 1, 2 order by 1",
    );
    expect(rows.map((row) => Object.values(row as object).join(" "))).toEqual([
      "bi pending 3",
      "erp delivered 1",
    ]);
  });

  it("has as its oldest change one that nobody planned, too", async () => {
    await list("erp");
    await change(["A"]);
    await pool.query("update mirror.changes set changed_at = now() - interval '11 minutes'");
    const [shown] = await endpoints();
    expect(shown).toMatchObject({ pending: 0, late: true });
    expect(Date.now() / 1_000 - shown!.oldestPendingAt!).toBeGreaterThan(600);
    await plan({ statuses: ["none"] });
    expect(await endpoints()).toMatchObject([{ oldestPendingAt: null, late: false }]);
  });
});

it("redacts as erasure does", async () => {
  const order = { ...makeOrder({ reference: "A", updatedAt: at(1) }), customer: { phone: "+31" }, note: "x" };
  const branch = { id: "b1", reference: "centre", phone: "+31" };
  const odd = { livemode: ["x"], fleet: { name: { of: "x" } }, pickupTime: "call me", deliveryTime: ["x"] };
  const schedule = { mode: 1, resolved: { pickupTime: "", deliveryTime: 7, basis: {} } };
  const few = '{"reference":"A","status":"created"}';
  for (const raw of [
    few,
    ...[{}, { branch }, odd, { schedule }].map((more) => JSON.stringify({ ...order, ...more })),
  ]) {
    const { rows } = await pool.query<{ redacted: object }>(
      "select mirror.redact_order($1::json, 'A', 'created') as redacted",
      [raw],
    );
    const own = { erased: true, externalOrderId: null };
    expect({ ...(JSON.parse(redactOrder(raw)) as object), ...own }).toEqual(rows[0]?.redacted);
  }
});
