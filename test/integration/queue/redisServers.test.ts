import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { canStartRedis, startRedis, type TestRedis } from "../../support/servers/redis.ts";
import { endsWithin } from "../../support/virtual/endsWithin.ts";

const PATIENCE = { timeout: 60_000, interval: 20 };
/** Longest close, whatever the servers do: 3 s for the worker, 2 s each for sender and queue. */
const CLOSE_LIMIT_MS = 8_000;

describe.runIf(canStartRedis)("the queue in a Redis cluster", () => {
  it("notifies and consumes on three nodes, even when a node without its keys is lost", async () => {
    const nodes = await startCluster();
    const [first, ...others] = nodes.map((node) => node.url);
    const logger = silentLogger;
    const redisUrls = [first ?? "", ...others];
    const queue = await makeApplyQueue({ databaseUrl: "", redisUrls, logger });
    const taken: number[] = [];
    const consumer = await queue.consume(async (seqs) => void taken.push(...seqs));
    const notifies = async (seq: number) =>
      vi.waitFor(() => {
        queue.notify([seq]);
        expect(taken).toContain(seq);
      }, PATIENCE);
    await notifies(1);
    expect(await queue.check()).toEqual([]);

    const counts = await Promise.all(nodes.map((node) => countKeys(node.url)));
    expect(counts.filter((count) => count > 0)).toHaveLength(1);
    await nodes[counts.indexOf(0)]?.kill();
    await notifies(2);

    for (const node of nodes) await node.kill();
    const close = async () => {
      await consumer.close();
      await queue.close();
    };
    expect(await endsWithin(CLOSE_LIMIT_MS, close)).toBe(true);
  });

  it("requires more than one node's address", async () => {
    const bus = String(await findFreePort());
    const redis = await startRedis("--cluster-enabled", "yes", "--cluster-port", bus);
    onTestFinished(() => redis.stop());
    const single = await makeApplyQueue({ databaseUrl: "", redisUrls: [redis.url], logger: silentLogger });
    onTestFinished(() => single.close());
    const problems = await single.check();
    expect(problems.map((problem) => problem.problem)).toEqual([
      "Redis is a node of a cluster, but REDIS_URL names only one.",
    ]);
  });
});

/**
 * Three nodes, each with a third of the slots; the others still answer when one is lost. Their bus has a port of its own: by
 * default it is 10,000 above the node's, where an outgoing connection may have it.
 */
async function startCluster(): Promise<TestRedis[]> {
  const settings = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
  const nodes: TestRedis[] = [];
  const buses: number[] = [];
  for (let node = 0; node < 3; node += 1) {
    const bus = await findFreePort();
    const place = ["--cluster-port", String(bus), "--cluster-require-full-coverage", "no"];
    const redis = await startRedis(...settings, ...place);
    buses.push(bus);
    onTestFinished(() => redis.stop());
    nodes.push(redis);
  }
  const clients = nodes.map(({ url }) => new Redis(url));
  const slots = [0, 5_461, 10_923, 16_384];
  for (const [index, client] of clients.entries()) {
    await client.cluster("ADDSLOTSRANGE", slots[index] ?? 0, (slots[index + 1] ?? 0) - 1);
    const first = new URL(nodes[0]?.url ?? "").port;
    if (index > 0) await client.call("CLUSTER", "MEET", "127.0.0.1", first, String(buses[0]));
  }
  for (const client of clients) {
    await vi.waitFor(async () => {
      const state = await client.cluster("INFO");
      expect(state).toContain("cluster_state:ok");
      expect(state).toContain("cluster_slots_ok:16384");
    }, PATIENCE);
    client.disconnect();
  }
  return nodes;
}

async function countKeys(url: string): Promise<number> {
  const client = new Redis(url);
  try {
    return await client.dbsize();
  } finally {
    client.disconnect();
  }
}
