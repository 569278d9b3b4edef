import { beforeEach, expect, it } from "vitest";
import { acquireLease } from "../../../../src/database/leases.sql.ts";
import { COUNT_MAX } from "../../../../src/health/conditions/condition.ts";
import { readStandings } from "../../../../src/health/conditions/standing.ts";
import { endCycle, noteUnserved } from "../../../../src/poll/pollState.sql.ts";
import { setPaused } from "../../../../src/sources/sources.sql.ts";
import { openLiveMirror } from "../../../support/mirror/liveMirror.ts";
import { addSource } from "../../../support/mirror/orders.ts";
import { emptying } from "../../../support/mirror/tables.ts";

const { pool } = await openLiveMirror({ max: 2 });
await addSource(pool, "test", "test");
const lease = (await acquireLease(pool, { name: "poll:live", holder: "host:1", ttlMs: 600_000 }))!;
beforeEach(async () => {
  await pool.query(emptying("poll_state coverage quarantine pending refetches"));
});

const readLive = async () => (await readStandings(pool, "live"))[0]!;
const fail = (trouble: "away" | "slow" = "away") =>
  endCycle(pool, lease, { sourceId: "live", failure: { sentence: "GET /v1/orders failed", trouble } });

it("a poll that fails has failed since the first of consecutive failures, across a restart, until one succeeds", async () => {
  await fail("slow");
  const { failingSince, lastCycleEndedAt } = await readLive();
  expect(failingSince).toBe(lastCycleEndedAt);
  await fail("away");
  await endCycle(pool, lease, { sourceId: "live", failure: "cut_short" });
  const later = await readLive();
  expect(later).toMatchObject({ failingSince, trouble: "away", lastError: "GET /v1/orders failed" });
  expect(later.lastCycleEndedAt).toBeGreaterThan(lastCycleEndedAt!);
  await endCycle(pool, lease, { sourceId: "live", failure: null });
  expect(await readLive()).toMatchObject({ failingSince: null, trouble: null, lastError: null });
});

it("the clocks differ since the first of consecutive cycles, until one ends in which they agree", async () => {
  const end = async (clockErrorSeconds: number | null) => {
    await endCycle(pool, lease, { sourceId: "live", failure: null, clockErrorSeconds });
    return (await readLive()).clockWrongSince;
  };
  const since = await end(100);
  expect(since).not.toBeNull();
  expect(await end(200)).toBe(since);
  expect(await end(null)).toBeNull();
});

it("names windows that the list cannot serve as one period if they touch, since the first of them", async () => {
  await endCycle(pool, lease, { sourceId: "live", failure: null });
  const note = async (since: bigint, until: bigint) => {
    await noteUnserved(pool, lease, { sourceId: "live", window: { since, until }, error: "500" });
    const { unservedSince, unservedUntil, unservedAt } = await readLive();
    return { period: [unservedSince, unservedUntil], at: unservedAt };
  };
  const { period, at } = await note(10n, 20n);
  expect(period).toEqual([10n, 20n]);
  expect(await note(5n, 10n)).toEqual({ period: [5n, 20n], at });
  expect(await note(20n, 30n)).toEqual({ period: [5n, 30n], at });
  const apart = await note(31n, 40n);
  expect(apart.period).toEqual([31n, 40n]);
  expect(apart.at).toBeGreaterThan(at!);
  // What the list has served since is over, and begins anew.
  await pool.query(`insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
    values ('live', 31, 40, 'proof', true, 0, 1, 1)`);
  const again = await note(39n, 45n);
  expect(again.period).toEqual([39n, 45n]);
  expect(again.at).toBeGreaterThan(apart.at!);
});

it("counts each source's separately, however many another one has", async () => {
  await pool.query(`insert into mirror.quarantine (source_id, via, reason)
      select case when n > 100005 then 'test' else 'live' end, 'webhook', 'not_json' from generate_series(1, 100012) n`);
  await pool.query(`insert into mirror.pending (seq, source_id)
      select n, case when n > 100005 then 'test' else 'live' end from generate_series(1, 100012) n`);
  await pool.query(`insert into mirror.refetches (source_id, reference, reason)
      select case when n > 100005 then 'test' else 'live' end, n::text, 'x' from generate_series(1, 100012) n`);
  const counts = (await readStandings(pool)).map(({ sourceId, quarantined, pending, refetches }) => {
    return { sourceId, quarantined, pending, refetches };
  });
  expect(counts).toEqual([
    { sourceId: "live", quarantined: COUNT_MAX + 1, pending: COUNT_MAX + 5, refetches: COUNT_MAX + 1 },
    { sourceId: "test", quarantined: 7, pending: 7, refetches: 7 },
  ]);
});

it("shows who leads, or since when nobody has", async () => {
  const [live, test] = await readStandings(pool);
  expect(live).toMatchObject({ leader: "host:1", leaderlessSince: null });
  expect(test).toMatchObject({ leader: null, leaderlessSince: test!.createdAt });
  // That nobody leads in a pause is no outage.
  for (const paused of [true, false]) await setPaused(pool, { sourceId: "test", paused });
  const [, resumed] = await readStandings(pool);
  expect(resumed!.leaderlessSince).toBeGreaterThan(test!.createdAt);
  expect(resumed).toMatchObject({ pausedAt: null, leaderlessSince: resumed!.resumedAt });
});
