import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeEach, expect, it } from "vitest";
import { makeSender } from "../../../src/mirror/health.ts";
import type { Facts } from "../../../src/health/conditions/conditions.ts";
import { describeSpan } from "../../../src/domain/duration.ts";
import { judge, type FirstSeen } from "../../../src/health/judge.ts";
import { readRecorded } from "../../../src/health/alerts.sql.ts";
import { makeAlerter, type AlertMessage } from "../../../src/health/alerts.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { ago, LOOKED_AT, makeFacts, makeSourceFacts } from "../../support/pages/facts.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { listenHere } from "../../support/http/serve.ts";

const { database } = await openTestDatabase();
let answer = 200;
let received: AlertMessage[] = [];
/** Verifies with an independent library. */
const server = createServer((req, res) => {
  void buffer(req).then((body) => {
    const headers = req.headers as Record<string, string>;
    received.push(new Webhook(WEBHOOK_SECRET).verify(body.toString(), headers) as AlertMessage);
    res.writeHead(answer).end();
  });
});

const { url, close } = await listenHere(server);
afterAll(close);
beforeEach(async () => {
  received = [];
  answer = 200;
  await database.pool.query(emptying("alerts"));
});

const well = makeFacts();
const quarantined = (count: number) => makeFacts({ quarantined: count, oldestQuarantinedAt: ago(60) });
const problems = [{ problem: "Redis does not answer.", fix: "Start it." }];
const redisIsAway = makeFacts({}, { queues: [{ name: "apply", problems, newestDeadAt: null }] });
/** Creates a new alerter each time, as after a restart. */
const run = (facts: Facts, firstSeen?: FirstSeen) =>
  makeAlerter({
    pool: database.pool,
    send: makeSender({ url, secret: WEBHOOK_SECRET }, systemClock),
    logger: silentLogger,
  })(judge(facts, firstSeen));
const sent = () => received.map(({ type, data }) => `${type} ${data.name} ${data.subject}`);
const stored = async () =>
  (
    await database.pool.query(
      "select name from mirror.alerts where ended_at is null or (notified_at is not null and end_notified_at is null)",
    )
  ).rows.length;

it("sends one signed alert with a fix when a condition begins, and one when it is over", async () => {
  await run(quarantined(3));
  expect(sent()).toEqual(["alert.firing OrderMirrorQuarantine live"]);
  expect(received[0]?.data).toMatchObject({
    severity: "warning",
    summary: "3 events or reads of live could not be processed.",
    fix: expect.stringContaining("order-mirror replay"),
  });
  await run(quarantined(4));
  await run(quarantined(4));
  expect(received).toHaveLength(1);
  await run(well);
  await run(well);
  expect(sent().slice(1)).toEqual(["alert.resolved OrderMirrorQuarantine live"]);
  const { created, data } = received[1]!;
  const lasted = describeSpan((Date.parse(created) - Date.parse(data.since)) / 1_000);
  expect(data.summary).toBe(`Over after ${lasted}: Events or reads could not be processed (live).`);
  expect(await stored()).toBe(0);
});

it("continues an alert while another process takes its turn, which does not know the facts, or has seen them only now", async () => {
  await run(redisIsAway);
  expect(received[0]?.data).toMatchObject({ subject: "apply", source: null, fix: "Start it." });
  // As a poller, which has no queue.
  await run(makeFacts({}, { queues: null }));
  const firstSeen: FirstSeen = new Map();
  await run(redisIsAway, firstSeen);
  expect(sent()).toEqual(["alert.firing OrderMirrorQueueAway apply"]);
  await run(well, firstSeen);
  expect(sent().slice(1)).toEqual(["alert.resolved OrderMirrorQueueAway apply"]);
});

it("reports when the condition began, and ends the alert when that has started again", async () => {
  await run(makeFacts({ pending: 1, oldestPendingAt: ago(500) }));
  expect(received[0]?.data).toMatchObject({ since: new Date((LOOKED_AT - 500) * 1_000).toISOString() });
  await run(makeFacts({ pending: 1, oldestPendingAt: ago(5) }), new Map());
  expect(sent()).toEqual([
    "alert.firing OrderMirrorEventsWait live",
    "alert.resolved OrderMirrorEventsWait live",
  ]);
});

it("resends a refused alert under the same id", async () => {
  answer = 500;
  await run(quarantined(1));
  answer = 200;
  await run(quarantined(1));
  expect(received.map(({ id }) => id)).toEqual([received[0]?.id, received[0]?.id]);
  answer = 503;
  await run(well);
  // However long nobody could be told.
  await database.pool.query("update mirror.alerts set ended_at = ended_at - interval '25 hours'");
  answer = 200;
  await run(well);
  expect(sent().slice(2)).toEqual(Array(2).fill("alert.resolved OrderMirrorQuarantine live"));
  expect(await stored()).toBe(0);
});

it("continues an alert that recurs before its end was delivered", async () => {
  await run(quarantined(1));
  answer = 500;
  await run(well);
  answer = 200;
  await run(quarantined(1));
  expect(sent().filter((line) => line.startsWith("alert.firing"))).toHaveLength(1);
  expect(await stored()).toBe(1);
});

it("sends one message about a condition of several sources, and stops after the first refusal", async () => {
  answer = 500;
  const fault = { quarantined: 1, oldestQuarantinedAt: ago(60) };
  const sources = [
    makeSourceFacts({ ...fault, pausedAt: ago(5) }),
    makeSourceFacts({ ...fault, sourceId: "test" }),
  ];
  const both = makeFacts({}, { sources });
  await run(both);
  expect(received).toHaveLength(1);
  answer = 200;
  await run(both);
  expect(sent().slice(1)).toEqual([
    "alert.firing OrderMirrorQuarantine ",
    "alert.firing OrderMirrorPaused live",
  ]);
  expect(received[1]?.data).toMatchObject({
    source: null,
    subjects: ["live", "test"],
    summary: "Events or reads could not be processed: 2 sources.",
  });
});

it("records what holds and what is over for a day, also when nobody is told", async () => {
  const look = (facts: Facts) =>
    makeAlerter({ pool: database.pool, send: null, logger: silentLogger })(judge(facts));
  const recorded = async () =>
    (await readRecorded(database.pool)).map(({ name, endedAt }) => [name, endedAt !== null]);
  await look(quarantined(1));
  expect(await recorded()).toEqual([["OrderMirrorQuarantine", false]]);
  await look(well);
  await look(well);
  expect(await recorded()).toEqual([["OrderMirrorQuarantine", true]]);
  // The next occurrence is another one, with its own start.
  await look(makeFacts({ quarantined: 1, oldestQuarantinedAt: ago(5) }));
  expect(await readRecorded(database.pool)).toMatchObject([{ since: ago(5), endedAt: null }]);
  await look(well);
  await database.pool.query(`update mirror.alerts set ended_at = ended_at - interval '25 hours',
    end_notified_at = end_notified_at - interval '25 hours'`);
  expect(await recorded()).toEqual([]);
  await look(well);
  expect((await database.pool.query("table mirror.alerts")).rows).toEqual([]);
});
