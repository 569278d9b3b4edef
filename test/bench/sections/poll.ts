import { NANOS_PER_SECOND } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import { makePoller } from "../../../src/poll/leader/poller.ts";
import type { Poller } from "../../../src/poll/leader/poller.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { LIVE } from "../../support/providers/testSandbox.ts";
import type { Bench } from "../bench.ts";
import { startChild } from "../children.ts";
import { amount } from "../effort.ts";
import { compare, median } from "../measure.ts";
import type { Figure, Sample } from "../measure.ts";
import { makeEnvironment } from "../roles.ts";

const ORDERS = amount(6_000);
const PAGE = 200;
/** The rate of the order-list policy (spec, "Limits"): two per second. */
const REQUEST_EVERY_MS = 500;
/** The provider counts arrivals, and one request may take longer than the next. */
const JITTER_MS = 5;
const RATE_WINDOW_MS = 10_000;
const QUIET_CYCLES = amount(8);
const QUIET_INTERVAL_SECONDS = 1;
const LOOK_MS = 50;
/** The changes to catch up with initially have ages between these, in seconds; at the end they still fit in one window. */
const [OLDEST_SECONDS, YOUNGEST_SECONDS] = [2_700, 1_200];

/** Polling the sandbox with its real limits: the cost of a quiet cycle, and the speed of catching up. */
export const benchPoll: Bench = async ({ pool, databaseUrl, onEnd }) => {
  const child = await startChild("sandboxProcess.ts", { env: makeEnvironment({ databaseUrl }) });
  onEnd(child.stop);
  const url = String(child.greeting);
  const backlogSince = await makeBacklog(pool, url);
  const world = { pool, url, backlogSince };
  return [...(await benchCatchUp(world)), ...(await benchQuiet(world))];
};

interface World {
  readonly pool: Pool;
  readonly url: string;
  /** No change to catch up with is older. */
  readonly backlogSince: Instant;
}

async function benchCatchUp(world: World): Promise<Figure[]> {
  return compare({
    section: "poll",
    unit: "orders/s",
    subjects: [
      {
        name: `catching up with ${ORDERS} changes`,
        goal: "at least 0.95 of the limit, no 429",
        run: () => catchUp(world),
      },
    ],
    limit: { name: "limit: full pages one after another, two a second", run: () => readPages(world) },
  });
}

async function benchQuiet(world: World): Promise<Figure[]> {
  const requests: number[] = [];
  const figures = await compare({
    section: "poll",
    unit: "ms CPU",
    subjects: [
      {
        name: "a quiet cycle",
        goal: "under 5 ms",
        run: async () => {
          const quiet = await pollQuietly(world);
          requests.push(quiet.requests);
          return quiet.sample;
        },
      },
    ],
    limit: { name: "limit: one request for an empty page", run: () => askForNothing(world) },
  });
  const [min, max] = [Math.min(...requests), Math.max(...requests)];
  const cost = { min, median: median(requests), max };
  return [
    ...figures,
    {
      section: "poll",
      name: "a quiet cycle between two proofs, list requests on average",
      unit: "requests",
      value: cost,
      p50Ms: null,
      p99Ms: null,
      ofLimit: null,
      goal: "one",
    },
  ];
}

async function catchUp(world: World): Promise<Sample> {
  const { pool } = world;
  // Earlier requests have used up the rate.
  await systemClock.sleep(RATE_WINDOW_MS);
  await pool.query("delete from mirror.orders");
  await pool.query("delete from mirror.coverage");
  await pool.query(
    `insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', $1, $1)
     on conflict (source_id) do update
       set history_since = $1, polled_through = $1, safe_through = null, last_cycle_started_at = null`,
    [world.backlogSince],
  );
  const refusedBefore = await countRefusals(world.url);
  const poller = makeBenchPoller(world, { intervalSeconds: 30, backfillSince: "PT1H" });
  const startedMs = performance.now();
  const state = { over: false };
  const cycle = poller
    .runOnce()
    .catch(() => undefined)
    .finally(() => (state.over = true));
  while (!state.over && (await countOrders(pool)) < ORDERS) await systemClock.sleep(LOOK_MS);
  const seconds = (performance.now() - startedMs) / 1_000;
  await poller.close();
  await cycle;
  const refused = (await countRefusals(world.url)) - refusedBefore;
  const missing = ORDERS - (await countOrders(pool));
  return { value: ORDERS / seconds, errors: refused + missing };
}

/** Everything that the rate allows, with plain offsets: the upper limit of the speed. */
async function readPages({ url }: World): Promise<Sample> {
  await systemClock.sleep(RATE_WINDOW_MS);
  const startedMs = performance.now();
  let errors = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  for (let offset = 0; offset < ORDERS; offset += PAGE) {
    // Timed from the last request and not by a schedule: a request after a late one would be refused.
    await systemClock.sleep(Math.max(0, lastMs + REQUEST_EVERY_MS + JITTER_MS - performance.now()));
    lastMs = performance.now();
    const answer = await askForOrders(url, `limit=${PAGE}&offset=${offset}`);
    if (answer.status !== 200) errors += 1;
    await answer.json();
  }
  // A page costs the time until the next one may be requested.
  await systemClock.sleep(Math.max(0, lastMs + REQUEST_EVERY_MS + JITTER_MS - performance.now()));
  return { value: ORDERS / ((performance.now() - startedMs) / 1_000), errors };
}

