import { createServer } from "node:http";
import type { IncomingHttpHeaders, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { makeApply } from "../../../src/apply/apply.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { beginFeedEpoch } from "../../../src/changes/feedEpoch.sql.ts";
import { claimDue } from "../../../src/outgoing/outgoingAttempt.sql.ts";
import {
  planDeliveries,
  recordSubscriptions,
  replayFrom,
  reviveDead,
} from "../../../src/outgoing/outgoingPlan.sql.ts";
import type { OutgoingSubscription } from "../../../src/outgoing/outgoingPlan.sql.ts";
import { makeOutgoingLane } from "../../../src/outgoing/outgoingLane.ts";
import { makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { asPool } from "../../support/servers/asPool.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { redactOrder } from "../../../src/wire/redactOrder.ts";
import { addSource, at, makeOrder, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { removeDelivered, removeOutgoingAttempts } from "../../../src/retention/retention.sql.ts";
import type { RetentionRule } from "../../../src/retention/retention.sql.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const RETRY_SECONDS = [0.2, 0.2, 0.2];
const ALL: OutgoingSubscription = { endpointId: "erp", sourceId: "live", types: null, statuses: null };

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly message: {
    type: string;
    source: string;
    data: { reference: string; revision: number; status: string };
  };
}

let database: TestDatabase;
let pool: Pool;
let endpoint: Server;
let url: string;
let received: Received[] = [];
/** The next answers of the endpoint; 200 when there is none left. "hang" never answers. */
let answers: (number | "hang" | "redirect")[] = [];
const closes: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "test", max: 4, statementTimeoutMs: 10_000 });
  await addSource(pool, "live");
  await addSource(pool, "test", "test");
  endpoint = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      received.push({ headers: request.headers, text, message: JSON.parse(text) as Received["message"] });
      const answer = answers.shift() ?? 200;
      if (answer === "hang") return;
      if (answer === "redirect") response.writeHead(307, { location: `${url}/elsewhere` }).end();
      else response.writeHead(answer).end("thanks");
    });
  });
  await new Promise<void>((resolve) => endpoint.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
});
afterAll(async () => {
  endpoint.closeAllConnections();
  endpoint.close();
  await pool.end();
  await database.drop();
});
beforeEach(async () => {
  received = [];
  answers = [];
  await pool.query(
    emptying(
      "outgoing_attempts outgoing_deliveries outgoing_cursors outgoing_endpoints orders history changes",
    ),
  );
});
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close();
});

async function see(sourceId: "live" | "test", ...orders: OrderSketch[]): Promise<void> {
  const modes = new Map([
    ["live", "live"],
    ["test", "test"],
  ] as const);
  const livemode = sourceId === "live";
  const snapshots = orders.map((order) => makeSnapshot({ livemode, ...order }));
  const requestedAt = parseInstant(at(10_000));
  const apply = makeApply({ events: deliveryEvents, pool, logger: silentLogger, modes });
  await apply.applyReads({ sourceId, via: "poll", snapshots, time: readAt(requestedAt) });
}

async function start(
  subscriptions: OutgoingSubscription[] = [ALL],
  options: { timeoutMs?: number; address?: string } = {},
) {
  const { timeoutMs = 2_000, address = url } = options;
  const common = { pool, clock: systemClock, logger: silentLogger, random: () => 0 };
  const sign = makeSigner({ scheme: loadScheme("standard-webhooks"), secret: SECRET });
  const send = makeSend({ url: address, sign, clock: systemClock, timeoutMs });
  for (const subscription of subscriptions) {
    const { endpointId } = subscription;
    const endpoint = { endpointId, send, fields: "all", ordered: false, rate: null, paused: false } as const;
    const lane = makeOutgoingLane({
      ...common,
      endpoint,
      subscriptions: [subscription],
      retrySeconds: RETRY_SECONDS,
    });
    closes.push(() => lane.close());
    await lane.runOnce();
    lane.start();
  }
}
const claim = (lostAfterSeconds = 60) =>
  claimDue(pool, { endpointId: "erp", limit: 10, ordered: false, rate: null, lostAfterSeconds });

const seen = () => received.map(({ message }) => `${message.data.reference}${message.data.revision}`).sort();
const arrived = (...wanted: string[]) => vi.waitFor(() => expect(seen()).toEqual(wanted), 60_000);
async function states() {
  const { rows } = await pool.query<{ state: string; attempts: number; outcome: string | null }>(
    "select state, attempts, last_outcome as outcome from mirror.outgoing_deliveries order by position",
  );
  return rows.map(({ state, attempts, outcome }) => `${state} ${attempts} ${outcome}`);
}
const settled = (...wanted: string[]) =>
  vi.waitFor(async () => expect(await states()).toEqual(wanted), 60_000);

