import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { canStartRedis, startRedis } from "../../support/servers/redis.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterEach(stopPrograms);
afterAll(() => database.drop());

const EVENTS = 400;

describe.runIf(canStartRedis)("with the queue in Redis", () => {
  it("nothing acknowledged is missing after Redis was flushed and killed under traffic", async () => {
    const redis = await startRedis();
    const port = await findFreePort();
    const up = startProgram(["up"], {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      PORT: String(port),
      DELIVERY_BASE_URL: "http://127.0.0.1:9",
      DELIVERY_LIVE_API_KEY: "dos_live_0123456789",
      DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
      LOG_FORMAT: "json",
    });
    await up.waitFor(/web is ready/);
    const acknowledged = new Set<string>();
    for (let index = 0; index < EVENTS; index += 1) {
      if (index === 50 || index === 100 || index === EVENTS - 10) await redis.flush();
      if (index === EVENTS / 2) await redis.kill();
      if (index === EVENTS - 50) await redis.restart();
      const reference = `R${index}`;
      const body = makeEventBody({ id: `evt_${index}`, order: { reference, updatedAt: at(index) } });
      const status = await sendEvent(`http://127.0.0.1:${port}/webhooks/live`, { id: `evt_${index}`, body });
      if (status === 200) acknowledged.add(reference);
    }
    // Acknowledgements do not depend on Redis: its death refuses nothing.
    expect(acknowledged.size).toBe(EVENTS);
    const missing = async () => {
      const { rows } = await database.pool.query<{ reference: string }>(
        "select reference from mirror.orders",
      );
      const mirrored = new Set(rows.map((row) => row.reference));
      return [...acknowledged].filter((reference) => !mirrored.has(reference));
    };
    await expect.poll(missing, { timeout: 60_000, interval: 200 }).toEqual([]);
    await up.stop("SIGTERM");
    await redis.stop();
  });
});