/**
 * Cycles without changes, once the mirror is at rest; CPU time of this process per cycle. Each is asked for when it is due,
 * as by `start`: asking before costs a statement that the product saves.
 */
async function pollQuietly(world: World): Promise<{ sample: Sample; requests: number }> {
  const { pool } = world;
  await pool.query("delete from mirror.coverage");
  await pool.query("delete from mirror.poll_state");
  await systemClock.sleep(RATE_WINDOW_MS);
  const poller = makeBenchPoller(world, {
    intervalSeconds: QUIET_INTERVAL_SECONDS,
    backfillSince: "PT1S",
  });
  /** List requests of the cycles without a proof: the last one may be the first that has something to prove. */
  const requestsAlone: number[] = [];
  let cycles = 0;
  let errors = 0;
  await poller.runOnce();
  await systemClock.sleep(QUIET_INTERVAL_SECONDS * 1_000);
  const before = process.cpuUsage();
  while (cycles < QUIET_CYCLES && errors === 0) {
    const { outcome, requests, windows, waitMs } = await poller.runOnce();
    if (outcome === "polled") {
      cycles += 1;
      if (windows === 1) requestsAlone.push(requests);
      await systemClock.sleep(QUIET_INTERVAL_SECONDS * 1_000);
    } else if (outcome === "not_due") await systemClock.sleep(waitMs);
    else errors += 1;
  }
  const { user, system } = process.cpuUsage(before);
  await poller.close();
  return { sample: { value: (user + system) / 1_000 / cycles, errors }, requests: mean(requestsAlone) };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

async function askForNothing({ url }: World): Promise<Sample> {
  await systemClock.sleep(RATE_WINDOW_MS);
  const before = process.cpuUsage();
  let errors = 0;
  for (let request = 0; request < QUIET_CYCLES; request += 1) {
    const answer = await askForOrders(
      url,
      "limit=200&updatedSince=2020-01-01T00:00:00Z&updatedUntil=2020-01-02T00:00:00Z",
    );
    if (answer.status !== 200) errors += 1;
    await answer.json();
    await systemClock.sleep(REQUEST_EVERY_MS);
  }
  const { user, system } = process.cpuUsage(before);
  return { value: (user + system) / 1_000 / QUIET_CYCLES, errors };
}

function makeBenchPoller(
  { pool, url }: World,
  { intervalSeconds, backfillSince }: { intervalSeconds: number; backfillSince: string },
): Poller {
  return makePoller({
    source: { sourceId: "live" },
    client: makeProviderClient({
      baseUrl: url,
      apiKey: LIVE,
      // RATE_SHARE_PERCENT=100; by default a tenth is left to other clients.
      budget: makeBudget({ clock: systemClock, share: 1 }),
      clock: systemClock,
      logger: silentLogger,
    }),
    pool,
    apply: makeLiveApply(pool),
    clock: systemClock,
    logger: silentLogger,
    intervalSeconds,
    marginSeconds: 5,
    backfillSince,
    pace: "cycle",
    holder: "bench",
    // The previous run has waited for it.
    rateWindowMs: 0,
  });
}

function askForOrders(url: string, query: string): Promise<Response> {
  return fetch(`${url}/v1/orders?${query}`, { headers: { authorization: `Bearer ${LIVE}` } });
}

/** Orders whose last changes are spread over a period that the delayed sweep does not read. Returns its start. */
async function makeBacklog(pool: Pool, url: string): Promise<Instant> {
  const made = await fetch(`${url}/_sandbox/seed`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ orders: ORDERS }),
  });
  if (!made.ok) throw new Error(`the sandbox made no orders: status ${made.status}`);
  const nowNanos = systemClock.now();
  const since = nowNanos - BigInt(OLDEST_SECONDS) * NANOS_PER_SECOND;
  await pool.query(
    `update sandbox.orders set updated_at = $1::bigint + (nth * ($2::bigint - $1::bigint) / $3) / 1000 * 1000
     from (select number, row_number() over (order by md5(number::text)) as nth from sandbox.orders) as shuffled
     where shuffled.number = orders.number`,
    [since, nowNanos - BigInt(YOUNGEST_SECONDS) * NANOS_PER_SECOND, ORDERS + 1],
  );
  return since;
}

async function countOrders(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ orders: number }>("select count(*)::int as orders from mirror.orders");
  return rows[0]?.orders ?? 0;
}

async function countRefusals(url: string): Promise<number> {
  const answer = await fetch(`${url}/_sandbox/requests`);
  const { counts } = (await answer.json()) as { counts: Record<string, number> };
  return Object.entries(counts).reduce((sum, [name, count]) => sum + (name.endsWith(" 429") ? count : 0), 0);
}
