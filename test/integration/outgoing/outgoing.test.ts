import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { Redis } from "ioredis";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { readFeedFence, beginFeedEpoch } from "../../../src/changes/changeFeed.sql.ts";
import { makePool, type Pool } from "../../../src/database/database.ts";
import { readOutgoingEndpoints } from "../../../src/health/conditions/endpoints.sql.ts";
import { recordAttempt } from "../../../src/outgoing/outgoingDelivery.sql.ts";
import {
  planDeliveries,
  takeToEnqueue,
  recordListed,
  replayFrom,
  reviveDead,
  setEndpointPaused,
  type Wanted,
} from "../../../src/outgoing/outgoingPlan.sql.ts";
import { openOutgoing, openOutgoingQueue, UNDER_WAY_MAX } from "../../../src/outgoing/outgoingQueue.ts";
import { makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { removeChanges, removeDelivered } from "../../../src/retention/retention.sql.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeStandardSigner } from "../../../src/signature/sign.ts";
import { redactOrder } from "../../../src/wire/redactOrder.ts";
import { asPool } from "../../support/servers/asPool.ts";
import { QUEUE_BACKENDS, openQueueServers } from "../../support/servers/queueServers.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import {
  addSource,
  at,
  makeOrder,
  makeSnapshot,
  readAt,
  type OrderSketch,
} from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { listenHere } from "../../support/http/serve.ts";

const RETRY_SECONDS = [0.05, 0.05, 0.05];
const WAIT = { timeout: 30_000, interval: 20 };
const TABLES = "outgoing_deliveries outgoing_endpoints orders history changes retention_walks";

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Reference and revision. */
  readonly change: string;
}
type Answer = (response: ServerResponse, change: { reference: string; revision: number }) => void;

interface Options {
  readonly answer?: Answer;
  readonly redisUrls?: readonly string[];
  readonly processes?: number;
  readonly ordered?: boolean;
  readonly rate?: number | null;
  readonly timeoutMs?: number;
  readonly wanted?: Partial<Wanted>;
}

const servers = await openQueueServers();
let pool: Pool;
let number = 0;
const closes: (() => Promise<unknown>)[] = [];
const listed: string[] = [];
beforeAll(async () => {
  pool = makePool({ url: servers.database.url, purpose: "test", max: 4, statementTimeoutMs: 10_000 });
  closes.length = 0;
  await addSource(pool, "live");
  return () => pool.end();
});
beforeEach(async () => {
  listed.length = 0;
  await pool.query(emptying(TABLES));
});
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close();
});

const accept: Answer = (response) => void response.writeHead(204).end();
const refuse =
  (...statuses: number[]): Answer =>
  (response) =>
    void response.writeHead(statuses.shift() ?? 200).end("thanks");

async function see(...orders: OrderSketch[]): Promise<void> {
  const snapshots = orders.map((order) => makeSnapshot(order));
  await makeLiveApply(pool).applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n, 0) });
}
const references = (count: number) => Array.from({ length: count }, (_, index) => `R${index}-`);
/** A change of the status for each of the statuses, one order after the other. */
async function change(names: readonly string[], statuses: readonly string[] = ["created"]): Promise<void> {
  for (const [index, status] of statuses.entries())
    await see(...names.map((reference) => ({ reference, status, updatedAt: at(index + 1) })));
}

/** These endpoints alone are listed, each with the source `live`. */
const list = (...names: string[]) =>
  recordListed(
    pool,
    names.map((endpointId) => ({ endpointId, sourceIds: ["live"] })),
  );

