import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { claimDue, recordAttempt, UNDER_WAY_MAX } from "../../../src/outgoing/outgoingAttempt.sql.ts";
import { makeOutgoingLane } from "../../../src/outgoing/outgoingLane.ts";
import { reviveDead } from "../../../src/outgoing/outgoingPlan.sql.ts";
import { eraseOrder } from "../../../src/retention/erase.ts";
import { makeSend } from "../../../src/outgoing/outgoingSend.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeStandardSigner } from "../../../src/signature/sign.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const TIMEOUT_MS = 3_000;
const RETRY_SECONDS = [0.1, 0.1, 0.1];

type Answer = (response: ServerResponse, change: { reference: string; revision: number }) => void;

const { database, pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });
const closes: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  await pool.query(
    emptying(
      "outgoing_attempts outgoing_deliveries outgoing_cursors outgoing_endpoints orders history changes",
    ),
  );
});
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close();
});

async function see(...orders: OrderSketch[]): Promise<void> {
  const snapshots = orders.map((order) => makeSnapshot(order));
  await makeLiveApply(pool).applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n, 0) });
}
/** A change of the status for each of the statuses, one order after the other. */
async function change(references: readonly string[], statuses: readonly string[]): Promise<void> {
  for (const [index, status] of statuses.entries())
    await see(...references.map((reference) => ({ reference, status, updatedAt: at(index + 1) })));
}

interface Endpoint {
  /** What arrived, in sequence, as reference and revision. */
  readonly received: string[];
  mostUnderWay: () => number;
}

/** An endpoint, with the lanes of as many senders as there are processes. */
async function open(
  endpointId: string,
  answer: Answer,
  options: { senders?: number; ordered?: boolean; rate?: number | null; timeoutMs?: number } = {},
): Promise<Endpoint> {
  const { senders = 1, ordered = false, rate = null, timeoutMs = TIMEOUT_MS } = options;
  const received: string[] = [];
  let underWay = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, (underWay += 1));
    response.once("close", () => (underWay -= 1));
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const { data } = JSON.parse(text) as { data: { reference: string; revision: number } };
      received.push(`${data.reference}${data.revision}`);
      answer(response, data);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const common = { clock: systemClock, logger: silentLogger, random: () => 0, retrySeconds: RETRY_SECONDS };
  const sign = makeStandardSigner([WEBHOOK_SECRET]);
  const send = makeSend({ url, sign, clock: systemClock, timeoutMs });
  const subscription = { endpointId, sourceId: "live", types: null, statuses: null };
  for (let number = 0; number < senders; number += 1) {
    const own = makePool({ url: database.url, purpose: "sender", max: 3, statementTimeoutMs: 10_000 });
    const lane = makeOutgoingLane({
      ...common,
      pool: own,
      endpoint: { endpointId, send, fields: "all", ordered, rate, paused: false },
      subscriptions: [subscription],
    });
    closes.push(async () => {
      server.closeAllConnections();
      await lane.close();
      server.close();
      await own.end();
    });
    await lane.runOnce();
    lane.start();
  }
  return { received, mostUnderWay: () => most };
}

const accept: Answer = (response) => void response.writeHead(204).end();
const hang: Answer = () => undefined;
const references = (count: number) => Array.from({ length: count }, (_, number) => `R${number}-`);
const deliveredAll = (count: number) =>
  vi.waitFor(async () => {
    const { rows } = await pool.query("select from mirror.outgoing_deliveries where state = 'delivered'");
    expect(rows).toHaveLength(count);
  }, 60_000);

