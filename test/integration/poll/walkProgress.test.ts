import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import type { PollDeps } from "../../../src/poll/cycle/deps.ts";
import type { Poller } from "../../../src/poll/leader/poller.ts";
import { runOnServer } from "../../support/servers/createDatabase.ts";
import { findTestServer, makeTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import type { MemoryProvider } from "../../support/providers/memoryProvider.ts";
import { addSource } from "../../support/mirror/orders.ts";

const REFERENCES = ["R0", "R1", "R2", "R3", "R4"];
const LEASE_MS = 1_500;

interface World {
  readonly pool: Pool;
  readonly provider: MemoryProvider;
  readonly makeSut: (more?: Partial<PollDeps>) => Poller;
  /** Copies the current database. */
  readonly keepCopy: () => Promise<void>;
  /** Drops the database; `bringBack` restores it as it was when copied. */
  readonly dropDatabase: () => Promise<void>;
  readonly bringBack: () => Promise<void>;
}

/** Five recent orders, two per page, so that the delayed sweep needs several pages. */
async function makeWorld(): Promise<World> {
  const database = await makeTestDatabase();
  const name = new URL(database.url).pathname.slice(1);
  const pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
  const provider = makeMemoryProvider();
  provider.limitMax = 2;
  for (const [index, reference] of REFERENCES.entries())
    provider.put(reference, secondsAgo(600 - 100 * index));
  await addSource(pool, "live");
  const pollers: Poller[] = [];
  onTestFinished(async () => {
    await Promise.all(pollers.map((poller) => poller.close()));
    await pool.end();
    await database.drop();
    await onServer(`drop database if exists ${copy} with (force)`);
  });
  const live = pg.escapeIdentifier(name);
  const copy = pg.escapeIdentifier(`${name}_copy`);
  const onServer = (sql: string) => runOnServer(findTestServer(), sql);
  const disconnect = async () => {
    await onServer(`alter database ${live} with allow_connections false`);
    await onServer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
    // Removes broken connections from the pool before anybody uses one.
    await vi.waitUntil(() => pool.totalCount === 0, { timeout: 60_000 });
  };
  return {
    pool,
    provider,
    makeSut(more = {}) {
      const poller = makeLivePoller({
        client: provider,
        pool,
        intervalSeconds: 0.05,
        backfillSince: "PT1H",
        holder: "first",
        leaseTtlMs: LEASE_MS,
        ...more,
      });
      pollers.push(poller);
      return poller;
    },
    async keepCopy() {
      await disconnect();
      await onServer(`create database ${copy} with template = ${live}`);
      await onServer(`alter database ${live} with allow_connections true`);
    },
    async dropDatabase() {
      await disconnect();
      await onServer(`drop database ${live} with (force)`);
    },
    async bringBack() {
      await onServer(`alter database ${copy} rename to ${live}`);
    },
  };
}

/** The number of the list read that is the delayed sweep's first page; the fast sweep's is 1. */
const FIRST_PAGE = 2;

const readReferences = async (pool: Pool) =>
  (
    await pool.query<{ reference: string }>("select reference from mirror.orders order by reference")
  ).rows.map(({ reference }) => reference);

/** Polls until the proof reaches almost the present. */
const pollUntilSafe = (pool: Pool, poller: Poller) =>
  vi.waitUntil(
    async () => {
      await poller.runOnce();
      const { rows } = await pool
        .query<{ age: number | null }>(
          "select extract(epoch from clock_timestamp() - mirror.instant_at(safe_through))::float8 as age from mirror.poll_state",
        )
        .catch(() => ({ rows: [] }));
      return rows[0]?.age !== null && rows[0]?.age !== undefined && rows[0].age < 30;
    },
    { timeout: 60_000, interval: 5 },
  );

const readGaps = async (pool: Pool) => (await pool.query("select * from reporting.coverage_gaps")).rows;

it("reads a page again when a failover has lost it", async () => {
  const world = await makeWorld();
  let lists = 0;
  world.provider.before = async () => {
    lists += 1;
    if (lists === FIRST_PAGE) await world.keepCopy();
    if (lists !== FIRST_PAGE + 1) return;
    await world.dropDatabase();
    await world.bringBack();
  };
  await pollUntilSafe(world.pool, world.makeSut({ leaseTtlMs: 60_000 }));
  expect(lists).toBeGreaterThan(FIRST_PAGE + 1);
  expect(await readReferences(world.pool)).toEqual(REFERENCES);
  expect(await readGaps(world.pool)).toEqual([]);
});

it("reads a page again when a restore in place has lost it and the database was away for longer than the lease", async () => {
  const world = await makeWorld();
  let lists = 0;
  world.provider.before = async () => {
    lists += 1;
    if (lists === FIRST_PAGE) await world.keepCopy();
    if (lists === FIRST_PAGE + 1) await world.dropDatabase();
  };
  const poller = world.makeSut();
  const failed = () =>
    vi.waitUntil(async () => (await poller.runOnce()).outcome === "failed", { timeout: 60_000, interval: 5 });
  await failed();
  // The copy's lease must expire, and this process must stop trusting it.
  await sleep(LEASE_MS * 1.2);
  await world.bringBack();
  await pollUntilSafe(world.pool, poller);
  expect(await readReferences(world.pool)).toEqual(REFERENCES);
  expect(await readGaps(world.pool)).toEqual([]);
});

it("continues the walk of a dead leader without reading its pages again", async () => {
  const { pool, provider, makeSut } = await makeWorld();
  const options = { intervalSeconds: 2 };
  provider.before = () =>
    provider.reads.length === FIRST_PAGE + 1 ? new Promise<never>(() => undefined) : undefined;
  void makeSut(options)
    .runOnce()
    .catch(() => undefined);
  await vi.waitUntil(() => provider.reads.length === FIRST_PAGE + 1, { timeout: 60_000 });
  const [, firstPage, unanswered] = provider.reads.map(({ query }) => query);
  expect(await readReferences(pool)).toEqual(["R0", "R1"]);
  // A killed process leaves a lease that expires.
  await pool.query("update mirror.leases set expires_at = clock_timestamp()");
  const second = makeSut({ ...options, holder: "second" });
  await vi.waitUntil(async () => (await second.runOnce()).outcome === "polled", { timeout: 60_000 });
  const later = provider.reads.slice(FIRST_PAGE + 1).map(({ query }) => query);
  expect(later).toContainEqual(unanswered);
  expect(later).not.toContainEqual(firstPage);
  const { rows } = await pool.query(
    "select since, until, proved, fence, orders from mirror.coverage where sweep = 'delayed'",
  );
  // A walk requests an extra second on both sides.
  const since = String(firstPage!.since + 1_000_000_000n);
  const until = String(firstPage!.until - 1_000_000_000n);
  expect(rows).toEqual([{ since, until, proved: true, fence: "2", orders: REFERENCES.length }]);
  expect(await readReferences(pool)).toEqual(REFERENCES);
});
