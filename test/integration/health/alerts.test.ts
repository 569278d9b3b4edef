import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { makeSender } from "../../../src/roles/background/alertingLoop.ts";
import type { Facts } from "../../../src/health/condition.ts";
import { judge } from "../../../src/health/judge.ts";
import { makeAlerter } from "../../../src/health/alerter.ts";
import type { AlertMessage } from "../../../src/health/alerter.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { ago, LOOKED_AT, makeFacts, makeSourceFacts } from "../../support/pages/facts.ts";
import { WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

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

const well = makeFacts();
const quarantined = (count: number) => makeFacts({ quarantined: count, oldestQuarantinedAt: ago(60) });
/** A new one each time, as after a restart. */
const run = (facts: Facts) =>
  makeAlerter({
    pool: database.pool,
    send: makeSender({ url, secret: WEBHOOK_SECRET }, systemClock),
    logger: silentLogger,
  })(judge(facts));
const told = () => received.map(({ type, data }) => `${type} ${data.name} ${data.subject}`);
const stored = async () => (await database.pool.query("select name from mirror.alerts")).rows.length;

it("tells once that something is wrong, signed, with what to do, and once that it is over", async () => {
  await run(quarantined(3));
  expect(told()).toEqual(["alert.firing OrderMirrorQuarantine live"]);
  expect(received[0]?.data).toMatchObject({
    severity: "warning",
    summary: "3 events of live could not be processed.",
    fix: expect.stringContaining("order-mirror replay"),
  });
  await run(quarantined(4));
  await run(quarantined(4));
  expect(received).toHaveLength(1);
  await run(well);
  await run(well);
  expect(told().slice(1)).toEqual(["alert.resolved OrderMirrorQuarantine live"]);
  expect(await stored()).toBe(0);
});

it("tells the beginning that the condition has, not that of the look", async () => {
  await run(makeFacts({ pending: 1, oldestPendingAt: ago(500) }));
  expect(received[0]?.data).toMatchObject({ since: new Date((LOOKED_AT - 500) * 1_000).toISOString() });
});

it("neither begins nor ends what it cannot know", async () => {
  const problems = [{ problem: "Redis does not answer.", fix: "Start it." }];
  const queues = [{ name: "apply", problems, newestDeadAt: null }];
  await run(makeFacts({}, { queues }));
  expect(received[0]?.data).toMatchObject({ subject: "apply", source: null, fix: "Start it." });
  // As a poller, which has no queue, takes the turn.
  await run(makeFacts({}, { queues: null }));
  expect(await stored()).toBe(1);
  await run(well);
  expect(told()).toEqual([
    "alert.firing OrderMirrorQueueAway apply",
    "alert.resolved OrderMirrorQueueAway apply",
  ]);
});

it("sends again what was not accepted, under the same id", async () => {
  answer = 500;
  await run(quarantined(1));
  answer = 200;
  await run(quarantined(1));
  expect(received.map(({ id }) => id)).toEqual([received[0]?.id, received[0]?.id]);
  answer = 503;
  await run(well);
  answer = 200;
  await run(well);
  expect(told().slice(2)).toEqual(Array(2).fill("alert.resolved OrderMirrorQuarantine live"));
  expect(await stored()).toBe(0);
});

it("goes on with an alert that comes back before its end was told", async () => {
  await run(quarantined(1));
  answer = 500;
  await run(well);
  answer = 200;
  await run(quarantined(1));
  expect(told().filter((line) => line.startsWith("alert.firing"))).toHaveLength(1);
  expect(await stored()).toBe(1);
});

it("keeps the sources apart, and stops trying where nobody accepts", async () => {
  answer = 500;
  const fault = { quarantined: 1, oldestQuarantinedAt: ago(60) };
  const sources = [makeSourceFacts(fault), makeSourceFacts({ ...fault, sourceId: "test" })];
  const both = makeFacts({}, { sources });
  await run(both);
  expect(received).toHaveLength(1);
  answer = 200;
  await run(both);
  expect(told().slice(1)).toEqual([
    "alert.firing OrderMirrorQuarantine live",
    "alert.firing OrderMirrorQuarantine test",
  ]);
});
