import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { makeSender } from "../../src/roles/keeper.ts";
import type { AlertFacts } from "../../src/health/alerts.ts";
import { makeAlerter } from "../../src/health/alerter.ts";
import type { AlertMessage } from "../../src/health/alerter.ts";
import { systemClock } from "../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../src/runtime/telemetry/logger.ts";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { addSource } from "../support/orders.ts";
import { WEBHOOK_SECRET } from "../support/webhooks.ts";

let database: TestDatabase;
let url: string;
let answer = 200;
let received: AlertMessage[] = [];
/** Verifies with a library that is not ours. */
const server = createServer((req, res) => {
  void buffer(req).then((body) => {
    const headers = req.headers as Record<string, string>;
    received.push(new Webhook(WEBHOOK_SECRET).verify(body.toString(), headers) as AlertMessage);
    res.writeHead(answer).end();
  });
});

beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
  await addSource(database.pool, "test", "test");
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/alerts`;
});
afterAll(async () => {
  server.close();
  await database.drop();
});
beforeEach(async () => {
  received = [];
  answer = 200;
  await database.pool.query("truncate mirror.alerts");
});

const well: AlertFacts = {
  sourceId: "live",
  now: 10_000,
  safeThrough: 9_000,
  lastCycleEndedAt: 9_990,
  lastError: null,
  oldestPendingAt: null,
  quarantined: 0,
  gaps: 0,
  lastBreachAt: null,
  lastEventAt: 9_000,
  lostSinceLastEvent: 0,
  traitChangedAt: null,
  overlapSeconds: null,
  lateTailSeconds: null,
};
/** A new one each time, as after a restart. */
const run = (...facts: AlertFacts[]) =>
  makeAlerter({
    pool: database.pool,
    send: makeSender({ url, secret: WEBHOOK_SECRET }, systemClock),
    logger: silentLogger,
  })(facts);
const told = () => received.map(({ type, data }) => `${type} ${data.name} ${data.source}`);
const pass = (seconds: number) =>
  database.pool.query("update mirror.alerts set since = since - make_interval(secs => $1)", [seconds]);
const stored = async () => (await database.pool.query("select name from mirror.alerts")).rows.length;

it("tells once that something is wrong, signed, with what to do, and once that it is over", async () => {
  await run({ ...well, quarantined: 3 });
  expect(told()).toEqual(["alert.firing OrderMirrorQuarantine live"]);
  expect(received[0]?.data).toMatchObject({
    severity: "warning",
    summary: "Source live has 3 in quarantine, which could not be applied.",
    fix: expect.stringContaining("order-mirror replay"),
  });
  await run({ ...well, quarantined: 4 });
  await run({ ...well, quarantined: 4 });
  expect(received).toHaveLength(1);
  await run(well);
  await run(well);
  expect(told().slice(1)).toEqual(["alert.resolved OrderMirrorQuarantine live"]);
  expect(await stored()).toBe(0);
});

it("says nothing of what passes within its patience, and forgets it", async () => {
  const waiting = { ...well, oldestPendingAt: 9_000 };
  await run(waiting);
  await pass(58);
  await run(waiting);
  await run(well);
  expect(received).toEqual([]);
  expect(await stored()).toBe(0);
  await run(waiting);
  await pass(61);
  await run(waiting);
  expect(told()).toEqual(["alert.firing OrderMirrorEventsWait live"]);
});

it("sends again what was not accepted, under the same id", async () => {
  answer = 500;
  await run({ ...well, quarantined: 1 });
  answer = 200;
  await run({ ...well, quarantined: 1 });
  expect(received.map(({ id }) => id)).toEqual([received[0]?.id, received[0]?.id]);
  answer = 503;
  await run(well);
  answer = 200;
  await run(well);
  expect(told().slice(2)).toEqual(Array(2).fill("alert.resolved OrderMirrorQuarantine live"));
  expect(await stored()).toBe(0);
});

it("goes on with an alert that comes back before its end was told", async () => {
  await run({ ...well, quarantined: 1 });
  answer = 500;
  await run(well);
  answer = 200;
  await run({ ...well, quarantined: 1 });
  expect(told().filter((line) => line.startsWith("alert.firing"))).toHaveLength(1);
  expect(await stored()).toBe(1);
});

it("keeps the sources apart, and stops trying where nobody accepts", async () => {
  answer = 500;
  const both = [
    { ...well, quarantined: 1 },
    { ...well, sourceId: "test", quarantined: 1 },
  ];
  await run(...both);
  expect(received).toHaveLength(1);
  answer = 200;
  await run(...both);
  expect(told().slice(1)).toEqual([
    "alert.firing OrderMirrorQuarantine live",
    "alert.firing OrderMirrorQuarantine test",
  ]);
});
