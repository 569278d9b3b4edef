import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { readQueueFacts } from "../../../src/mirror/health.ts";
import { openQueue, PATIENCE } from "../../support/servers/queue.ts";
import { canStartRedis, startRedis, type TestRedis } from "../../support/servers/redis.ts";
import { startFaultProxy } from "../../support/faults/faultProxy.ts";
import { endsWithin } from "../../support/virtual/simulatedClock.ts";

/** Longest close, whatever the servers do: 3 s for the worker, 2 s each for sender and queue. */
const CLOSE_LIMIT_MS = 8_000;

describe.runIf(canStartRedis)("the queue in a Redis cluster", () => {
  it("notifies and consumes on three nodes, even when a node without its keys is lost", async () => {
    const nodes = await startCluster();
    const { queue, notifies, close } = await openQueue({ redisUrls: nodes.map(({ url }) => url) });
    await notifies(1);
    expect(await queue.check()).toEqual([]);

    const counts = await Promise.all(nodes.map((node) => countKeys(node.url)));
    expect(counts.filter((count) => count > 0)).toHaveLength(1);
    await nodes[counts.indexOf(0)]?.kill();
    await notifies(2);

    for (const node of nodes) await node.kill();
    expect(await endsWithin(CLOSE_LIMIT_MS, close)).toBe(true);
  });

  it("requires more than one node's address", async () => {
    const bus = String(await findFreePort());
    const redis = await startRedis("--cluster-enabled", "yes", "--cluster-port", bus);
    onTestFinished(() => redis.stop());
    const { queue } = await openQueue({ redisUrls: [redis.url] });
    expect((await queue.check()).map(({ problem }) => problem)).toEqual([
      "Redis is a node of a cluster, but REDIS_URL names only one.",
    ]);
  });
});

/** A server of which `prepare` makes one that refuses something, with queues and workers. */
async function openOn(prepare?: (admin: Redis) => Promise<unknown>, login = "") {
  const redis = await startRedis();
  onTestFinished(() => redis.stop());
  const admin = new Redis(redis.url);
  onTestFinished(() => admin.disconnect());
  const redisUrls = [redis.url.replace("//", `//${login}`)];
  const open = async (mirrorId: string) => {
    const { queue, taken, notifies } = await openQueue({ redisUrls, mirrorId });
    const problems = async () =>
      (await readQueueFacts(queue, 3_000)).problems.map(({ problem }) => problem).join(" ");
    return { taken, notifies, problems };
  };
  await prepare?.(admin);
  return { admin, open };
}

/** How often the server refuses a command within two seconds of its time. */
async function countRefusals(admin: Redis): Promise<number> {
  const read = async (name: string) =>
    Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await admin.info())?.[1]);
  const [before, startedAt] = [await read("total_error_replies"), await read("uptime_in_seconds")];
  await expect.poll(() => read("uptime_in_seconds"), PATIENCE).toBeGreaterThanOrEqual(startedAt + 2);
  return (await read("total_error_replies")) - before;
}