describe("a lane of outgoing webhooks", () => {
  it("is not delayed by another endpoint that hangs until the time-out", async () => {
    const bad = await open("bad", hang, { timeoutMs: 300_000 });
    await open("good", accept);
    await change(references(40), ["created"]);
    await deliveredAll(40);
    // The other one has all its senders waiting, and none of its attempts has ended.
    const { rows } = await pool.query(
      "select distinct ended_at, count(*)::int from mirror.outgoing_attempts where endpoint_id = 'bad' group by 1",
    );
    expect(rows).toEqual([{ ended_at: null, count: UNDER_WAY_MAX }]);
    expect(bad.received).toHaveLength(UNDER_WAY_MAX);
  });

  it("has a limited number of attempts under way, whatever the number of senders", async () => {
    const slow: Answer = (response) => void setTimeout(() => response.writeHead(204).end(), 100);
    const endpoint = await open("slow", slow, { senders: 3 });
    await change(references(60), ["created"]);
    await deliveredAll(60);
    expect(endpoint.mostUnderWay()).toBeLessThanOrEqual(UNDER_WAY_MAX);
    expect(endpoint.mostUnderWay()).toBeGreaterThan(UNDER_WAY_MAX / 2);
    expect(new Set(endpoint.received).size).toBe(endpoint.received.length);
  });

  it("sends at most as many messages per second as the endpoint allows, with several senders", async () => {
    await open("limited", accept, { senders: 2, rate: 5 });
    await change(references(16), ["created"]);
    await deliveredAll(16);
    const { rows } = await pool.query<{ ms: number }>(
      `select extract(epoch from started_at - lag(started_at, 5) over (order by started_at))::float8 * 1000 as ms
       from mirror.outgoing_attempts order by started_at offset 5`,
    );
    expect(rows).toHaveLength(11);
    for (const { ms } of rows) expect(ms).toBeGreaterThanOrEqual(1_000);
  });

  it("sends one message after a pause, and the others when it was accepted", async () => {
    let works = false;
    const endpoint = await open("moody", (response) => void response.writeHead(works ? 204 : 500).end());
    await change(references(UNDER_WAY_MAX), ["created"]);
    const failures = async () => {
      const { rows } = await pool.query<{ failures_in_row: number }>(
        "select failures_in_row from mirror.outgoing_endpoints",
      );
      return rows[0]!.failures_in_row;
    };
    await vi.waitFor(async () => expect(await failures()).toBe(UNDER_WAY_MAX), 60_000);
    const before = endpoint.received.length;
    await pool.query("update mirror.outgoing_endpoints set paused_until = now()");
    await vi.waitFor(async () => expect(await failures()).toBe(UNDER_WAY_MAX + 1), 60_000);
    expect(endpoint.received.length - before).toBe(1);
    works = true;
    await pool.query("update mirror.outgoing_endpoints set paused_until = now()");
    await deliveredAll(UNDER_WAY_MAX);
  });
});

it("after a clock that was a day ahead is set back, an endpoint gets what waits, within its rate", async () => {
  let works = false;
  const answer: Answer = (response) => void response.writeHead(works ? 204 : 500).end();
  const endpoint = { rate: 5 };
  await open("ahead", answer, endpoint);
  await change(["R1-", "R2-"], ["created"]);
  await vi.waitFor(async () => {
    const { rows } = await pool.query("select from mirror.outgoing_attempts where ended_at is not null");
    expect(rows.length).toBeGreaterThan(5);
  }, 60_000);
  for (const close of closes.splice(0).reverse()) await close();
  const day = "interval '1 day'";
  await pool.query(
    `update mirror.outgoing_deliveries set created_at = created_at + ${day},
       last_attempt_at = last_attempt_at + ${day}, next_attempt_at = next_attempt_at + ${day}`,
  );
  await pool.query(
    `update mirror.outgoing_attempts set started_at = started_at + ${day}, ended_at = ended_at + ${day}`,
  );
  await pool.query(`update mirror.outgoing_endpoints set paused_until = now() + ${day}`);
  works = true;
  await open("ahead", answer, endpoint);
  await deliveredAll(2);
  const { rows } = await pool.query("select from mirror.outgoing_deliveries where created_at > now()");
  expect(rows).toEqual([]);
});

describe("an ordered endpoint", () => {
  const statuses = ["created", "assigned", "picked_up", "delivered"];

  it("gets the changes of each order one after the other, with several senders and failures", async () => {
    let count = 0;
    const accepted: string[] = [];
    const endpoint = await open(
      "erp",
      (response, { reference, revision }) => {
        const fails = (count += 1) % 4 === 0;
        if (!fails) accepted.push(`${reference}${revision}`);
        setTimeout(() => response.writeHead(fails ? 500 : 204).end(), Math.random() * 20);
      },
      { senders: 3, ordered: true },
    );
    await change(references(8), statuses);
    await deliveredAll(32);
    for (const reference of references(8)) {
      const own = (all: readonly string[]) => all.filter((each) => each.startsWith(reference));
      expect(own(accepted)).toEqual([1, 2, 3, 4].map((revision) => `${reference}${revision}`));
      // A retried change is not overtaken, either.
      expect(own(endpoint.received)).toEqual(own(endpoint.received).toSorted());
    }
  });

  it("waits for no other order, and skips a change that was given up", async () => {
    const endpoint = await open(
      "erp",
      (response, { reference, revision }) =>
        void response.writeHead(reference === "A" && revision === 1 ? 410 : 204).end(),
      { ordered: true },
    );
    await pool.query("update mirror.outgoing_endpoints set paused_at = now()");
    await change(["A", "B"], ["created", "assigned"]);
    await vi.waitFor(async () => {
      const { rows } = await pool.query("select from mirror.outgoing_deliveries");
      expect(rows).toHaveLength(4);
    }, 60_000);
    // As after a failure: A1 is retried much later.
    await pool.query(`update mirror.outgoing_deliveries set next_attempt_at = now() + interval '1 hour'
      where reference = 'A' and position = (select min(position) from mirror.outgoing_deliveries where reference = 'A')`);
    await pool.query("update mirror.outgoing_endpoints set paused_at = null");
    await deliveredAll(2);
    expect(endpoint.received).toEqual(["B1", "B2"]);
    await pool.query("update mirror.outgoing_deliveries set next_attempt_at = now() where state = 'pending'");
    await deliveredAll(3);
    expect(endpoint.received).toEqual(["B1", "B2", "A1", "A2"]);
    // A change that is sent again by hand arrives late: its revision says so.
    expect(await reviveDead(pool, "erp")).toBe(1);
    await vi.waitFor(() => expect(endpoint.received).toEqual(["B1", "B2", "A1", "A2", "A1"]), 60_000);
  });
});

