import { describe, expect, it, vi } from "vitest";
import { makeApply } from "../../src/apply/apply.ts";
import { floorTo, formatInstant } from "../../src/domain/order/instant.ts";
import { makePool } from "../../src/database/database.ts";
import type { Pool } from "../../src/database/database.ts";
import { makePoller } from "../../src/poll/leader/poller.ts";
import { makeBudget } from "../../src/provider/rate/budget.ts";
import { makeProviderClient } from "../../src/provider/client.ts";
import { systemClock } from "../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../src/runtime/telemetry/logger.ts";
import { startSandbox } from "../../src/sandbox/startSandbox.ts";
import type { Sandbox } from "../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../support/database.ts";
import { addSource } from "../support/orders.ts";
import { LIVE, speakTo } from "../support/testSandbox.ts";
import { deliveryEvents } from "../../src/wire/events.ts";

const ORDERS = 5_000;
const TIED = 300;
const UPDATES_PER_SECOND = 20;
/** The orders were last touched within so long before the test. */
const PAST_SECONDS = 600;

const GRANULES = { s: 1_000_000_000n, us: 1_000n } as const;
type Granularity = keyof typeof GRANULES;

describe("5,000 orders at the sandbox that change while they are read", () => {
  it.concurrent.for([
    ["ascending", "s", "stable"],
    ["descending", "s", "random"],
    ["ascending", "us", "random"],
    ["descending", "us", "stable"],
  ] as const)(
    "are all in the mirror when they rest, listed %s, to the %s, with %s ties",
    // Random ties take some 160 requests, which the rate of order lists spreads over a minute and a half.
    { timeout: 300_000 },
    async ([listOrder, granularity, listTies], { onTestFinished }) => {
      const database = await makeTestDatabase();
      onTestFinished(() => database.drop());
      const sandbox = await startSandbox({
        databaseUrl: database.url,
        port: 0,
        seed: 1,
        speed: 0,
        rateWindow: "sliding",
        faults: { listOrder, listTies, timestampGranularity: granularity },
      });
      onTestFinished(() => sandbox.close());
      const pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
      onTestFinished(() => pool.end());
      const { steer } = speakTo(sandbox);
      await steer("POST", "/seed", { orders: ORDERS, since: formatInstant(sandbox.now() - 10n ** 12n) });
      const startedAt = await touchAll(pool, { sandbox, granularity });
      await addSource(pool, "live");
      // As after a pause of ten minutes: the first live window holds all orders.
      await pool.query(
        `insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', $1, $1)`,
        [startedAt - BigInt(PAST_SECONDS + 5) * 10n ** 9n],
      );

      const poller = makePoller({
        source: { sourceId: "live" },
        client: makeProviderClient({
          baseUrl: sandbox.url,
          apiKey: LIVE,
          budget: makeBudget({ clock: systemClock }),
          clock: systemClock,
          logger: silentLogger,
        }),
        pool,
        apply: makeApply({
          events: deliveryEvents,
          pool,
          logger: silentLogger,
          modes: new Map([["live", "live"]]),
        }),
        clock: systemClock,
        logger: silentLogger,
        intervalSeconds: 10,
        settleSeconds: 2,
        overlapSeconds: 5,
        backfillSince: "PT1H",
        pace: "cycle",
        holder: "test",
      });
      onTestFinished(() => poller.close());
      poller.start();
      const changing = new AbortController();
      const changes = keepChanging(pool, { sandbox, granularity, signal: changing.signal });
      onTestFinished(() => changing.abort());

      await until(pool, "polled_through", startedAt);
      // Those that did not change meanwhile; the others are in a later window.
      expect(await readDifferences(pool, startedAt)).toEqual([]);
      await systemClock.sleep(6_000);
      changing.abort();
      await expect(changes).resolves.toBeGreaterThan(UPDATES_PER_SECOND * 15);
      await until(pool, "polled_through", sandbox.now());
      expect(await readDifferences(pool, sandbox.now())).toEqual([]);
      await until(pool, "safe_through", startedAt);
      const { counts, requests } = await steer("GET", "/requests");
      // An order that no list by a bound shows is read by itself, to learn whether the bound is exclusive.
      const answers = Object.keys(counts as object).filter((answer) => answer !== "getOrder 200");
      expect(answers.toSorted()).toEqual(["listBranches 200", "listOrders 200"]);
      expect(mostInTenSeconds(requests)).toBeLessThanOrEqual(20);
    },
  );
});

/** Spreads the last changes over the past, 300 of them in one instant. Returns the end of that past. */
async function touchAll(pool: Pool, world: { sandbox: Sandbox; granularity: Granularity }): Promise<bigint> {
  const now = floorTo(world.sandbox.now(), 10n ** 9n);
  const since = now - BigInt(PAST_SECONDS) * 10n ** 9n;
  await pool.query(
    `update sandbox.orders set updated_at =
       case when nth between 2000 and 2000 + $4 - 1 then $1::bigint + 77 * 1000000000::bigint
       else ($1::bigint + (nth * $2::bigint) / $5) / $3::bigint * $3::bigint end
     from (select number, row_number() over (order by md5(number::text)) as nth from sandbox.orders) as shuffled
     where shuffled.number = orders.number`,
    [since, now - since, GRANULES[world.granularity], TIED, ORDERS + 1],
  );
  return now;
}

/** Changes an order every fiftieth of a second, until told to stop; resolves with how many changes there were. */
async function keepChanging(
  pool: Pool,
  { sandbox, granularity, signal }: { sandbox: Sandbox; granularity: Granularity; signal: AbortSignal },
): Promise<number> {
  const startedMs = performance.now();
  let changes = 0;
  while (!signal.aborted) {
    const due = Math.floor(((performance.now() - startedMs) / 1_000) * UPDATES_PER_SECOND);
    for (; changes < due; changes += 1) {
      const updatedAt = floorTo(sandbox.now(), GRANULES[granularity]);
      await pool.query(
        `update sandbox.orders set updated_at = $1
         where number = (select number from sandbox.orders order by md5(number::text || $2) limit 1)`,
        [updatedAt, changes],
      );
    }
    await systemClock.sleep(20, signal).catch(() => undefined);
  }
  return changes;
}

async function until(pool: Pool, column: "polled_through" | "safe_through", instant: bigint): Promise<void> {
  await vi.waitUntil(
    async () => {
      const { rows } = await pool.query<Record<string, string | null>>(
        "select polled_through, safe_through from mirror.poll_state",
      );
      return BigInt(rows[0]?.[column] ?? 0) >= instant;
    },
    { timeout: 150_000, interval: 200 },
  );
}

/** Orders whose last change, before an instant, the mirror lacks; with both versions. */
async function readDifferences(pool: Pool, before: bigint): Promise<unknown[]> {
  const { rows } = await pool.query(
    `select reference, truth.updated_at, mirrored.version
     from sandbox.orders truth full join mirror.orders mirrored using (reference)
     where truth.updated_at is distinct from mirrored.version and truth.updated_at < $1`,
    [before],
  );
  return rows;
}

function mostInTenSeconds(requests: readonly { endpoint: string; at: string }[]): number {
  const times = requests
    .filter(({ endpoint }) => endpoint === "listOrders")
    .map(({ at }) => Date.parse(at))
    .toSorted((left, right) => left - right);
  return Math.max(
    ...times.map((from) => times.filter((time) => time >= from && time < from + 10_000).length),
  );
}