describe.runIf(canStartRedis)("a Redis that refuses", () => {
  const allow = (rights: string) => (admin: Redis) =>
    admin.call("acl", "setuser", "app", "on", ">secret", ...rights.split(" "));
  const LOGIN = "app:secret@";

  it("INFO, as managed servers do, serves all the same", async () => {
    const { open } = await openOn(allow("~{order-mirror:* +@all -@dangerous"), LOGIN);
    const queue = await open("a");
    await queue.notifies(1);
    expect(await queue.problems()).toBe("");
  });

  it.each<[string, (admin: Redis) => Promise<unknown>, string, string]>([
    ["scripts", allow("~* +@all -eval -evalsha"), LOGIN, "lacks a right"],
    ["its keys", allow("~other:* +@all"), LOGIN, "lacks a right"],
    ["waiting for jobs", allow("~* +@all -bzpopmin -set"), LOGIN, "lacks a right"],
    ["the password", allow("~* +@all"), "app:wrong@", "refuses the user or password"],
    ["writes, being full", (admin) => admin.config("SET", "maxmemory", "1"), "", "Redis is full"],
    ["writes, being a replica", (admin) => admin.replicaof("127.0.0.1", "1"), "", "read-only replica"],
  ])("%s is a problem, and no work for it or for the process", async (_what, prepare, login, says) => {
    const { admin, open } = await openOn(prepare, login);
    const queue = await open("a");
    await expect.poll(queue.problems, PATIENCE).toContain(says);
    const cpu = process.cpuUsage();
    const refusals = await countRefusals(admin);
    expect(refusals).toBeLessThan(60);
    const { user, system } = process.cpuUsage(cpu);
    expect((user + system) / 1_000).toBeLessThan(1_500);
  });

  it("nothing any more serves again: after it had room again, or was promoted", async () => {
    const { admin, open } = await openOn();
    const queue = await open("a");
    await queue.notifies(1);
    await admin.config("SET", "maxmemory", "1");
    await expect.poll(queue.problems, PATIENCE).toContain("full");
    await admin.config("SET", "maxmemory", "0");
    await queue.notifies(2);
    await admin.replicaof("127.0.0.1", "1");
    await expect.poll(queue.problems, PATIENCE).toContain("replica");
    await admin.replicaof("NO", "ONE");
    await queue.notifies(3);
    expect(await queue.problems()).toBe("");
  });
});

it.runIf(canStartRedis)(
  "connections of a demoted Redis find the new primary behind the same address",
  async () => {
    const [former, next] = [await startRedis(), await startRedis()];
    onTestFinished(async () => void (await Promise.all([former.stop(), next.stop()])));
    const line = await startFaultProxy(Number(new URL(former.url).port));
    onTestFinished(() => line.close());
    const { taken, notifies } = await openQueue({ redisUrls: [`redis://127.0.0.1:${line.port}`] });
    await notifies(1);
    // New connections lead to the new primary; those to the former one stay open.
    line.moveTo(Number(new URL(next.url).port));
    const admin = new Redis(former.url);
    onTestFinished(() => admin.disconnect());
    await admin.replicaof("127.0.0.1", new URL(next.url).port);
    await notifies(2);
    expect(new Set(taken)).toEqual(new Set([1, 2]));
  },
);

it.runIf(canStartRedis)("two mirrors on one Redis do not take each other's jobs", async () => {
  const { open } = await openOn();
  const [one, other] = [await open("one"), await open("other")];
  for (let seq = 1; seq <= 20; seq += 1) {
    await one.notifies(seq);
    await other.notifies(100 + seq);
  }
  expect(one.taken.every((seq) => seq <= 20)).toBe(true);
  expect(other.taken.every((seq) => seq > 100)).toBe(true);
});

/**
 * Three nodes, each with a third of the slots; the others still answer when one is lost. Their bus has a port of its own: by
 * default it is 10,000 above the node's, where an outgoing connection may have it.
 */
async function startCluster(): Promise<TestRedis[]> {
  const settings = "--cluster-enabled yes --cluster-announce-ip 127.0.0.1 --cluster-require-full-coverage no";
  const slots = [0, 5_461, 10_923, 16_384];
  const nodes: TestRedis[] = [];
  const clients: Redis[] = [];
  let meeting: string[] = [];
  for (let node = 0; node < 3; node += 1) {
    const bus = String(await findFreePort());
    const redis = await startRedis(...settings.split(" "), "--cluster-port", bus);
    onTestFinished(() => redis.stop());
    const client = new Redis(redis.url);
    await client.cluster("ADDSLOTSRANGE", slots[node]!, slots[node + 1]! - 1);
    if (node === 0) meeting = ["127.0.0.1", new URL(redis.url).port, bus];
    else await client.call("CLUSTER", "MEET", ...meeting);
    nodes.push(redis);
    clients.push(client);
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
