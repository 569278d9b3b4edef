import { setTimeout as sleep } from "node:timers/promises";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import type { Pool } from "../../../src/database/database.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench } from "../bench.ts";
import { buildProgram, readNodeOptions } from "../buildProgram.ts";
import { startChild } from "../children.ts";
import { amount } from "../effort.ts";
import { compare, quantile } from "../measure.ts";
import type { Subject } from "../measure.ts";
import { readProcessorTime, readServerTime, requireProcessorTime } from "../processorTime.ts";
import { readMegabytes } from "../resident.ts";
import { makeEnvironment } from "../roles.ts";
import { writeSources } from "../sourcesFile.ts";

const SOURCES = amount(1_000);
const INTERVAL_SECONDS = amount(30);
const LOOK_MS = 1_000;
const START_TIMEOUT_MS = 180_000;

interface Measured {
  /** Cycles that began. */
  readonly cycles: number;
  /** How late each of them began, in seconds. */
  readonly latenesses: readonly number[];
  readonly pollerMillis: number;
  readonly postgresMillis: number;
  readonly megabytes: number;
  readonly connections: number;
}

/** The cycles of 1,000 quiet sources in one poller process, with the default interval. Each run is one interval. */
export const benchSources: Bench = async ({ pool, databaseUrl, onEnd }) => {
  requireProcessorTime();
  await buildProgram();
  const provider = await startChild("quietProviderProcess.ts");
  onEnd(provider.stop);
  const env = {
    ...makeEnvironment({ databaseUrl }),
    SOURCES_FILE: await writeSources(SOURCES, onEnd),
    DELIVERY_BASE_URL: String(provider.greeting),
    POLL_INTERVAL_SECONDS: String(INTERVAL_SECONDS),
    BACKFILL_SINCE: "PT1S",
    PORT: String(await findFreePort()),
    LOG_LEVEL: "info",
    LOG_FORMAT: "json",
  };
  const poller = startProgram(["poller"], env, { nodeOptions: await readNodeOptions() });
  onEnd(async () => void (await poller.stop()));
  await poller.waitFor(/poller is ready/);
  const readyMs = performance.now();
  await awaitPolled(pool);
  const begunSeconds = (performance.now() - readyMs) / 1_000;

  const pid = poller.child.pid ?? 0;
  let measured: Measured;
  const figure = (name: string, unit: string, goal: string, read: () => number): Subject => ({
    name,
    unit,
    goal,
    run: () => Promise.resolve({ value: read(), errors: 0 }),
  });
  const late = (at: number) => quantile(measured.latenesses, at);
  const first: Subject = {
    name: `cycles of ${SOURCES} sources that began within one interval of their time`,
    goal: "100 %",
    async run() {
      measured = await measure(pool, pid);
      const punctual = measured.latenesses.filter((seconds) => seconds <= INTERVAL_SECONDS).length;
      return {
        value: (100 * punctual) / measured.cycles,
        errors: (measured.cycles < SOURCES ? 1 : 0) + (await countFailed(pool)),
      };
    },
  };
  return compare({
    section: "sources",
    unit: "%",
    subjects: [
      first,
      figure("the median cycle began late by", "s", "", () => late(0.5)),
      figure("the latest cycle began late by", "s", "", () => Math.max(...measured.latenesses)),
      figure("from the start of the process until each source polls", "s", "", () => begunSeconds),
      figure(
        "the poller, for a cycle",
        "ms CPU",
        "under 5 ms",
        () => measured.pollerMillis / measured.cycles,
      ),
      figure("Postgres, for a cycle", "ms CPU", "", () => measured.postgresMillis / measured.cycles),
      figure("the poller, most seen", "MB RSS", "", () => measured.megabytes),
      figure("the poller's connections, most seen", "connections", "", () => measured.connections),
    ],
  });
};

/** One interval, and as much of the next that each source begins a cycle in it even if that is late by a tenth. */
async function measure(pool: Pool, pid: number): Promise<Measured> {
  const readTimes = () => Promise.all([readProcessorTime(pid), readServerTime(pool)]);
  const endMs = performance.now() + INTERVAL_SECONDS * 1_100;
  const before = await readTimes();
  const begun = new Map<string, Set<number>>();
  let [megabytes, connections] = [0, 0];
  do {
    for (const { source, at } of await readStarts(pool))
      begun.set(source, (begun.get(source) ?? new Set()).add(at));
    megabytes = Math.max(megabytes, await readMegabytes(pid));
    connections = Math.max(connections, await countConnections(pool));
    await sleep(LOOK_MS);
  } while (performance.now() < endMs);
  const after = await readTimes();
  const endSeconds = (performance.timeOrigin + performance.now()) / 1_000;
  const latenesses = [...begun.values()].flatMap((starts) => {
    const at = [...starts].toSorted((left, right) => left - right);
    const late = at.slice(1).map((start, index) => start - (at[index] ?? start) - INTERVAL_SECONDS);
    const waiting = endSeconds - (at.at(-1) ?? 0) - INTERVAL_SECONDS;
    return waiting > 0 ? [...late, waiting] : late;
  });
  const [pollerMillis = 0, postgresMillis = 0] = after.map(
    (micros, index) => (micros - (before[index] ?? 0)) / 1_000,
  );
  return { cycles: latenesses.length, latenesses, pollerMillis, postgresMillis, megabytes, connections };
}

/** When the last cycle of each source began, in seconds since 1970. */
async function readStarts(pool: Pool): Promise<{ source: string; at: number }[]> {
  const { rows } = await pool.query<{ source: string; at: number }>(
    `select source_id as source, extract(epoch from last_cycle_started_at)::float8 as at from mirror.poll_state
     where last_cycle_started_at is not null`,
  );
  return rows;
}

/** Until a cycle of each source has begun. */
async function awaitPolled(pool: Pool): Promise<void> {
  const giveUpMs = performance.now() + START_TIMEOUT_MS;
  for (let begun = 0; begun < SOURCES; begun = (await readStarts(pool)).length) {
    if (performance.now() > giveUpMs) throw new Error(`only ${begun} of ${SOURCES} sources are polled`);
    await sleep(LOOK_MS);
  }
}

/** The sources of which a cycle has failed since the start. */
async function countFailed(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ error: string | null; count: number }>(
    `select coalesce(last_error, 'it works again') as error, count(*)::int from mirror.poll_state
     where last_error_at is not null group by 1`,
  );
  for (const { error, count } of rows) process.stderr.write(`A cycle of ${count} sources failed: ${error}\n`);
  return rows.reduce((sum, { count }) => sum + count, 0);
}

async function countConnections(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int from pg_stat_activity where application_name like 'order-mirror %' and application_name <> 'order-mirror bench'`,
  );
  return rows[0]?.count ?? 0;
}
