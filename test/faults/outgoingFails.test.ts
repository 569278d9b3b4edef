import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/process/clock.ts";
import { isShort, noteFigures, seed } from "../support/faults/extent.ts";
import { startFaultWorld, superviseRoles } from "../support/faults/faultWorld.ts";
import { makeRandom } from "../support/faults/random.ts";
import { listenHere } from "../support/http/serve.ts";
import { at, makeEventBody } from "../support/mirror/orders.ts";
import { copyCluster } from "../support/servers/ownPostgres.ts";
import { canStartRedis } from "../support/servers/redis.ts";
import { sendEvent, WEBHOOK_SECRET } from "../support/signing/signing.ts";

const ROUNDS = isShort ? 2 : 10;
const STATUSES = ["created", "assigned", "picked_up", "delivered"];
const SENDERS = 4;
/** Between two events of an order, at most. */
const PAUSE_MAX_MS = 60;
const ENDPOINTS = {
  ordered: { source: "live", failing: 0 },
  failing: { source: "live", failing: 0.01 },
  other: { source: "test", failing: 0 },
} as const;
const SECRETS = {
  live: WEBHOOK_SECRET,
  test: `whsec_${Buffer.from("of the other mode, of thirty-two").toString("base64")}`,
};
type Name = keyof typeof ENDPOINTS;
const NAMES = Object.keys(ENDPOINTS) as Name[];

interface Message {
  readonly source: string;
  readonly data: {
    readonly reference: string;
    readonly revision: number;
    readonly status: string;
    readonly after: { readonly livemode: boolean };
  };
}

const random = makeRandom(seed);
const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;
/** The changes that each endpoint accepted. */
const received = { ordered: new Set<string>(), failing: new Set<string>(), other: new Set<string>() };
/** What no endpoint may get: a change of another source, or one before an earlier change of its order. */
const wrong: string[] = [];
/** The last revision of each order at the ordered endpoint, and what it got; begins anew when Postgres is restored. */
let last = new Map<string, number>();
let got = new Set<string>();
let orders = 0;

function receive(name: Name, { source, data }: Message): void {
  const { reference, revision, status } = data;
  const change = `${reference} ${revision} ${status}`;
  received[name].add(change);
  if (source !== ENDPOINTS[name].source || data.after.livemode !== (source === "live"))
    wrong.push(`${name} got ${change} of ${source}`);
  if (name !== "ordered" || got.has(change)) return;
  const before = last.get(reference) ?? 0;
  if (revision < before) wrong.push(`${change} came after revision ${before}`);
  got.add(change);
  last.set(reference, Math.max(before, revision));
}

async function startEndpoint(name: Name) {
  const { source, failing } = ENDPOINTS[name];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part: Buffer) => (text += part.toString()));
    request.on("end", () => {
      const fails = random() < failing;
      if (!fails) receive(name, JSON.parse(text) as Message);
      response.writeHead(fails ? 500 : 204).end();
    });
  });
  const { url, close } = await listenHere(server);
  afterAll(close);
  return { name, url, secret: WEBHOOK_SECRET, sources: [source], ordered: name === "ordered" };
}

const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-endpoints-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
const list = path.join(folder, "outgoing.json");
await writeFile(list, JSON.stringify(await Promise.all(NAMES.map(startEndpoint))), { mode: 0o600 });
const world = await startFaultWorld({
  env: { DELIVERY_TEST_API_KEY: "dos_test_sandbox", DELIVERY_TEST_WEBHOOK_SECRETS: SECRETS.test },
});
const supervisor = superviseRoles(world, ["web", "worker"], { OUTGOING_WEBHOOKS_FILE: list });
afterAll(() => supervisor.stop());
await supervisor.current("web")?.waitFor(/web is ready/);
await supervisor.current("worker")?.waitFor(/worker is ready/);

/** All events of a new order in both sources, under the same reference, each acknowledged before the next. */
async function sendOrder(): Promise<void> {
  const reference = `O-${(orders += 1)}`;
  for (const [step, status] of STATUSES.entries()) {
    for (const source of ["live", "test"] as const) {
      const id = `evt_${source}_${reference}_${step}`;
      const order = { reference, status, updatedAt: at(step + 1), livemode: source === "live" };
      const event = { id, body: makeEventBody({ id, order }) };
      const url = world.webhookUrl.replace(/live$/, source);
      await expect.poll(() => sendEvent(url, event, SECRETS[source])).toBe(200);
    }
    await systemClock.sleep(random() * PAUSE_MAX_MS);
  }
}

/** Waits until some more orders are sent. */
async function moreSent(): Promise<void> {
  const from = orders;
  await expect.poll(() => orders).toBeGreaterThan(from + 2 * SENDERS);
}

/** Sends changes while `act` runs, and some before and after it. */
async function sendDuring(act: () => Promise<unknown>): Promise<void> {
  let ending = false;
  const senders = Array.from({ length: SENDERS }, async () => {
    while (!ending) await sendOrder();
  });
  try {
    await moreSent();
    await act();
    await moreSent();
  } finally {
    ending = true;
    await Promise.all(senders);
  }
}