it("many changes that wait for others are examined once, and released when those end", async () => {
  const claim = () =>
    claimDue(pool, { endpointId: "erp", limit: 10, ordered: true, rate: null, lostAfterSeconds: 60 });
  await pool.query("insert into mirror.outgoing_endpoints (endpoint_id) values ('erp')");
  await pool.query(
    `insert into mirror.outgoing_deliveries
       (endpoint_id, source_id, position, reference, event_type, next_attempt_at)
     select 'erp', 'live', n, 'R' || n % 10, 'order.changed', now() + case when n < 10 then interval '1 hour' else '0' end
     from generate_series(0, 999) n`,
  );
  const due = async () => {
    const { rows } = await pool.query<{ position: string }>(
      "select position from mirror.outgoing_deliveries where state = 'pending' and next_attempt_at <= now() order by 1",
    );
    return rows.map(({ position }) => Number(position));
  };
  while ((await claim()).isHeld);
  expect(await due()).toEqual([]);
  await pool.query("update mirror.outgoing_deliveries set next_attempt_at = now() where position < 10");
  const { claims } = await claim();
  // What was removed cannot be sent: it ends as dead.
  const end = { outcome: "change_removed", durationMs: 0, answer: null, result: "dead" } as const;
  for (const { attemptId } of claims) await recordAttempt(pool, { attemptId, ...end });
  expect(await due()).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
});

describe("an attempt", () => {
  it("is recorded with its outcome, duration and the first characters of the answer", async () => {
    const answers: Answer[] = [
      (response, { reference }) =>
        void response
          .writeHead(422)
          .end(`<b>no</b>\u001b[31m ${reference} of Jansen: +31612345678\nkey whsec_MfKQ9r8GKYqrTwjU`),
      (response) => void response.destroy(),
      hang,
      // Never ends its answer.
      (response) => void response.writeHead(200).write("x".repeat(5_000)),
    ];
    await open("erp", (response, data) => answers.shift()!(response, data));
    await see({
      reference: "A",
      updatedAt: at(1),
      more: { customer: { name: "Jansen", phone: "+31612345678" } },
    });
    await deliveredAll(1);
    const { rows } = await pool.query(
      `select attempt, accepted, outcome, answer, duration_ms as "durationMs", ended_at is not null as ended
       from mirror.outgoing_attempts order by attempt_id`,
    );
    expect(rows).toMatchObject([
      { attempt: 1, accepted: false, outcome: "status 422", answer: "<b>no</b> [31m A of […]: […] key […]" },
      { attempt: 2, accepted: false, outcome: "ECONNRESET", answer: null },
      { attempt: 3, accepted: false, outcome: "TimeoutError", answer: null },
      { attempt: 4, accepted: true, outcome: "status 200", answer: "x".repeat(200), ended: true },
    ]);
    const durations = rows.map((row) => (row as { durationMs: number }).durationMs);
    expect(durations[2]).toBeGreaterThanOrEqual(TIMEOUT_MS - 100);
    expect(durations[0]).toBeLessThan(TIMEOUT_MS);
  });

  it("keeps no answer for an order that is erased meanwhile", async () => {
    let erased: Promise<unknown> | undefined;
    await open("erp", (response, { reference }) => {
      erased = eraseOrder(pool, { sourceId: "live", reference });
      // What the message said, in a form that nobody recognizes.
      void erased.then(() => response.writeHead(200).end(Buffer.from("Jansen").toString("base64")));
    });
    await see({ reference: "A", updatedAt: at(1), more: { customer: { name: "Jansen" } } });
    await deliveredAll(1);
    await erased;
    const { rows } = await pool.query("select outcome, answer from mirror.outgoing_attempts");
    expect(rows).toEqual([{ outcome: "status 200", answer: null }]);
    await pool.query(emptying("erasures"));
  });
});
