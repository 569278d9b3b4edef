import fc from "fast-check";
import { expect, it } from "vitest";
import { instantFromMillis } from "../../../../src/domain/order/instant.ts";
import type { Window } from "../../../../src/domain/window/window.ts";
import { commitHead, readGaps, recordWalked } from "../../../../src/poll/coverage.sql.ts";
import { acquireLease, type Lease } from "../../../../src/database/leases.sql.ts";
import { readStandings } from "../../../../src/health/conditions/standing.ts";
import { beginPolling } from "../../../../src/poll/pollState.sql.ts";
import { makeRead, readPollState, emptying } from "../../../support/mirror/tables.ts";
import { openTestDatabase } from "../../../support/servers/database.ts";
import { addSource } from "../../../support/mirror/orders.ts";
import { removeOlder } from "../../../support/mirror/retention.ts";

/** Both get the same windows, but only those of `thinned` become old enough to be removed. */
const SOURCES = ["whole", "thinned"] as const;
const HOUR = 3_600_000_000_000n;

const { pool } = await openTestDatabase({ statementTimeoutMs: 20_000 });
for (const sourceId of SOURCES) await addSource(pool, sourceId);
let lease: Lease;
/** Ten days ago in whole hours, so that the week of the figures begins in the middle. */
let start: bigint;

async function beginAnew(historyHour = 0): Promise<void> {
  await pool.query(emptying("leases poll_state coverage retention_walks"));
  lease = (await acquireLease(pool, { name: "poll", holder: "test", ttlMs: 600_000 }))!;
  start = instantFromMillis(Date.now()) - 240n * HOUR;
  const historySince = at(historyHour);
  for (const sourceId of SOURCES)
    await beginPolling(pool, lease, { sourceId, historySince, polledThrough: historySince });
}
const at = (hour: number): bigint => start + BigInt(hour) * HOUR;

async function commit(since: number, until: number, proved = true): Promise<void> {
  const read = makeRead({ since: at(since), until: at(until) });
  for (const sourceId of SOURCES) {
    await recordWalked(pool, lease, { sourceId, sweep: "proof", read });
    // As a breach leaves it.
    if (!proved) await pool.query("update mirror.coverage set awaits_head = false where awaits_head");
    await commitHead(pool, lease, {
      sourceId,
      since: at(-10_000),
      cursor: at(until),
      orders: 0,
      closes: 2n ** 62n,
    });
  }
}

/** Commits [since, until) in parts, the newest first, as a requested period is read. */
async function backfill(since: number, until: number, parts: number): Promise<void> {
  const length = (until - since) / parts;
  for (let part = parts - 1; part >= 0; part -= 1) {
    await commit(since + part * length, since + (part + 1) * length);
    await thin();
  }
}

/** Makes all windows old, removes them, and restores those of `whole`. Returns how many rows of `thinned` were removed. */
async function thin(limit = 1_000): Promise<number> {
  const before = await countRows();
  await pool.query(`update mirror.coverage set ended_at = ended_at - interval '10 days';
    drop table if exists public.kept; create table public.kept as select * from mirror.coverage where source_id = 'whole'`);
  await removeRead(limit);
  await pool.query(
    "insert into mirror.coverage overriding system value select * from public.kept on conflict do nothing",
  );
  return before - (await countRows());
}

async function removeRead(limit = 1_000): Promise<number> {
  return (await removeOlder(pool, { stepRows: limit })).removed;
}

const countRows = async () =>
  (await pool.query("select from mirror.coverage where source_id = 'thinned'")).rowCount!;

/** Everything that can be read about each source from the windows, at the same instant. */
async function readAll() {
  const day = { since: at(216), until: at(240) };
  const withins: Window[] = [day, { since: at(-100), until: at(300) }, { since: at(30), until: at(90) }];
  const standings = await readStandings(pool);
  const { rows: reported } = await pool.query<{ source_id: string; since: Date; until: Date }>(
    "select source_id, since, until from reporting.coverage_gaps order by since",
  );
  return Promise.all(
    SOURCES.map(async (sourceId) => {
      const standing = standings.find((row) => row.sourceId === sourceId);
      const state = await readPollState(pool, sourceId);
      const gaps = withins.map((within) => readGaps(pool, { sourceId, within, limit: 100 }));
      return {
        progress: [state?.historySince, state?.safeThrough, standing?.provedUntil],
        figures: [standing?.gaps, standing?.oldestGap],
        reported: reported
          .filter((row) => row.source_id === sourceId)
          .map(({ since, until }) => [since, until]),
        gaps: await Promise.all(gaps),
      };
    }),
  );
}

it("removes old windows in steps, and keeps recent ones", async () => {
  await beginAnew();
  for (let hour = 0; hour < 9; hour += 1) await commit(hour, hour + 1);
  await commit(20, 25, false);
  await pool.query("delete from mirror.coverage where source_id = 'whole'");
  expect(await removeRead()).toBe(0);
  expect(await thin(4)).toBe(10);
  expect(await countRows()).toBe(0);
});

it("changes nothing by their removal, whatever was read in any sequence", async () => {
  const hours = fc.tuple(fc.integer({ min: -10, max: 60 }), fc.integer({ min: 1, max: 20 }));
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ hours, proved: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ hours, parts: fc.integer({ min: 1, max: 3 }) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 0, max: 40 }),
      async (steps, historyHour) => {
        await beginAnew(historyHour * 4);
        for (const one of steps) {
          const [since, length] = one.hours;
          if ("parts" in one) await backfill(since * 4, (since + length * one.parts) * 4, one.parts);
          else await commit(since * 4, (since + length) * 4, one.proved);
          await thin();
          const [whole, thinned] = await readAll();
          expect(thinned).toEqual(whole);
        }
      },
    ),
    { numRuns: 30, seed: 20_261_121 },
  );
});