describe("outgoing webhooks", () => {
  it("notify an endpoint once of every change after it was configured, signed as Standard Webhooks", async () => {
    await see("live", { reference: "OLD", updatedAt: at(1) });
    await start();
    await see("live", { reference: "A", updatedAt: at(1) });
    await see(
      "live",
      { reference: "A", updatedAt: at(2), status: "picked_up" },
      { reference: "B", updatedAt: at(2) },
    );
    await see("live", { reference: "A", updatedAt: at(3), status: "picked_up", more: { note: "x" } });
    await arrived("A1", "A2", "A3", "B1");
    const types = new Map(
      received.map(({ message }) => [`${message.data.reference}${message.data.revision}`, message.type]),
    );
    expect(Object.fromEntries(types)).toEqual({
      A1: "order.new",
      A2: "order.status_changed",
      A3: "order.changed",
      B1: "order.new",
    });
    for (const { headers, text, message } of received) {
      expect(new Webhook(SECRET).verify(text, headers as Record<string, string>)).toEqual(message);
    }
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(4);
    await settled(...Array.from({ length: 4 }, () => "delivered 1 status 200"));
  });

  it("are sent for the sources, kinds and statuses that an endpoint subscribes to", async () => {
    await start([
      { ...ALL, types: ["order.status_changed"], statuses: ["picked_up"] },
      { ...ALL, endpointId: "bi", sourceId: "test" },
    ]);
    await see("live", { reference: "A", updatedAt: at(1), status: "picked_up" });
    await see("live", { reference: "A", updatedAt: at(2), status: "cancelled" });
    await see("live", { reference: "B", updatedAt: at(1) }, { reference: "C", updatedAt: at(1) });
    await see("live", { reference: "B", updatedAt: at(2), status: "picked_up" });
    await see("test", { reference: "T", updatedAt: at(1) });
    await arrived("B2", "T1");
    expect(received.map(({ message }) => message.source).sort()).toEqual(["live", "test"]);
  });

  it("are retried under the same id after a failure, until they are delivered", async () => {
    await start();
    answers = [500, 404];
    await see("live", { reference: "A", updatedAt: at(1) });
    await arrived("A1", "A1", "A1");
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(new Set(received.map(({ headers }) => headers["webhook-signature"])).size).toBeGreaterThan(0);
    await settled("delivered 3 status 200");
  });

  it("are dead after the last attempt, and can be sent again by hand", async () => {
    await start();
    answers = [500, 501, 502, 503];
    await see("live", { reference: "A", updatedAt: at(1) });
    await settled("dead 4 status 503");
    expect(received).toHaveLength(4);
    await pool.query("update mirror.outgoing_endpoints set paused_until = now() + interval '1 hour'");
    expect(await reviveDead(pool, "erp")).toBe(1);
    await settled("delivered 1 status 200");
  });

  it("are dead immediately when the endpoint answers that it is gone", async () => {
    await start();
    answers = [410];
    await see("live", { reference: "A", updatedAt: at(1) });
    await settled("dead 1 status 410");
    expect(received).toHaveLength(1);
  });

  it("follow no redirect and time out", async () => {
    await start([ALL], { timeoutMs: 1_500 });
    answers = ["redirect", "hang"];
    await see("live", { reference: "A", updatedAt: at(1) });
    await settled("delivered 3 status 200");
    expect(received).toHaveLength(3);
  });

  it("record the cause when nothing listens at the address", async () => {
    await start([ALL], { address: `http://127.0.0.1:${await findFreePort()}/` });
    await see("live", { reference: "A", updatedAt: at(1) });
    await settled("dead 4 ECONNREFUSED");
    const { rows } = await pool.query("select * from reporting.outgoing_webhooks");
    expect(rows).toMatchObject([
      { endpoint_id: "erp", pending_count: "0", dead_count: "1", failures_in_row: 4 },
    ]);
  });

  it("are planned once by any number of processes, and again from an earlier position on request", async () => {
    await recordSubscriptions(pool, [ALL]);
    const begin = await readFeedFence(pool);
    for (let n = 0; n < 40; n += 1) await see("live", { reference: `R${n}`, updatedAt: at(1) });
    const plans = await Promise.all(Array.from({ length: 20 }, () => planDeliveries(pool, ALL, 7)));
    let count = plans.reduce((sum, { planned }) => sum + planned, 0);
    for (;;) {
      const { read, planned } = await planDeliveries(pool, ALL, 7);
      count += planned;
      if (read === 0) break;
    }
    expect(count).toBe(40);
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now()");
    expect(await replayFrom(pool, { endpointId: "erp", sourceId: "live", from: begin })).toBe(true);
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ planned: 40 });
    const { rows } = await pool.query("select distinct state, round from mirror.outgoing_deliveries");
    expect(rows).toEqual([{ state: "pending", round: 2 }]);
    expect(await replayFrom(pool, { endpointId: "none", sourceId: "live", from: begin })).toBe(false);
  });

  it("are not planned by a second process before the first has committed its plan", async () => {
    await recordSubscriptions(pool, [ALL]);
    await see("live", { reference: "A", updatedAt: at(1) });
    const client = await pool.connect();
    await client.query("begin");
    expect(await planDeliveries(asPool(client), ALL, 10)).toMatchObject({ planned: 1 });
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0, planned: 0 });
    await client.query("commit");
    client.release();
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0, planned: 0 });
  });

  it("miss nothing when the database is moved to another server", async () => {
    await recordSubscriptions(pool, [ALL]);
    for (const reference of ["A", "B", "C"]) await see("live", { reference, updatedAt: at(1) });
    expect(await planDeliveries(pool, ALL, 1)).toMatchObject({ planned: 1 });
    await pool.query("update mirror.feed set server = '1/00000001', server_started = 'epoch'");
    expect(await beginFeedEpoch(pool)).toBe(true);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 2 });
    const { rows } = await pool.query<{ reference: string }>(
      "select reference from mirror.outgoing_deliveries order by position",
    );
    expect(rows.map(({ reference }) => reference)).toEqual(["A", "B", "C"]);
  });

  it("pause for an endpoint that fails repeatedly, and count no attempt meanwhile", async () => {
    answers = Array.from({ length: 20 }, () => 500);
    await start();
    await see("live", ...["A", "B", "C"].map((reference) => ({ reference, updatedAt: at(1) })));
    await vi.waitFor(async () => {
      const { rows } = await pool.query("select 1 from mirror.outgoing_endpoints where paused_until > now()");
      expect(rows).toHaveLength(1);
    }, 60_000);
    const before = await states();
    expect(await claim()).toEqual({ claims: [], isHeld: false });
    expect(await states()).toEqual(before);
    answers = [];
    await settled(
      ...Array.from({ length: 3 }, () => expect.stringMatching(/^delivered/) as unknown as string),
    );
  });

  it("are claimed by one process at a time, and claimed again after a lost attempt", async () => {
    await recordSubscriptions(pool, [ALL]);
    await see("live", { reference: "A", updatedAt: at(1) });
    await planDeliveries(pool, ALL, 10);
    const claims = await Promise.all([claim(), claim(), claim()]);
    expect(claims.flatMap((each) => each.claims)).toHaveLength(1);
    await pool.query("update mirror.outgoing_deliveries set next_attempt_at = now()");
    expect((await claim()).claims).toMatchObject([{ kind: "claimed", attempt: 2 }]);
  });

  it("are dead when their change was removed, and are deleted some days after delivery", async () => {
    await start([ALL, { ...ALL, endpointId: "bi" }]);
    await see("live", { reference: "A", updatedAt: at(1) });
    await settled("delivered 1 status 200", "delivered 1 status 200");
    await pool.query(emptying("changes"));
    await pool.query(
      "update mirror.outgoing_deliveries set state = 'pending', next_attempt_at = now() where endpoint_id = 'bi'",
    );
    await vi.waitFor(async () =>
      expect((await states()).sort()).toEqual(["dead 2 change_removed", "delivered 1 status 200"]),
    );
    const remove = async (rule: RetentionRule) => (await removeOlder(pool, [rule], { keptDays: 1 })).removed;
    expect(await remove(removeDelivered)).toBe(0);
    expect(await remove(removeOutgoingAttempts)).toBe(0);
    await pool.query("update mirror.outgoing_deliveries set delivered_at = now() - interval '2 days'");
    await pool.query("update mirror.outgoing_attempts set started_at = now() - interval '2 days'");
    expect(await remove(removeDelivered)).toBe(1);
    expect(await states()).toEqual(["dead 2 change_removed"]);
    expect(await remove(removeOutgoingAttempts)).toBe(3);
  });
});

it("redacts as erasure does", async () => {
  const order = { ...makeOrder({ reference: "A", updatedAt: at(1) }), customer: { phone: "+31" }, note: "x" };
  const branch = { id: "b1", reference: "centre", phone: "+31" };
  for (const raw of [
    JSON.stringify(order),
    JSON.stringify({ ...order, branch }),
    '{"reference":"A","status":"created"}',
    JSON.stringify({
      ...order,
      livemode: ["x"],
      fleet: { name: { of: "x" } },
      pickupTime: "call me",
      deliveryTime: ["x"],
    }),
    JSON.stringify({
      ...order,
      schedule: { mode: 1, resolved: { pickupTime: "", deliveryTime: 7, basis: {} } },
    }),
  ]) {
    const { rows } = await pool.query<{ redacted: object }>(
      "select mirror.redact_order($1::json, 'A', 'created') as redacted",
      [raw],
    );
    const own = { erased: true, externalOrderId: null };
    expect({ ...(JSON.parse(redactOrder(raw)) as object), ...own }).toEqual(rows[0]?.redacted);
  }
});
