import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { readFeedFence, beginFeedEpoch } from "../../../src/changes/changeFeed.sql.ts";
import { makePool, type Pool } from "../../../src/database/database.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readOutgoingEndpoints } from "../../../src/health/conditions/endpoints.sql.ts";
import {
  planDeliveries,
  recordAttempt,
  takeDue,
  type Wanted,
} from "../../../src/outgoing/outgoingDeliveries.sql.ts";
import {
  planTest,
  readFeedPositionAt,
  syncEndpoints,
  removeEndpoint,
  replayFrom,
  sendNow,
  setEndpointPaused,
} from "../../../src/outgoing/outgoingEndpoints.sql.ts";
import { openOutgoing, UNDER_WAY_MAX } from "../../../src/outgoing/outgoing.ts";
import { makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { makeLogger, silentLogger } from "../../../src/process/telemetry/logger.ts";
import { makeSigner } from "../../../src/signature/sign.ts";
import { redactOrder } from "../../../src/wire/redactOrder.ts";
import { asPool, beside, openTestDatabase } from "../../support/servers/database.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { makeLiveApply, missAgain } from "../../support/mirror/liveApply.ts";
import {
  addSource,
  at,
  makeOrder,
  makeSnapshot,
  readAt,
  type OrderSketch,
} from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { listenHere } from "../../support/http/serve.ts";

const RETRY_SECONDS = [0.05, 0.05, 0.05];
const WAIT = { timeout: 30_000, interval: 20 };
const TABLES = "outgoing_deliveries outgoing_endpoints orders history changes coverage retention_walks";

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Reference and revision. */
  readonly change: string;
}
type Answer = (response: ServerResponse, change: { reference: string; revision: number }) => void;

interface Options {
  readonly answer?: Answer;
  readonly processes?: number;
  readonly ordered?: boolean;
  readonly rate?: number | null;
  readonly timeoutMs?: number;
  readonly fields?: "all" | "redacted";
  readonly wanted?: Partial<Wanted>;
  readonly retrySeconds?: readonly number[];
  /** Null: only what wakes it makes it look. */
  readonly lookEveryMs?: null;
}

const { database } = await openTestDatabase();
let pool: Pool;
let number = 0;
const closes: (() => Promise<unknown>)[] = [];
beforeAll(async () => {
  pool = makePool({ url: database.url, purpose: "test", max: 4, statementTimeoutMs: 10_000 });
  closes.length = 0;
  await addSource(pool, "live");
  return () => pool.end();
});
beforeEach(async () => {
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

async function seeOn(database: Pool, ...orders: OrderSketch[]): Promise<void> {
  const snapshots = orders.map((order) => makeSnapshot(order));
  await makeLiveApply(database).applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n, 0) });
}
const see = (...orders: OrderSketch[]) => seeOn(pool, ...orders);
const references = (count: number) => Array.from({ length: count }, (_, index) => `R${index}-`);
/** A change of the status for each of the statuses, one order after the other. */
async function change(names: readonly string[], statuses: readonly string[] = ["created"]): Promise<void> {
  for (const [index, status] of statuses.entries())
    await see(...names.map((reference) => ({ reference, status, updatedAt: at(index + 1) })));
}

/** Lists these endpoints, each with the source `live`. */
const list = (...names: string[]) => listAs("", ...names);
const listAs = (definition: string, ...names: string[]) =>
  syncEndpoints(
    pool,
    names.map((endpointId) => ({ endpointId, sourceIds: ["live"], definition })),
  );
/** As if this much time had passed since. */
const age = (column: string, interval: string) =>
  pool.query(`update mirror.outgoing_endpoints set ${column} = clock_timestamp() - $1::interval`, [interval]);

