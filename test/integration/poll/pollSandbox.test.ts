import { describe, expect, it } from "vitest";
import { floorTo, formatInstant } from "../../../src/domain/order/instant.ts";
import type { Pool } from "../../../src/database/database.ts";
import type { Sandbox } from "../../../src/sandbox/startSandbox.ts";
import { mostInTenSeconds, startVirtualWorld } from "../../support/virtual/virtualTime.ts";
import type { VirtualWorld } from "../../support/virtual/virtualTime.ts";

const ORDERS = 5_000;
const TIED = 300;
const UPDATES_PER_SECOND = 20;
/** How often orders change in virtual time: between any two requests, several at once. */
const STEP_MS = 250;
const PATIENCE_MS = 300_000;
/** The period before the test in which the orders last changed. */
const PAST_SECONDS = 600;
const SECOND_NANOS = 10n ** 9n;

const GRANULES = { s: 1_000_000_000n, us: 1_000n } as const;
type Granularity = keyof typeof GRANULES;

describe("5,000 orders at the sandbox that change while they are read", () => {
  it.for([
    ["ascending", "s", "stable"],
    ["descending", "s", "random"],
    ["ascending", "us", "random"],
    ["descending", "us", "stable"],
  ] as const)(
    "are all in the mirror once changes stop, listed %s, to the %s, with %s ties",
    async ([listOrder, granularity, listTies]) => {
      const world = await startVirtualWorld({
        faults: { listOrder, listTies, timestampGranularity: granularity },
      });
      const { clock, pool, sandbox, steer } = world;
      await steer("POST", "/seed", {
        orders: ORDERS,
        since: formatInstant(sandbox.now() - 1_000n * SECOND_NANOS),
      });
      const startedAt = await touchAll(world.provider, { sandbox, granularity });
      // As after a pause of ten minutes, so that the first window holds all orders.
      await pool.query(
        `insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', $1, $1)`,
        [startedAt - BigInt(PAST_SECONDS + 5) * SECOND_NANOS],
      );
      world.startPoller("test", {
        intervalSeconds: 10,
        marginSeconds: 5,
        backfillSince: "PT1H",
      });

      let changes = 0;
      const whileChanging = async () => {
        await clock.runUntil(clock.monotonicMs() + STEP_MS);
        changes += await changeSome(world, { granularity, before: changes });
      };
      const atRest = () => clock.runUntil(clock.monotonicMs() + STEP_MS);
      await until(world, { column: "polled_through", instant: startedAt, step: whileChanging });
      // Orders that did not change meanwhile; the others are in a later window.
      expect(await world.differences(startedAt)).toEqual([]);
      for (let waitedMs = 0; waitedMs < 6_000; waitedMs += STEP_MS) await whileChanging();
      expect(changes).toBeGreaterThan(UPDATES_PER_SECOND * 15);
      await until(world, { column: "polled_through", instant: sandbox.now(), step: atRest });
      expect(await world.differences(sandbox.now())).toEqual([]);
      expect((await pool.query("select from mirror.orders")).rowCount).toBe(ORDERS);
      await until(world, { column: "safe_through", instant: startedAt, step: atRest });
      const { counts } = await steer("GET", "/requests");
      // An order that no bounded list shows is refetched, to learn whether the bound is exclusive.
      const answers = Object.keys(counts as object).filter((answer) => answer !== "getOrder 200");
      expect(answers.toSorted()).toEqual(["listBranches 200", "listOrders 200"]);
      const lists = world.sent.filter(({ url }) => url.pathname === "/v1/orders").map(({ atMs }) => atMs);
      expect(mostInTenSeconds(lists)).toBeLessThanOrEqual(20);
    },
  );
});

/** Spreads the last changes over the past, 300 of them at one instant. Returns the end of that period. */
async function touchAll(
  provider: VirtualWorld["provider"],
  world: { sandbox: Sandbox; granularity: Granularity },
): Promise<bigint> {
  const now = floorTo(world.sandbox.now(), SECOND_NANOS);
  const since = now - BigInt(PAST_SECONDS) * SECOND_NANOS;
  await provider.query(
    `update sandbox.orders set updated_at =
       case when nth between 2000 and 2000 + $4 - 1 then $1::bigint + 77 * 1000000000::bigint
       else ($1::bigint + (nth * $2::bigint) / $5) / $3::bigint * $3::bigint end
     from (select number, row_number() over (order by md5(number::text)) as nth from sandbox.orders) as shuffled
     where shuffled.number = orders.number`,
    [since, now - since, GRANULES[world.granularity], TIED, ORDERS + 1],
  );
  return now;
}

/** Makes the changes of one STEP_MS, each at its own instant. Returns their number. */
async function changeSome(
  { provider, sandbox }: VirtualWorld,
  { granularity, before }: { granularity: Granularity; before: number },
): Promise<number> {
  const count = (UPDATES_PER_SECOND * STEP_MS) / 1_000;
  const instants = Array.from({ length: count }, (_, place) =>
    floorTo(sandbox.now() - BigInt((place * STEP_MS * 1e6) / count), GRANULES[granularity]),
  );
  await provider.query(
    `update sandbox.orders set updated_at = change.instant
     from (select number, row_number() over () as place
           from (select number from sandbox.orders order by md5(number::text || $1) limit $2) as few) as chosen
     join unnest($3::bigint[]) with ordinality as change (instant, place) using (place)
     where orders.number = chosen.number`,
    [before, count, instants],
  );
  return count;
}

async function until(
  { clock, pool }: VirtualWorld,
  wanted: {
    column: "polled_through" | "safe_through";
    instant: bigint;
    step: () => Promise<void>;
  },
): Promise<void> {
  for (const deadlineMs = clock.monotonicMs() + PATIENCE_MS; clock.monotonicMs() < deadlineMs;) {
    const reached = await readProgress(pool, wanted.column);
    if (reached >= wanted.instant) return;
    await wanted.step();
  }
  throw new Error(`${wanted.column} did not reach ${wanted.instant}`);
}

async function readProgress(pool: Pool, column: "polled_through" | "safe_through"): Promise<bigint> {
  const { rows } = await pool.query<Record<string, string | null>>(
    "select polled_through, safe_through from mirror.poll_state",
  );
  return BigInt(rows[0]?.[column] ?? 0);
}