/** An endpoint with a name of its own, and its queue in as many processes. */
async function open(options: Options = {}) {
  const { answer = accept, redisUrls = [], processes = 1, ordered = false, rate = null } = options;
  const endpointId = `erp-${(number += 1)}`;
  const received: Received[] = [];
  let underWay = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, (underWay += 1));
    response.once("close", () => (underWay -= 1));
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const { data } = JSON.parse(text) as { data: { reference: string; revision: number } };
      received.push({ headers: request.headers, text, change: `${data.reference}${data.revision}` });
      answer(response, data);
    });
  });
  const { url } = await listenHere(server);
  const sign = makeStandardSigner([WEBHOOK_SECRET]);
  const send = makeSend({ url, sign, clock: systemClock, timeoutMs: options.timeoutMs ?? 2_000 });
  const wanted = { endpointId, types: null, statuses: null, ...options.wanted };
  const place = { databaseUrl: servers.database.url, redisUrls };
  listed.push(endpointId);
  await list(...listed);
  const queues = [];
  for (let index = 0; index < processes; index += 1) {
    const backend = await openOutgoingQueue(place, endpointId, silentLogger);
    const one = await openOutgoing({
      pool,
      backend,
      endpoint: { ...wanted, send, fields: "all", ordered, rate },
      clock: systemClock,
      logger: silentLogger,
      retrySeconds: RETRY_SECONDS,
      compareEveryMs: 100,
    });
    closes.push(async () => {
      server.closeAllConnections();
      await one.close();
      server.close();
    });
    queues.push(backend.queue);
  }
  const seen = () => received.map((each) => each.change);
  return { endpointId, received, seen, mostUnderWay: () => most, queue: queues[0]! };
}

async function flush(): Promise<void> {
  const redis = new Redis(servers.redis!.url);
  await redis.flushall();
  redis.disconnect();
}

async function states(): Promise<string[]> {
  const { rows } = await pool.query<{ state: string; attempts: number; outcome: string | null }>(
    "select state, attempts, last_outcome as outcome from mirror.outgoing_deliveries order by position, delivery_id",
  );
  return rows.map(({ state, attempts, outcome }) => `${state} ${attempts} ${outcome}`);
}
const settled = (...wanted: string[]) => vi.waitFor(async () => expect(await states()).toEqual(wanted), WAIT);
const deliveredAll = (count: number) =>
  vi.waitFor(async () => {
    const ended = (await states()).filter((state) => state.startsWith("delivered"));
    expect(ended).toHaveLength(count);
  }, WAIT);