/** An endpoint with a name of its own, which as many processes serve. */
async function open(options: Options = {}) {
  const { answer = accept, processes = 1, ordered = false, rate = null, fields = "all" } = options;
  const endpointId = `erp-${(number += 1)}`;
  const received: Received[] = [];
  const warnings: string[] = [];
  const wakes: (() => void)[] = [];
  const destination = { write: (line: string) => warnings.push(line) };
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
  const sign = makeSigner({ secrets: [WEBHOOK_SECRET] });
  const send = makeSend({ url, sign, clock: systemClock, timeoutMs: options.timeoutMs ?? 60_000 });
  const wanted = { endpointId, definition: "", types: null, statuses: null, ...options.wanted };
  for (let index = 0; index < processes; index += 1) {
    const one = await openOutgoing({
      pool,
      endpoints: [{ ...wanted, sourceIds: ["live"], send, fields, ordered, rate }],
      clock: systemClock,
      logger: makeLogger({ level: "warn", format: "json", service: "test", destination }),
      retrySeconds: options.retrySeconds ?? RETRY_SECONDS,
      lookEveryMs: options.lookEveryMs === null ? 3_600_000 : 50,
    });
    wakes.push(() => one.wake());
    closes.push(async () => {
      server.closeAllConnections();
      await one.close();
      server.close();
    });
  }
  const seen = () => received.map((each) => each.change);
  const wake = () => {
    for (const each of wakes) each();
  };
  return { endpointId, received, warnings, seen, wake, mostUnderWay: () => most };
}

async function states(): Promise<string[]> {
  const { rows } = await pool.query<{ state: string; attempts: number; outcome: string | null }>(
    "select state, attempts, last_outcome as outcome from mirror.outgoing_deliveries order by position, created_at",
  );
  return rows.map(({ state, attempts, outcome }) => `${state} ${attempts} ${outcome}`);
}
const settled = (...wanted: string[]) => vi.waitFor(async () => expect(await states()).toEqual(wanted), WAIT);
const deliveredAll = (count: number) =>
  vi.waitFor(async () => {
    const ended = (await states()).filter((state) => state.startsWith("delivered"));
    expect(ended).toHaveLength(count);
  }, WAIT);

