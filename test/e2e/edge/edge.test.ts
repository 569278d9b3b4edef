import { afterEach, beforeEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { countUncommitted, flood, holdBodies, makeGenuineSender } from "../../support/http/edgeAttack.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { readRssBytes } from "../../support/programs/processes.ts";
import { sendEvent } from "../../support/signing/signing.ts";
import { emptying } from "../../support/mirror/tables.ts";

const EVENT_EVERY_MS = 20;
const FORGED_MIN = 10_000;
const MEBIBYTE = 1_048_576;

const { database } = await openTestDatabase();
let port: number;

beforeEach(async () => {
  port = await findFreePort();
  await database.pool.query(emptying("inbox pending"));
});
afterEach(stopPrograms);

const startWeb = (env: Record<string, string> = {}) =>
  startRole("web", { DATABASE_URL: database.url, PORT: String(port), ...env });

async function sendOne(number: number, sender: ReturnType<typeof makeGenuineSender>) {
  const id = `evt_${number}`;
  const body = makeEventBody({ id, order: { reference: `R${number}`, updatedAt: at(number) } });
  const startedMs = performance.now();
  const status = await sender.send(port, { id, body });
  return { status, tookMs: performance.now() - startedMs };
}

const middle = (values: readonly number[]) =>
  values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? NaN;

it.each<[string, () => Promise<unknown>]>([
  ["one after another", () => flood({ port, floodMs: 2_500, forgedMin: FORGED_MIN, pipelined: false })],
  ["in packets", () => flood({ port, floodMs: 2_500, forgedMin: FORGED_MIN, pipelined: true })],
  ["with bodies that never end", () => holdBodies({ port, count: 1_000, holdMs: 1_000 })],
])("forged requests %s neither refuse nor lose an event, in bounded memory", async (_, begin) => {
  const web = await startWeb();
  const sender = makeGenuineSender();
  // Without an attack: on a busy machine everything takes longer.
  const quiet = [];
  for (let number = -9; number <= 0; number += 1) quiet.push((await sendOne(number, sender)).tookMs);
  let isOver = false;
  const attack = begin().finally(() => (isOver = true));
  let peakBytes = 0;
  const answers = [];
  for (let number = 1; !isOver; number += 1) {
    answers.push({ number, ...(await sendOne(number, sender)) });
    peakBytes = Math.max(peakBytes, await readRssBytes(web.child.pid ?? 0));
    await systemClock.sleep(EVENT_EVERY_MS);
  }
  await attack;
  expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  expect(sender.refused).toBe(await countUncommitted(port));
  // Attacker and sender share this process, which takes most of the time; the bench measures the delay.
  expect(middle(answers.map(({ tookMs }) => tookMs))).toBeLessThan(Math.max(1_000, 20 * middle(quiet)));
  expect(peakBytes).toBeLessThan(250 * MEBIBYTE);
  const { rows } = await database.pool.query<{ id: string }>("select event_id as id from mirror.inbox");
  const stored = new Set(rows.map(({ id }) => id));
  expect(answers.filter(({ number }) => !stored.has(`evt_${number}`))).toEqual([]);
});

it("with WEBHOOK_PORT, that port serves only webhooks, and only it does", async () => {
  const webhookPort = await findFreePort();
  await startWeb({ WEBHOOK_PORT: String(webhookPort) });
  const body = makeEventBody({ id: "evt_port", order: { reference: "R1", updatedAt: at(1) } });
  const send = (to: number) => sendEvent(`http://127.0.0.1:${to}/webhooks/live`, { id: "evt_port", body });
  expect([await send(port), await send(webhookPort)]).toEqual([404, 200]);
  const statusOf = async (to: number, path: string) => (await fetch(`http://127.0.0.1:${to}${path}`)).status;
  for (const path of ["/livez", "/openapi.json", "/v1/orders", "/ops", "/metrics"]) {
    expect([path, await statusOf(webhookPort, path)]).toEqual([path, 404]);
    expect([path, await statusOf(port, path)]).not.toEqual([path, 404]);
  }
});
