import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultWorld, type FaultWorld } from "../support/faults/faultWorld.ts";
import { makeRandom } from "../support/faults/random.ts";
import { listenHere } from "../support/http/serve.ts";
import { at, makeEventBody } from "../support/mirror/orders.ts";
import { copyCluster } from "../support/servers/ownPostgres.ts";
import { canStartRedis } from "../support/servers/redis.ts";
import { sendEvent, WEBHOOK_SECRET } from "../support/signing/webhooks.ts";

const ORDERS = isShort ? 10 : 40;
const STATUSES = ["created", "assigned", "picked_up", "delivered"];
const PATIENCE = { timeout: 180_000, interval: 100 };
const ENDPOINTS = ["plain", "ordered", "failing"] as const;
type Name = (typeof ENDPOINTS)[number];

const random = makeRandom(seed);
/** What each endpoint got, in order: a reference and a revision. */
const received: Record<Name, string[]> = { plain: [], ordered: [], failing: [] };
const closes: (() => Promise<unknown>)[] = [];
let world: FaultWorld;
let env: Record<string, string>;
let orders = 0;

/** An endpoint that fails this share of its messages, and does not count them. */
async function startEndpoint(name: Name, share: number) {
  const { url, close } = await listenHere(
    createServer((request, response) => {
      let text = "";
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.on("end", () => {
        const { data } = JSON.parse(text) as { data: { reference: string; revision: number } };
        const fails = random() < share;
        if (!fails) received[name].push(`${data.reference} ${data.revision}`);
        response.writeHead(fails ? 500 : 204).end();
      });
    }),
  );
  closes.push(close);
  return { name, url, secret: WEBHOOK_SECRET, sources: ["live"], ordered: name === "ordered" };
}

beforeAll(async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-endpoints-"));
  closes.push(() => rm(folder, { recursive: true, force: true }));
  const list = path.join(folder, "outgoing.json");
  const shares = { plain: 0, ordered: 0, failing: 0.01 };
  const endpoints = await Promise.all(ENDPOINTS.map((name) => startEndpoint(name, shares[name])));
  await writeFile(list, JSON.stringify(endpoints), { mode: 0o600 });
  env = { OUTGOING_WEBHOOKS_FILE: list };
  world = await startFaultWorld();
  await world.start("web");
  await world.start("worker", env);
});
afterAll(async () => {
  await world.close();
  await Promise.all(closes.map((close) => close()));
});

/** Changes of new orders, all acknowledged. */
async function sendChanges(): Promise<void> {
  const from = (orders += ORDERS) - ORDERS;
  for (const [step, status] of STATUSES.entries())
    for (let index = from; index < from + ORDERS; index += 1) {
      const reference = `O-${index}`;
      const id = `evt_${index}_${step}_${Math.floor(random() * 1e9)}`;
      const body = makeEventBody({ id, order: { reference, status, updatedAt: at(step + 1) } });
      await expect.poll(() => sendEvent(world.webhookUrl, { id, body }), PATIENCE).toBe(200);
    }
}

/** Every change that the feed has of orders from the number `from` on was sent to each endpoint. */
async function expectAllSent(from = 0): Promise<number> {
  const pending = "select from mirror.pending";
  await expect.poll(async () => (await world.audit.pool.query(pending)).rowCount, PATIENCE).toBe(0);
  const { rows } = await world.audit.pool.query<{ change: string }>(
    "select reference || ' ' || revision as change from mirror.changes where substr(reference, 3)::int >= $1",
    [from],
  );
  for (const name of ENDPOINTS) {
    // What failed waits for its next attempt; a person has it sent now.
    const hasten = `update mirror.outgoing_deliveries set next_attempt_at = now() where endpoint_id = '${name}' and state = 'pending' and attempts > 0`;
    const missing = async () => {
      await world.audit.pool.query(hasten);
      const got = new Set(received[name]);
      return rows.filter(({ change }) => !got.has(change));
    };
    await expect.poll(missing, PATIENCE).toEqual([]);
  }
  return rows.length;
}

describe.runIf(canStartRedis)("outgoing webhooks", () => {
  const redis = async (act: (admin: Redis) => Promise<unknown>) => {
    const admin = new Redis(world.redis.url);
    await act(admin);
    admin.disconnect();
  };
  it.each<[string, () => Promise<unknown>, () => Promise<unknown>]>([
    [
      "while Redis is full",
      () => redis((it) => it.config("SET", "maxmemory", "1")),
      () => redis((it) => it.config("SET", "maxmemory", "0")),
    ],
    [
      "while Redis is demoted",
      () => redis((it) => it.replicaof("127.0.0.1", "1")),
      () => redis((it) => it.replicaof("NO", "ONE")),
    ],
    [
      "while Redis is dead, and after it came back empty",
      () => world.redis.kill(),
      () => world.redis.restartEmpty(),
    ],
    ["after Redis was flushed", () => world.redis.flush(), async () => undefined],
    ["beside a worker without the endpoints", () => world.start("worker", {}), async () => undefined],
    ["after a worker was killed", () => killWorker(), async () => undefined],
  ])("get every change %s", async (_when, begin, end) => {
    await begin();
    await sendChanges();
    const changes = await expectAllSent();
    expect(changes).toBeGreaterThan(0);
    await end();
    noteFigures("outgoing", {
      changes,
      ...Object.fromEntries(ENDPOINTS.map((name) => [name, received[name].length])),
    });
  });

  async function killWorker(): Promise<void> {
    const worker = await world.start("worker", env);
    await sendChanges();
    await worker.stop("SIGKILL");
  }

  it("are in order at an ordered endpoint, whatever failed", () => {
    const first = new Map<string, number>();
    for (const change of received.ordered) {
      const [reference = "", revision] = change.split(" ");
      const known = first.get(reference) ?? 0;
      expect(Number(revision)).toBeLessThanOrEqual(known + 1);
      first.set(reference, Math.max(known, Number(revision)));
    }
    expect(first.size).toBe(orders);
  });

  it("get every change after Postgres was restored from a backup while Redis goes on", async () => {
    const { postgres } = world;
    const backup = `${postgres.dataDir}-backup`;
    await postgres.stop();
    await copyCluster(postgres.dataDir, backup);
    await postgres.start();
    // These are lost with the server, and so are the numbers that it gave them.
    await sendChanges();
    await expectAllSent();
    await postgres.stop();
    await rm(postgres.dataDir, { recursive: true });
    await copyCluster(backup, postgres.dataDir);
    await postgres.start();
    for (const name of ENDPOINTS) received[name].length = 0;
    const from = orders;
    await sendChanges();
    expect(await expectAllSent(from)).toBeGreaterThan(0);
  });
});