describe("outgoing webhooks", () => {
  it("notify an endpoint once of every change after it was configured, signed as Standard Webhooks", async () => {
    await see({ reference: "OLD", updatedAt: at(1) });
    const endpoint = await open({ processes: 2 });
    await see({ reference: "A", updatedAt: at(1) });
    await see(
      { reference: "A", updatedAt: at(2), status: "picked_up" },
      { reference: "B", updatedAt: at(2) },
    );
    await see({ reference: "A", updatedAt: at(3), status: "picked_up", more: { note: "x" } });
    const [horizon, requestedAt] = [parseInstant(at(900)), parseInstant(at(900))];
    await missAgain(pool, { sourceId: "live", reference: "B", horizon, requestedAt });
    await settled(...Array.from({ length: 5 }, () => "delivered 1 status 204"));
    const told = endpoint.received.map(({ text, change: name }) => {
      const { type, data } = JSON.parse(text) as {
        type: string;
        data: Record<"before" | "after", { status: string } | null>;
      };
      return [name, [type, data.before?.status, data.after?.status]];
    });
    expect(Object.fromEntries(told)).toEqual({
      A1: ["order.new", undefined, "created"],
      A2: ["order.status_changed", "created", "picked_up"],
      A3: ["order.changed", "picked_up", "picked_up"],
      B1: ["order.new", undefined, "created"],
      B2: ["order.gone", "created", undefined],
    });
    for (const { headers, text } of endpoint.received)
      expect(new Webhook(WEBHOOK_SECRET).verify(text, headers as Record<string, string>)).toBeDefined();
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(5);
  });

  it("are retried under the same id until delivered; given up after the last attempt or 410; sent again by hand", async () => {
    const endpoint = await open({ answer: refuse(500, 404) });
    await see({ reference: "A", updatedAt: at(1) });
    await settled("delivered 3 status 200");
    expect(new Set(endpoint.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    const failing = await open({ answer: refuse(500, 501, 502, 503, 410) });
    await see({ reference: "B", updatedAt: at(1) });
    await vi.waitFor(async () => expect(await states()).toContain("dead 4 status 503"), WAIT);
    expect(failing.received).toHaveLength(4);
    expect(await sendNow(pool, failing.endpointId, "dead")).toBe(1);
    await vi.waitFor(async () => expect(await states()).toContain("dead 1 status 410"), WAIT);
    expect(await sendNow(pool, failing.endpointId, "dead")).toBe(1);
    await vi.waitFor(
      async () => expect((await states()).some((each) => each.startsWith("dead"))).toBe(false),
      WAIT,
    );
  });

  it("are sent again when the process that took them is gone", async () => {
    await list("erp-lost");
    await change(["A", "B", "C"]);
    await planDeliveries(pool, { endpointId: "erp-lost", definition: "", types: null, statuses: null }, 10);
    const lost = { endpointId: "erp-lost", definition: "", rate: null, ordered: false };
    expect(await takeDue(pool, lost, 2)).toHaveLength(2);
    const endpoint = await open({ wanted: { endpointId: "erp-lost" } });
    await deliveredAll(1);
    expect(endpoint.received).toHaveLength(1);
    await pool.query("update mirror.outgoing_deliveries set taken_until = taken_until - interval '1 minute'");
    await deliveredAll(3);
    expect(endpoint.seen().toSorted()).toEqual(["A1", "B1", "C1"]);
  });

  it("a failure of our own database uses no attempt", async () => {
    let fail = true;
    const endpoint = await open({
      answer: (response) => {
        if (!fail) return void response.writeHead(204).end();
        fail = false;
        // The end of this attempt cannot be recorded.
        void pool
          .query("alter table mirror.outgoing_deliveries rename to away")
          .then(() => response.writeHead(204).end());
      },
    });
    await change(["A"]);
    await vi.waitFor(() => expect(endpoint.warnings.join("")).toContain("was not recorded"), WAIT);
    await pool.query("alter table mirror.away rename to outgoing_deliveries");
    expect(await states()).toEqual(["pending 0 null"]);
    await pool.query("update mirror.outgoing_deliveries set taken_until = now()");
    await settled("delivered 1 status 204");
  });

  it("wait for no other endpoint, and have a limited number under way with two processes", async () => {
    const hanging = await open({ answer: () => undefined, timeoutMs: 300_000, processes: 2 });
    const quick = await open({ lookEveryMs: null });
    await change(references(30));
    quick.wake();
    await deliveredAll(30);
    await vi.waitFor(() => expect(hanging.received).toHaveLength(UNDER_WAY_MAX), WAIT);
    expect(hanging.mostUnderWay()).toBe(UNDER_WAY_MAX);
  });

  it("keep to the rate of an endpoint with two processes, evenly", async () => {
    const times: number[] = [];
    const answer: Answer = (response) => {
      times.push(performance.now());
      accept(response, { reference: "", revision: 0 });
    };
    const endpoint = await open({ answer, rate: 5, processes: 2, lookEveryMs: null });
    await change(references(11));
    endpoint.wake();
    await deliveredAll(11);
    for (const [index, time] of times.slice(5).entries()) expect(time - times[index]!).toBeGreaterThan(900);
  });

  it("are paused and resumed by a person: what waits is then due at once", async () => {
    const endpoint = await open({ answer: refuse(503), retrySeconds: [600] });
    const { endpointId } = endpoint;
    await change(["A"]);
    await settled("pending 1 status 503");
    expect(await setEndpointPaused(pool, { endpointId, paused: true })).toBe(true);
    expect(await setEndpointPaused(pool, { endpointId, paused: true })).toBe(false);
    await change(["B"]);
    await settled("pending 1 status 503", "pending 0 null");
    const [shown] = await readOutgoingEndpoints(pool);
    expect(shown!.pausedAt).not.toBeNull();
    expect(endpoint.received).toHaveLength(1);
    expect(await setEndpointPaused(pool, { endpointId, paused: false })).toBe(true);
    await settled("delivered 2 status 200", "delivered 1 status 200");
  });

  it("that wait for their next attempt are sent now on request, with the attempts before kept", async () => {
    const endpoint = await open({ answer: refuse(503), retrySeconds: [600] });
    await change(["A"]);
    await settled("pending 1 status 503");
    const [shown] = await readOutgoingEndpoints(pool);
    expect(shown!.nextAttemptAt! - Date.now() / 1_000).toBeGreaterThan(500);
    expect(await sendNow(pool, endpoint.endpointId, "pending")).toBe(1);
    await settled("delivered 2 status 200");
    const { rows } = await pool.query("select last_attempts as attempts from mirror.outgoing_deliveries");
    const attempt = { at: expect.any(Number) as number, ms: expect.any(Number) as number };
    expect(rows).toEqual([
      {
        attempts: [
          { ...attempt, outcome: "status 200" },
          { ...attempt, outcome: "status 503" },
        ],
      },
    ]);
  });

  it("a test is sent once, and its failure is neither repeated nor given up", async () => {
    const types: unknown[] = [];
    const server = createServer((request, response) => {
      request.setEncoding("utf8").on("data", (text: string) => types.push(JSON.parse(text)));
      request.on("end", () => response.writeHead(500).end());
    });
    const { url, close } = await listenHere(server);
    onTestFinished(close);
    const send = makeSend({ url, sign: makeSigner({ secrets: [WEBHOOK_SECRET] }), clock: systemClock });
    const endpoint = {
      endpointId: "tried",
      definition: "",
      types: null,
      statuses: null,
      sourceIds: ["live"],
    };
    const outgoing = await openOutgoing({
      pool,
      endpoints: [{ ...endpoint, send, fields: "all", ordered: true, rate: null }],
      clock: systemClock,
      logger: silentLogger,
      lookEveryMs: 50,
    });
    closes.push(() => outgoing.close());
    expect(await planTest(pool, "none")).toBe(false);
    for (const count of [1, 2]) {
      expect(await planTest(pool, "tried")).toBe(true);
      await settled("dead 1 status 500");
      expect(types).toHaveLength(count);
    }
    expect(types[0]).toMatchObject({ type: "test", source: "live", data: {} });
    expect(await readOutgoingEndpoints(pool)).toMatchObject([{ dead: 0, pending: 0, oldestDeadAt: null }]);
    expect(await sendNow(pool, "tried", "dead")).toBe(0);
  });

  it("gets the changes of each order one after the other, with failures and two processes", async () => {
    let count = 0;
    const accepted: string[] = [];
    const endpoint = await open({
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
      "select answer, (last_attempts->0->>'ms')::int as ms from mirror.outgoing_deliveries",
    );
    expect(rows[0]!.answer).toMatch(/^<b>no<\/b> \[31m A key \[…\] x{100,}$/);
    expect(rows[0]!.ms).toBeLessThan(300);
  });

  it("keeps no answer that names the person, although the message did not", async () => {
    await open({
      fields: "redacted",
      answer: (response) => void response.writeHead(422).end("unknown customer Jansen"),
      retrySeconds: [600],
    });
    await see({ reference: "A", updatedAt: at(1), more: { customer: { name: "Jansen" } } });
    await settled("pending 1 status 422");
    const { rows } = await pool.query<{ row: string }>(
      "select d::text as row from mirror.outgoing_deliveries d",
    );
    expect(rows[0]!.row).toContain("not shown");
    expect(rows[0]!.row).not.toContain("Jansen");
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
  const ALL: Wanted = { endpointId: "erp", definition: "", types: null, statuses: null };
  const TAKEN = { endpointId: "erp", definition: "", rate: null, ordered: false };
  const takeOne = async () => (await takeDue(pool, TAKEN, 1))[0]!.deliveryId;
  const END = {
    endpointId: "erp",
    outcome: "status 200",
    durationMs: 1,
    answer: null,
    result: "delivered",
  } as const;
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
    // What waits anyhow does not begin anew.
    await replayFrom(pool, { endpointId: "erp", from: begin });
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ read: 40, planned: 0 });
  });

  it("are sent again from an instant on, although the clock was set back since", async () => {
    await change(["A", "B", "C", "D"]);
    for (const [reference, hours] of Object.entries({ A: 3, B: 1, C: 3 }))
      await pool.query(
        "update mirror.changes set changed_at = now() - make_interval(hours => $2) where reference = $1",
        [reference, hours],
      );
    await planDeliveries(pool, ALL, 10);
    const hoursAgo = (hours: number) => BigInt(Date.now() - hours * 3_600_000) * 1_000_000n;
    const replay = async (hours: number) =>
      replayFrom(pool, { endpointId: "erp", from: await readFeedPositionAt(pool, hoursAgo(hours)) });
    expect(await replay(-1)).toBe(null);
    for (const [hours, changes] of Object.entries({ 0.5: 1, 2: 3, 4: 4 })) {
      expect([hours, await replay(Number(hours))]).toEqual([hours, changes]);
      await planDeliveries(pool, ALL, 10);
    }
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

  it("are made of no change behind one that is still to be committed, which would be skipped", async () => {
    const client = await pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("begin");
    await seeOn(asPool(client), { reference: "A", updatedAt: at(1) });
    await change(["B"]);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0 });
    // Nor is it in the past of an endpoint that is new.
    await list("new");
    await client.query("commit");
    for (const endpointId of ["erp", "new"])
      expect(await planDeliveries(pool, { ...ALL, endpointId }, 10)).toMatchObject({ planned: 2 });
  });

  it("are not planned again by a process that looked at the feed before another one's plan", async () => {
    await change(["A"]);
    const slow = async (statement: { readonly name?: string }, values?: unknown[]) => {
      const answer = await pool.query(statement as never, values);
      if (statement.name !== "read-feed-fence") return answer;
      await change(["B"]);
      expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 2 });
      return answer;
    };
    await planDeliveries(asPool({ query: slow }), ALL, 10);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ read: 0 });
  });

  it("miss nothing when the database is moved to another server, and show positions of that one", async () => {
    await change(["A", "B", "C"]);
    expect(await planDeliveries(pool, ALL, 1)).toMatchObject({ planned: 1 });
    const [former] = await takeDue(pool, TAKEN, 1);
    await pool.query("update mirror.feed set server = '1/00000001', server_started = 'epoch'");
    expect(await beginFeedEpoch(pool)).toBe(true);
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 2 });
    const epochs = (await takeDue(pool, TAKEN, 10)).map(({ epoch }) => epoch);
    expect([epochs.length, epochs.includes(former!.epoch)]).toEqual([2, false]);
  });

  it("a late answer to the former sending changes nothing", async () => {
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
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

  it("keep no answer that is being recorded while the order is erased", async () => {
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
    const end = { ...END, deliveryId: await takeOne(), answer: "Jansen" };
    await beside(
      pool,
      (client) => recordAttempt(asPool(client), end),
      () => eraseOrder(pool, { sourceId: "live", reference: "A" }),
    );
    expect((await pool.query("select answer from mirror.outgoing_deliveries")).rows).toEqual([
      { answer: null },
    ]);
    await pool.query(emptying("erasures"));
  });

  it("count failures in a row until one succeeds, and keep ten attempts; a late end changes nothing", async () => {
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
    const deliveryId = await takeOne();
    const fail = (n: number) =>
      recordAttempt(pool, { deliveryId, ...END, result: "pending", outcome: `status ${500 + n}` });
    for (let n = 1; n <= 12; n += 1) await fail(n);
    const { rows } = await pool.query<{ kept: { outcome: string }[] }>(
      "select last_attempts as kept from mirror.outgoing_deliveries",
    );
    expect([rows[0]?.kept.length, rows[0]?.kept[0]?.outcome]).toEqual([10, "status 512"]);
    expect(await readOutgoingEndpoints(pool)).toMatchObject([{ failuresInRow: 12 }]);
    await recordAttempt(pool, { deliveryId, ...END });
    // The process that took it first had been asleep for minutes.
    await fail(0);
    expect(await states()).toEqual(["delivered 13 status 200"]);
    expect(await readOutgoingEndpoints(pool)).toMatchObject([{ failuresInRow: 0 }]);
  });

  it("of an ordered endpoint wait for no other order, source or endpoint", async () => {
    await list("bi");
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, reference, event_type, next_attempt_at)
       values ('erp', 'other', 0, 'A', 'order.new', 'infinity')`,
    );
    await change(["A", "B"], ["created", "assigned"]);
    for (const endpointId of ["erp", "bi"]) await planDeliveries(pool, { ...ALL, endpointId }, 10);
    const take = () => takeDue(pool, { ...TAKEN, ordered: true }, 10);
    const taken = await take();
    expect(taken).toMatchObject(["A", "B"].map((reference) => ({ reference, revision: 1 })));
    await recordAttempt(pool, { deliveryId: taken[0]!.deliveryId, ...END });
    expect(await take()).toMatchObject([{ reference: "A", revision: 2 }]);
  });

  it("are taken by their own endpoint only, and by nobody with another definition", async () => {
    await list("erp", "bi");
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
    expect(await takeDue(pool, { ...TAKEN, endpointId: "bi" }, 10)).toEqual([]);
    expect(await takeDue(pool, { ...TAKEN, definition: "new" }, 10)).toEqual([]);
    expect(await planDeliveries(pool, { ...ALL, definition: "new" }, 10)).toMatchObject({ read: 0 });
    expect(await takeDue(pool, TAKEN, 10)).toMatchObject([{ reference: "A" }]);
  });

  it("are dead when their change was removed, and deleted some days after delivery", async () => {
    const endpoint = await open();
    await change(["A"]);
    await settled("delivered 1 status 204");
    const remove = async () => (await removeOlder(pool, {})).removed;
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
    const remove = async () => (await removeOlder(pool, { keptFor: { changesKeptFor: "P30D" } })).removed;
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
    await age("listed_at", "1 minute");
    expect(await removeEndpoint(pool, "erp")).toBe(true);
    expect(await remove()).toBe(2);
  });

  it("more than 10,000 are not planned, and none is skipped", async () => {
    await pool.query(
      `insert into mirror.outgoing_deliveries (endpoint_id, source_id, position, event_type)
       select 'erp', 'old', i, 'order.new' from generate_series(1, 9999) i`,
    );
    await list("bi");
    await change(["A", "B", "C"]);
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ planned: 1 });
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ read: 0, planned: 0 });
    // Another endpoint has room of its own, and what was delivered takes none.
    expect(await planDeliveries(pool, { ...ALL, endpointId: "bi" }, 100)).toMatchObject({ planned: 3 });
    await pool.query("update mirror.outgoing_deliveries set state = 'delivered' where source_id = 'old'");
    expect(await planDeliveries(pool, ALL, 100)).toMatchObject({ planned: 2 });
  });
});

describe("an endpoint", () => {
  const ALL: Wanted = { endpointId: "erp", definition: "", types: null, statuses: null };
  const endpoints = () => readOutgoingEndpoints(pool);

  it("that no process lists any more keeps its place and messages, until a person removes it", async () => {
    await list("erp");
    await change(["A"]);
    await planDeliveries(pool, ALL, 10);
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
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 1 });
    await age("listed_at", "1 minute");
    expect(await removeEndpoint(pool, "erp")).toBe(true);
    expect(await states()).toEqual([]);
    // A new one begins behind the last change.
    await list("erp");
    expect(await planDeliveries(pool, ALL, 10)).toMatchObject({ planned: 0 });
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

  it("has as its oldest change one that nobody planned, too", async () => {
    await list("erp");
    await change(["A"]);
    await pool.query("update mirror.changes set changed_at = now() - interval '11 minutes'");
    const [shown] = await endpoints();
    expect(shown).toMatchObject({ pending: 0, late: true });
    expect(Date.now() / 1_000 - shown!.oldestPendingAt!).toBeGreaterThan(600);
    await planDeliveries(pool, { ...ALL, statuses: ["none"] }, 10);
    expect(await endpoints()).toMatchObject([{ oldestPendingAt: null, late: false }]);
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