/** Waits until each endpoint has every change that the feed has of its source. Returns how many there are. */
async function expectAllSent(): Promise<number> {
  const { pool } = world.audit;
  const count = async (rows: string) => (await pool.query(`select from ${rows}`)).rowCount;
  await expect.poll(() => count("mirror.pending")).toBe(0);
  const { rows } = await pool.query<{ source: string; change: string }>(
    "select source_id as source, concat_ws(' ', reference, revision, status) as change from mirror.changes",
  );
  // What failed waits for its next attempt; a person has it sent now.
  const hasten =
    "update mirror.outgoing_deliveries set next_attempt_at = now() where state = 'pending' and attempts > 0";
  const missing = async () => {
    await pool.query(hasten);
    return NAMES.flatMap((name) =>
      rows
        .filter(({ source, change }) => source === ENDPOINTS[name].source && !received[name].has(change))
        .map(({ change }) => `${name}: ${change}`),
    );
  };
  await expect.poll(missing).toEqual([]);
  return rows.length;
}

const admin = async (act: (client: Redis) => Promise<unknown>) => {
  const client = new Redis(world.redis.url);
  await act(client).finally(() => client.disconnect());
};
async function killRole(role: "web" | "worker"): Promise<void> {
  const killed = supervisor.current(role);
  killed?.child.kill("SIGKILL");
  await killed?.ended;
  // As a minute later: what it had under way may be taken again.
  await world.audit.pool.query(
    "update mirror.outgoing_deliveries set taken_until = now() where taken_until > now()",
  );
}
const backupOf = (dataDir: string) => `${dataDir}-backup`;

async function backUpPostgres(): Promise<void> {
  const { postgres } = world;
  await postgres.stop();
  await rm(backupOf(postgres.dataDir), { recursive: true, force: true });
  await copyCluster(postgres.dataDir, backupOf(postgres.dataDir));
  await postgres.start();
}

/** What came after the backup is lost with the server, and so are the numbers that it gave. */
async function restorePostgres(): Promise<void> {
  const { postgres } = world;
  await postgres.stop();
  await rm(postgres.dataDir, { recursive: true });
  await copyCluster(backupOf(postgres.dataDir), postgres.dataDir);
  [last, got] = [new Map(), new Set()];
  await postgres.start();
}

async function evictJobs(client: Redis): Promise<void> {
  for (const key of await client.keys("*")) if (random() < 0.5) await client.del(key);
}

/** What happens to Redis, and to the processes, while Postgres goes on. */
const FAULTS: Readonly<Record<string, () => Promise<unknown>>> = {
  "while Redis is full": async () => {
    await admin((client) => client.config("SET", "maxmemory", "1"));
    await moreSent();
    await admin((client) => client.config("SET", "maxmemory", "0"));
  },
  "while Redis is demoted": async () => {
    await admin((client) => client.replicaof("127.0.0.1", "1"));
    await moreSent();
    await admin((client) => client.replicaof("NO", "ONE"));
  },
  "while Redis is dead, and after it came back empty": async () => {
    await world.redis.kill();
    await moreSent();
    await world.redis.restartEmpty();
  },
  "after Redis was flushed": () => world.redis.flush(),
  "after Redis has evicted half of its keys": () => admin(evictJobs),
  "after Redis was restored to an older state": () => world.redis.restore(),
  "after a worker was killed": () => killRole("worker"),
  "after web was killed": () => killRole("web"),
  "beside a worker without the endpoints": async () => {
    const worker = await world.start("worker", {});
    await moreSent();
    await worker.stop("SIGKILL");
  },
};
const RESTORED = "after Postgres was restored from a backup while Redis goes on";

describe.runIf(canStartRedis)(`outgoing webhooks, seed ${seed}`, () => {
  /** Sends changes while `act` runs, and waits for all of them. Returns what an endpoint must not get. */
  async function listWrong(act: () => Promise<unknown>): Promise<string[]> {
    await sendDuring(act);
    const changes = await expectAllSent();
    expect(changes).toBeGreaterThan(0);
    const sizes = Object.fromEntries(NAMES.map((name) => [name, received[name].size]));
    noteFigures("outgoing", { changes, ...sizes });
    return wrong;
  }

  it("get every change while nothing fails", async () => {
    expect(await listWrong(moreSent)).toEqual([]);
    await world.redis.backUp();
    await backUpPostgres();
  });

  it.each(Object.entries(FAULTS))("get every change %s", async (_when, fault) => {
    expect(await listWrong(fault)).toEqual([]);
  });

  it(`get every change ${RESTORED}`, async () => {
    expect(await listWrong(restorePostgres)).toEqual([]);
  });

  it("get every change, ordered ones in order and none elsewhere, through all of this together", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await world.redis.backUp();
      await backUpPostgres();
      const names = [pick(Object.keys(FAULTS)), pick(Object.keys(FAULTS))];
      const restored = round % 2 === 1;
      process.stderr.write(`  round ${round}: ${[...names, ...(restored ? [RESTORED] : [])].join("; ")}\n`);
      const all = async () => {
        for (const name of names) await FAULTS[name]?.();
        if (restored) await restorePostgres();
      };
      expect(await listWrong(all)).toEqual([]);
    }
  });
});
