import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { makeApplyQueue } from "../../../src/queue/applyQueue.ts";
import type { ApplyQueue } from "../../../src/queue/applyQueue.ts";
import { HINT_LISTENER, readListenerPlace } from "../../../src/queue/hints/hints.sql.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { QUEUE_BACKENDS, useQueueServers } from "../../support/servers/queueServers.ts";
import { redisAvailable } from "../../support/servers/redis.ts";

const PATIENCE = { timeout: 60_000, interval: 20 };
/** A short wait, for hints that may be lost. */
const SHORT = { timeout: 500, interval: 2 };
const isEmpty = (list: readonly unknown[]) => list.length === 0;
const LIST = "{order-mirror}:apply:hints";

const servers = useQueueServers();

describe.each(QUEUE_BACKENDS)("hints, with the queue on $backend", ({ backend, runs }) => {
  let queue: ApplyQueue;
  let next = 0;

  async function open(): Promise<ApplyQueue> {
    const opened = await makeApplyQueue({
      databaseUrl: servers.database.url,
      redisUrls: servers.redisUrls(backend),
      logger: silentLogger,
    });
    await opened.bull.waitUntilReady();
    return opened;
  }
  /** Listens as a worker and collects the hinted positions. */
  function listen(from = queue): number[] {
    const heard: number[] = [];
    const listener = from.listen(async ({ seqs }) => void heard.push(...seqs));
    onTestFinished(() => listener.close());
    return heard;
  }
  /** Notifies of new positions, one by one, until one is received. */
  async function notifyUntil(isHeard: () => boolean): Promise<void> {
    await expect
      .poll(() => {
        queue.notify([(next += 1)]);
        return isHeard();
      }, PATIENCE)
      .toBe(true);
  }
  /** Sends messages that are not valid hints. */
  async function sendRubbish(): Promise<void> {
    const [redisUrl] = servers.redisUrls(backend);
    if (redisUrl !== undefined) {
      const client = new Redis(redisUrl);
      await client.rpush(LIST, "rubbish");
      await client.quit();
    } else await servers.database.pool.query("select pg_notify('order_mirror_hints', 'rubbish')");
  }

  beforeEach(async ({ skip }) => {
    if (!runs) skip("no redis-server");
    queue = await open();
  });
  afterEach(async () => {
    if (!runs) return;
    await queue.bull.obliterate({ force: true });
    await queue.close();
  });

  it("arrive before the job for the same events", async () => {
    const seen: string[] = [];
    const note = (kind: string, seqs: readonly number[]) => seen.push(...seqs.map((seq) => `${kind} ${seq}`));
    const listener = queue.listen(async ({ seqs }) => void note("hint", seqs));
    onTestFinished(() => listener.close());
    const consumer = await queue.consume(async (seqs) => void note("job", seqs));
    onTestFinished(() => consumer.close());
    // On a busy machine, single hints may be lost or delayed.
    const isEarly = (entry: string, at: number) =>
      entry.startsWith("hint") && seen.indexOf(entry.replace("hint", "job")) > at;
    await notifyUntil(() => seen.some(isEarly));
    expect(seen.some(isEarly)).toBe(true);
  });

  it("are each taken by one worker, and over time by all workers", async () => {
    const other = await open();
    onTestFinished(() => other.close());
    const heard = [listen(), listen(other)];
    /** Counts how often twenty hints were taken, and workers that took none. */
    const notifyOfTwenty = async () => {
      for (const each of heard) each.length = 0;
      for (let time = 0; time < 20; time += 1) {
        const seq = (next += 1);
        queue.notify([seq]);
        await vi.waitUntil(() => heard.flat().includes(seq), SHORT).catch(() => undefined);
      }
      return {
        taken: heard.flat().length,
        kinds: new Set(heard.flat()).size,
        idle: heard.filter(isEmpty).length,
      };
    };
    // In Postgres, workers discover each other within 5 s.
    await expect.poll(notifyOfTwenty, PATIENCE).toEqual({ taken: 20, kinds: 20, idle: 0 });
  });

  it("that are invalid are skipped", async () => {
    const heard = listen();
    await notifyUntil(() => heard.length > 0);
    await sendRubbish();
    const before = heard.length;
    await notifyUntil(() => heard.length > before);
    expect(heard.every((seq) => Number.isInteger(seq) && seq <= next)).toBe(true);
  });

  it("are not received after the worker has closed", async () => {
    const heard: number[] = [];
    const listener = queue.listen(async ({ seqs }) => void heard.push(...seqs));
    await notifyUntil(() => heard.length > 0);
    await listener.close();
    heard.length = 0;
    const others = listen();
    await notifyUntil(() => others.length > 0);
    expect(heard).toEqual([]);
  });
});

it("in Postgres are received again after the listening connection was broken", async () => {
  const queue = await makeApplyQueue({
    databaseUrl: servers.database.url,
    redisUrls: [],
    logger: silentLogger,
  });
  onTestFinished(() => queue.close());
  const heard: number[] = [];
  const listener = queue.listen(async ({ seqs }) => void heard.push(...seqs));
  onTestFinished(() => listener.close());
  const notify = () => {
    queue.notify([1]);
    return heard.length > 0;
  };
  await expect.poll(notify, PATIENCE).toBe(true);
  const { rowCount } = await servers.database.pool.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'order-mirror hints'`,
  );
  expect(rowCount).toBe(1);
  heard.length = 0;
  await expect.poll(notify, PATIENCE).toBe(true);
});

it("in Postgres are not shared with another login, even under the listener's connection name", async () => {
  const { pool, url } = servers.database;
  const login = `stranger_${randomUUID().replaceAll("-", "")}`;
  await pool.query(`create role ${login} login password 'x'`);
  const strange = new URL(url);
  [strange.username, strange.password] = [login, "x"];
  const client = new pg.Client({ connectionString: strange.href, application_name: HINT_LISTENER });
  await client.connect();
  onTestFinished(async () => {
    await client.end();
    await pool.query(`drop role ${login}`);
  });
  expect(await readListenerPlace(pool)).toEqual({ place: 0, listeners: 0 });
});

describe.runIf(redisAvailable)("hints in Redis", () => {
  const open = async () => {
    const queue = await makeApplyQueue({
      databaseUrl: servers.database.url,
      redisUrls: [servers.redis?.url ?? ""],
      logger: silentLogger,
    });
    onTestFinished(() => queue.close());
    await queue.bull.waitUntilReady();
    return queue;
  };

  it("are kept for a worker that starts later, a thousand at most", async () => {
    const queue = await open();
    const client = new Redis(servers.redis?.url ?? "");
    onTestFinished(() => client.disconnect());
    const old = Array.from({ length: 1_500 }, (_, at) => String(at + 1));
    await client.rpush(LIST, ...old);
    queue.notify([2_000]);
    await expect.poll(() => client.lrange(LIST, 0, -1), PATIENCE).toEqual([...old.slice(501), "2000"]);
    const heard: number[] = [];
    const listener = queue.listen(async ({ seqs }) => void heard.push(...seqs));
    onTestFinished(() => listener.close());
    await expect.poll(() => heard.length, PATIENCE).toBe(1_000);
    expect(heard.at(-1)).toBe(2_000);
  });

  it("are received again after Redis lost everything", async () => {
    const queue = await open();
    const heard: number[] = [];
    const listener = queue.listen(async ({ seqs }) => void heard.push(...seqs));
    onTestFinished(() => listener.close());
    await servers.redis?.flush();
    await expect
      .poll(() => {
        queue.notify([7]);
        return heard.length;
      }, PATIENCE)
      .toBeGreaterThan(0);
  });
});
