import { afterEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeEventLoad } from "../../support/faults/events.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const KILLS = 5;

const { database } = await openTestDatabase();
afterEach(stopPrograms);

it(`every event answered 200 is in the mirror after the receiver was killed ${KILLS} times under load`, async () => {
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
  const load = makeEventLoad(`http://127.0.0.1:${port}/webhooks/live`);
  const { acknowledged, answers } = load;
  let web = startProgram(["web"], env);
  await web.waitFor(/web is ready/);
  load.start();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = acknowledged.size;
    // Killed in the middle of traffic, after a number of answers that differs from round to round.
    await expect
      .poll(() => acknowledged.size, { timeout: 60_000, interval: 1 })
      .toBeGreaterThan(before + 10 + kill * 7);
    await web.stop("SIGKILL");
    web = startProgram(["web"], env);
    await web.waitFor(/web is ready/);
  }
  await load.stop();
  const missing = async () => {
    const { rows } = await database.pool.query<{ reference: string }>("select reference from mirror.orders");
    const mirrored = new Set(rows.map(({ reference }) => reference.replace(/^R-(\w+)-/, "evt_$1_")));
    return [...acknowledged].filter((id) => !mirrored.has(id));
  };
  await expect.poll(missing, { timeout: 60_000, interval: 200 }).toEqual([]);
  expect(acknowledged.size).toBeGreaterThan(KILLS * 10);
  // Unless an answer was cut off, the kills prove nothing.
  expect(answers["unknown"]).toBeGreaterThan(0);
  // The overdue check finds events stored just before a kill, without answer and job.
  const pending = async () => (await database.pool.query("select from mirror.pending")).rowCount;
  await expect.poll(pending).toBe(0);
});
