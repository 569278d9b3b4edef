import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { findFreePort } from "../../src/runtime/postgres/freePort.ts";
import { makeTestDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { at, makeEventBody } from "../support/orders.ts";
import { startProgram, stopPrograms } from "../support/program.ts";
import { sendEvent, WEBHOOK_SECRET } from "../support/webhooks.ts";

const KILLS = 20;
const SENDERS = 8;

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterEach(stopPrograms);
afterAll(() => database.drop());

it(`every event answered 200 is in the mirror, though the receiver is killed ${KILLS} times under load`, async () => {
  const port = await findFreePort();
  const env = {
    DATABASE_URL: database.url,
    HOST: "127.0.0.1",
    PORT: String(port),
    DELIVERY_BASE_URL: "http://127.0.0.1:9",
    DELIVERY_LIVE_API_KEY: "dos_live_0123456789",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    LOG_FORMAT: "json",
  };
  const worker = startProgram(["worker"], env);
  await worker.waitFor(/worker is ready/);
  const acknowledged = new Set<string>();
  let unknown = 0;
  let sent = 0;
  let stopping = false;
  const send = async () => {
    while (!stopping) {
      const reference = `R${(sent += 1)}`;
      const body = makeEventBody({ id: `evt_${reference}`, order: { reference, updatedAt: at(sent) } });
      const status = await sendEvent(`http://127.0.0.1:${port}/webhooks/live`, {
        id: `evt_${reference}`,
        body,
      });
      if (status === 200) acknowledged.add(reference);
      else unknown += 1;
    }
  };
  let web = startProgram(["web"], env);
  await web.waitFor(/web is ready/);
  const senders = Array.from({ length: SENDERS }, send);
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = acknowledged.size;
    // Killed in the middle of traffic: after a number of further answers that differs from round to round.
    await expect
      .poll(() => acknowledged.size, { timeout: 60_000, interval: 1 })
      .toBeGreaterThan(before + 10 + kill * 7);
    await web.stop("SIGKILL");
    web = startProgram(["web"], env);
    await web.waitFor(/web is ready/);
  }
  stopping = true;
  await Promise.all(senders);
  const missing = async () => {
    const { rows } = await database.pool.query<{ reference: string }>("select reference from mirror.orders");
    const mirrored = new Set(rows.map((row) => row.reference));
    return [...acknowledged].filter((reference) => !mirrored.has(reference));
  };
  await expect.poll(missing, { timeout: 60_000, interval: 200 }).toEqual([]);
  expect(acknowledged.size).toBeGreaterThan(KILLS * 10);
  // Without an answer cut off in flight, the kills would have proved nothing.
  expect(unknown).toBeGreaterThan(0);
  const pending = await database.pool.query("select from mirror.pending");
  expect(pending.rowCount).toBe(0);
});
