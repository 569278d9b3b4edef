import { expect, it, onTestFinished } from "vitest";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { OPEN, openOpsPages } from "../../support/pages/opsServer.ts";
import { canStartRedis, startRedis } from "../../support/servers/redis.ts";

it.runIf(canStartRedis)(
  "the queues' pages fail without delay while Redis is frozen or unreachable, and the overview still works",
  async () => {
    const redis = await startRedis("--maxmemory-policy", "noeviction");
    onTestFinished(() => redis.stop());
    const queue = await makeApplyQueue({
      mirrorId: "test",
      databaseUrl: "",
      redisUrls: [redis.url],
      logger: silentLogger,
    });
    onTestFinished(() => queue.close());
    const { read, url } = await openOpsPages({ queue: queue.bull, config: OPEN });
    const openDashboard = async () => {
      const answer = await fetch(`${url}/ops/queues`, { headers: { Accept: "text/html" } });
      return { status: answer.status, page: await answer.text() };
    };
    const board = () => read("/ops/queues/api/queues");
    const shown = { status: 200, page: expect.stringContaining('"name":"apply"') as unknown };
    const expectTrouble = async () => {
      expect(await board()).toMatchObject({ status: 500 });
      expect((await read("/ops/queue-health")).text).toContain("server does not answer.");
      expect(await openDashboard()).toMatchObject({
        status: 503,
        page: expect.stringContaining("does not answer."),
      });
      expect((await read("/ops")).status).toBe(200);
    };
    expect(await board()).toMatchObject(shown);
    expect(await openDashboard()).toMatchObject({
      status: 200,
      page: expect.stringMatching(/<a href="\/ops\/queue-health"[^]*← order-mirror/),
    });
    redis.freeze();
    await expectTrouble();
    redis.thaw();
    await expect.poll(board).toMatchObject(shown);
    await redis.kill();
    await expectTrouble();
    await redis.restart();
    await expect.poll(board).toMatchObject(shown);
  },
);