describe.each(QUEUE_BACKENDS)("outgoing webhooks with their queues in $backend", ({ backend, runs }) => {
  const place = () => ({ redisUrls: servers.redisUrls(backend) });
  beforeEach(({ skip }) => {
    if (!runs) skip("no redis-server");
  });

  it("notify an endpoint once of every change after it was configured, signed as Standard Webhooks", async () => {
    await see({ reference: "OLD", updatedAt: at(1) });
    const endpoint = await open({ ...place(), processes: 2 });
    await see({ reference: "A", updatedAt: at(1) });
    await see(
      { reference: "A", updatedAt: at(2), status: "picked_up" },
      { reference: "B", updatedAt: at(2) },
    );
    await see({ reference: "A", updatedAt: at(3), status: "picked_up", more: { note: "x" } });
    await settled(...Array.from({ length: 4 }, () => "delivered 1 status 204"));
    const types = endpoint.received.map(({ text, change: name }) => [
      name,
      (JSON.parse(text) as { type: string }).type,
    ]);
    expect(Object.fromEntries(types)).toEqual({
      A1: "order.new",
      A2: "order.status_changed",
      A3: "order.changed",
      B1: "order.new",
    });
    for (const { headers, text } of endpoint.received)
      expect(new Webhook(WEBHOOK_SECRET).verify(text, headers as Record<string, string>)).toBeDefined();
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(4);
  });

  it("are retried under the same id until delivered; given up after the last attempt or 410; sent again by hand", async () => {
    const endpoint = await open({ ...place(), answer: refuse(500, 404) });
    await see({ reference: "A", updatedAt: at(1) });
    await settled("delivered 3 status 200");
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    const failing = await open({ ...place(), answer: refuse(500, 501, 502, 503, 410) });
    await see({ reference: "B", updatedAt: at(1) });
    await vi.waitFor(async () => expect(await states()).toContain("dead 4 status 503"), WAIT);
    expect(failing.received).toHaveLength(4);
    await vi.waitFor(async () => expect(await failing.queue.getFailedCount()).toBe(1), WAIT);
    expect((await failing.queue.getFailed())[0]).toMatchObject({ failedReason: "status 503" });
    expect(await reviveDead(pool, failing.endpointId)).toBe(1);
    await vi.waitFor(async () => expect(await states()).toContain("dead 1 status 410"), WAIT);
    expect(await reviveDead(pool, failing.endpointId)).toBe(1);
    await vi.waitFor(
      async () => expect((await states()).some((each) => each.startsWith("dead"))).toBe(false),
      WAIT,
    );
  });

  it("loses nothing when its jobs are lost", async () => {
    let works = false;
    const endpoint = await open({
      ...place(),
      answer: (response) => void response.writeHead(works ? 204 : 503, { "retry-after": "600" }).end(),
    });
    await change(["A", "B", "C"]);
    await vi.waitFor(() => expect(endpoint.seen().sort()).toEqual(["A1", "B1", "C1"]), WAIT);
    works = true;
    await pool.query(
      "update mirror.outgoing_deliveries set enqueued_at = enqueued_at - interval '10 seconds'",
    );
    if (backend === "Redis") await flush();
    else await endpoint.queue.obliterate({ force: true });
    await deliveredAll(3);
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(3);
  });

  it("wait for no other endpoint, and have a limited number under way with two processes", async () => {
    const hanging = await open({ ...place(), answer: () => undefined, timeoutMs: 300_000, processes: 2 });
    await open(place());
    await change(references(30));
    await deliveredAll(30);
    await vi.waitFor(() => expect(hanging.received).toHaveLength(UNDER_WAY_MAX), WAIT);
    expect(hanging.mostUnderWay()).toBe(UNDER_WAY_MAX);
  });

  it("keep to the rate of an endpoint with two processes", async () => {
    const times: number[] = [];
    const answer: Answer = (response) => {
      times.push(performance.now());
      accept(response, { reference: "", revision: 0 });
    };
    await open({ ...place(), answer, rate: 5, processes: 2 });
    await change(references(11));
    await deliveredAll(11);
    // Windows of a second, one after the other.
    for (const [index, time] of times.slice(10).entries()) expect(time - times[index]!).toBeGreaterThan(900);
  });

  it("are paused and resumed by a person", async () => {
    const endpoint = await open(place());
    expect(await setEndpointPaused(pool, { endpointId: endpoint.endpointId, paused: true })).toBe(true);
    await vi.waitFor(async () => expect(await endpoint.queue.isPaused()).toBe(true), WAIT);
    await change(["A"]);
    const enqueued = "select from mirror.outgoing_deliveries where enqueued_at is not null";
    await vi.waitFor(async () => expect((await pool.query(enqueued)).rows).toHaveLength(1), WAIT);
    expect(endpoint.received).toEqual([]);
    expect(await setEndpointPaused(pool, { endpointId: endpoint.endpointId, paused: false })).toBe(true);
    await deliveredAll(1);
  });

  it("gets the changes of each order one after the other, with failures and two processes", async () => {
    let count = 0;
    const accepted: string[] = [];
    const endpoint = await open({
      ...place(),
      processes: 2,
      ordered: true,
      answer: (response, { reference, revision }) => {
        const fails = (count += 1) % 4 === 0;
        if (!fails) accepted.push(`${reference}${revision}`);
        setTimeout(() => response.writeHead(fails ? 500 : 204).end(), Math.random() * 10);
      },
    });
    await change(references(4), ["created", "assigned", "picked_up"]);
    await deliveredAll(12);
    for (const reference of references(4)) {
      const own = (all: readonly string[]) => all.filter((each) => each.startsWith(reference));
      expect(own(accepted)).toEqual([1, 2, 3].map((revision) => `${reference}${revision}`));
      // A retried change is not overtaken, either.
      expect(own(endpoint.seen())).toEqual(own(endpoint.seen()).toSorted());
    }
  });
});

