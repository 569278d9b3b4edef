import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { makeApplyQueue, type ApplyQueue } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { canStartRedis, startRedis, type TestRedis } from "../../support/servers/redis.ts";
import { serve, type TestServer } from "../../support/http/serve.ts";

const { database, pool } = await openTestDatabase({ purpose: "ops", max: 2, statementTimeoutMs: 5_000 });

describe.skipIf(!canStartRedis)("the queues page over Redis", () => {
  let redis: TestRedis;
  let queue: ApplyQueue;
  let server: TestServer;

  beforeAll(async () => {
    redis = await startRedis("--maxmemory-policy", "noeviction");
    const logger = silentLogger;
    queue = await makeApplyQueue({ databaseUrl: database.url, redisUrls: [redis.url], logger });
    const config = { opsPassword: null, opsViewerPassword: null, localTrust: true };
    server = await serve(makeOpsRouter({ pool, queues: () => [queue.bull], config, logger }));
  });
  afterAll(async () => {
    await server.close();
    await queue.close();
    await redis.stop();
  });

  const listQueues = async () => {
    const signal = AbortSignal.timeout(10_000);
    const response = await fetch(`${server.url}/ops/queues/api/queues`, { signal });
    return { status: response.status, text: await response.text() };
  };
  const shown = { status: 200, text: expect.stringContaining('"name":"apply"') as unknown };

  const expectTrouble = async () => {
    expect(await listQueues()).toMatchObject({ status: 500 });
    const health = await (await fetch(`${server.url}/ops/queue-health`)).text();
    expect(health).toContain("server does not answer.");
    expect((await fetch(`${server.url}/ops`)).status).toBe(200);
  };

  it("shows the product's own queue", async () => {
    expect(await listQueues()).toMatchObject(shown);
  });

  it("fails without delay while Redis is frozen or unreachable, and the overview still works", async () => {
    redis.freeze();
    await expectTrouble();
    redis.thaw();
    await expect.poll(listQueues, { timeout: 60_000 }).toMatchObject(shown);
    await redis.kill();
    await expectTrouble();
    await redis.restart();
    await expect.poll(listQueues, { timeout: 60_000 }).toMatchObject(shown);
  });
});