describe("an attempt", () => {
  it("is recorded with its outcome, duration and the first characters of the answer", async () => {
    const answers: Answer[] = [
      (response) => void response.destroy(),
      (response) => void response.writeHead(307, { location: "/elsewhere" }).end(),
      () => undefined,
      (response, { reference }) =>
        void response
          .writeHead(200)
          .write(`<b>no</b>\u001b[31m ${reference}\nkey whsec_MfKQ9r8GKYqrTwjU ${"x".repeat(999)}`),
    ];
    const outcomes: unknown[] = [];
    await open({
      timeoutMs: 300,
      answer: (response, data) => {
        void states().then(([state]) => {
          outcomes.push(state);
          answers.shift()!(response, data);
        });
      },
    });
    await see({
      reference: "A",
      updatedAt: at(1),
      more: { customer: { name: "Jansen", phone: "+31612345678" } },
    });
    await settled("delivered 4 status 200");
    expect(outcomes).toEqual([
      "pending 0 null",
      "pending 1 UND_ERR_SOCKET",
      "pending 2 status 307",
      "pending 3 TimeoutError",
    ]);
    const { rows } = await pool.query<{ answer: string; ms: number }>(
      "select answer, duration_ms as ms from mirror.outgoing_deliveries",
    );
    expect(rows[0]!.answer).toMatch(/^<b>no<\/b> \[31m A key \[…\] x{100,}$/);
    expect(rows[0]!.ms).toBeLessThan(300);
  });

  it("keeps no answer for an order that is erased meanwhile", async () => {
    let erased: Promise<unknown> | undefined;
    await open({
      answer: (response, { reference }) => {
        erased = eraseOrder(pool, { sourceId: "live", reference });
        // What the message said, in a form that nobody recognizes.
        void erased.then(() => response.writeHead(200).end(Buffer.from("Jansen").toString("base64")));
      },
    });
    await see({ reference: "A", updatedAt: at(1), more: { customer: { name: "Jansen" } } });
    await deliveredAll(1);
    await erased;
    const { rows } = await pool.query(
      "select last_outcome as outcome, answer from mirror.outgoing_deliveries",
    );
    expect(rows).toEqual([{ outcome: "status 200", answer: null }]);
    await pool.query(emptying("erasures"));
  });
});

describe("deliveries", () => {
  const ALL: Wanted = { endpointId: "erp", types: null, statuses: null };
  const END = { outcome: "status 200", durationMs: 1, answer: null, result: "delivered" } as const;
  beforeEach(() => list("erp"));

  it("are made of the kinds and statuses that an endpoint subscribes to", async () => {
    await change(["A"], ["picked_up", "cancelled"]);
    await change(["B"], ["created", "picked_up"]);
    const wanted = { ...ALL, types: ["order.status_changed" as const], statuses: ["picked_up"] };
    expect(await planDeliveries(pool, wanted, 100)).toMatchObject({ read: 4, planned: 1 });
    const { rows } = await pool.query("select reference, event_type from mirror.outgoing_deliveries");
    expect(rows).toEqual([{ reference: "B", event_type: "order.status_changed" }]);
  });

  it("are planned once by any number of processes, and again from an earlier position on request", async () => {
    const begin = await readFeedFence(pool);
    await change(references(40));
    const plans = await Promise.all(Array.from({ length: 20 }, () => planDeliveries(pool, ALL, 7)));
    let count = plans.reduce((sum, { planned }) => sum + planned, 0);
    for (;;) {
      const { read, planned } = await planDeliveries(pool, ALL, 7);
      count += planned;
      if (read === 0) break;
    }
    expect(count).toBe(40);
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now()");
    expect(await replayFrom(pool, { endpointId: "erp", from: begin })).toBe(40);
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ planned: 40 });
    expect(new Set(await states())).toEqual(new Set(["pending 0 null"]));
    expect(await replayFrom(pool, { endpointId: "none", from: begin })).toBe(null);
  });

  it("are not planned by a second process before the first has committed its plan", async () => {
    await change(["A"]);
    const client = await pool.connect();
    // Also when an expectation fails: the pool ends only when it has all of its clients again.
    onTestFinished(() => client.release(true));
    await client.query("begin");
    expect(await planDeliveries(asPool(client), ALL, 10)).toMatchObject({ planned: 1 });
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0, planned: 0 });
    await client.query("commit");
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0, planned: 0 });
  });

  it("miss nothing when the database is moved to another server", async () => {
    await change(["A", "B", "C"]);
    expect(await planDeliveries(pool, ALL, 1)).toMatchObject({ planned: 1 });
    await pool.query("update mirror.feed set server = '1/00000001', server_started = 'epoch'");
    expect(await beginFeedEpoch(pool)).toBe(true);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 2 });
  });

  it("a late answer to the former sending changes nothing", async () => {
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
    const [former] = await takeToEnqueue(pool, "erp", 10);
    await pool.query("update mirror.outgoing_deliveries set state = 'dead'");
    expect(await reviveDead(pool, "erp")).toBe(1);
    await recordAttempt(pool, { deliveryId: former!, ...END });
    expect(await states()).toEqual(["pending 0 null"]);
    const [again] = await takeToEnqueue(pool, "erp", 10);
    expect(again).not.toBe(former);
    await recordAttempt(pool, { deliveryId: again!, ...END });
    expect(await states()).toEqual(["delivered 1 status 200"]);
  });

  it("are dead when their change was removed, and deleted some days after delivery", async () => {
    const endpoint = await open();
    await change(["A"]);
    await settled("delivered 1 status 204");
    const remove = async () => (await removeOlder(pool, [removeDelivered], { keptDays: 1 })).removed;
    expect(await remove()).toBe(0);
    await pool.query(emptying("changes"));
    await pool.query("update mirror.outgoing_deliveries set state = 'dead'");
    await reviveDead(pool, endpoint.endpointId);
    await settled("dead 1 change_removed");
    await pool.query(
      "update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now() - interval '2 days'",
    );
    expect(await remove()).toBe(1);
  });

  it("are made of every change: until then, and while a person pauses the endpoint, changes are not removed", async () => {
    const remove = async () => (await removeOlder(pool, [removeChanges], { keptDays: 30 })).removed;
    await change(["A", "B", "C"]);
    await pool.query("update mirror.changes set changed_at = changed_at - interval '9 years'");
    await setEndpointPaused(pool, { endpointId: "erp", paused: true });
    expect(await remove()).toBe(0);
    expect(await planDeliveries(pool, ALL, 1)).toMatchObject({ planned: 1 });
    expect(await remove()).toBe(0);
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered', delivered_at = now()");
    expect(await remove()).toBe(1);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 2 });
    expect(await remove()).toBe(0);
    await list();
    expect(await remove()).toBe(2);
  });

  it("of an endpoint that is no longer listed are forgotten, and it neither waits nor warns", async () => {
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
    expect(await recordListed(pool, [{ endpointId: "bi", sourceIds: ["live"] }])).toEqual(["erp"]);
    expect(await states()).toEqual([]);
    expect(await readOutgoingEndpoints(pool)).toMatchObject([
      { endpointId: "bi", pausedAt: null, pending: 0 },
    ]);
    // Listed again, it begins behind the last change.
    await list("erp");
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 0 });
  });
});

it("redacts as erasure does", async () => {
  const order = { ...makeOrder({ reference: "A", updatedAt: at(1) }), customer: { phone: "+31" }, note: "x" };
  const branch = { id: "b1", reference: "centre", phone: "+31" };
  const odd = { livemode: ["x"], fleet: { name: { of: "x" } }, pickupTime: "call me", deliveryTime: ["x"] };
  const schedule = { mode: 1, resolved: { pickupTime: "", deliveryTime: 7, basis: {} } };
  for (const raw of [
    JSON.stringify(order),
    JSON.stringify({ ...order, branch }),
    '{"reference":"A","status":"created"}',
    JSON.stringify({ ...order, ...odd }),
    JSON.stringify({ ...order, schedule }),
  ]) {
    const { rows } = await pool.query<{ redacted: object }>(
      "select mirror.redact_order($1::json, 'A', 'created') as redacted",
      [raw],
    );
    const own = { erased: true, externalOrderId: null };
    expect({ ...(JSON.parse(redactOrder(raw)) as object), ...own }).toEqual(rows[0]?.redacted);
  }
});
