import { expect, it } from "vitest";
import { parseRange, readTrend, type Bucket } from "../../../src/ops/source/trend.sql.ts";
import { announced, lost } from "../../support/mirror/tables.ts";
import { readStandings } from "../../../src/health/conditions/standing.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const { database } = await openTestDatabase();
const run = (statement: string) => database.pool.query(statement);
const read = async (name: string): Promise<Bucket[]> => {
  const [standing] = await readStandings(database.pool, "live");
  return readTrend(database.pool, { standing: standing!, range: parseRange(name) });
};
const total = (buckets: readonly Bucket[], of: (bucket: Bucket) => number) =>
  buckets.reduce((sum, bucket) => sum + of(bucket), 0);

await addSource(database.pool, "live");
await addSource(database.pool, "test");
await run(`
    update mirror.sources set event_grace = '0', created_at = now() - interval '30 days';
    ${lost(5, "1 second")}
    ${announced(50, { upTo: 1, hoursAgo: 0 })} ${announced(45, { upTo: 5, hoursAgo: 0 })}
    ${announced(4, { outcome: "late", upTo: 60, hoursAgo: 0 })}
    ${announced(1, { outcome: "late", upTo: 2_147_483_647, hoursAgo: 0 })}
    ${announced(7, { upTo: 1, hoursAgo: 120 })}
    ${announced(1_000, { upTo: 1, hoursAgo: 0, sourceId: "test" })}`);

it.each(["24h", "7d", "30d"])("reads %s from what is counted by the hour", async (name) => {
  const buckets = await read(name);
  const { onTime, late, p50, p95 } = buckets.find((bucket) => bucket.late > 0)!;
  expect({ onTime, late, p50, p95 }).toEqual({ onTime: 95, late: 5, p50: 1, p95: 5 });
  expect(total(buckets, (bucket) => bucket.onTime)).toBe(name === "24h" ? 95 : 102);
  expect(total(buckets, ({ lost }) => lost)).toBe(5);
});

it("names what is known of each bucket: gaps, withdrawn proofs, and nothing before the history", async () => {
  const HOUR = 3_600_000_000_000n;
  const now = BigInt(Date.now()) * 1_000_000n;
  const windows = [
    [5n, 3n],
    [2n, 0n],
  ].map(
    ([since = 0n, until = 0n]) =>
      `('live', ${now - since * HOUR}, ${now - until * HOUR}, 'delayed', true, 1, 1, 0)`,
  );
  await run(`
    insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders) values ${windows.join(", ")};
    insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_ended_at)
    values ('live', ${now - 5n * HOUR}, ${now}, ${now - 3n * HOUR}, now())`);
  const kinds = (await read("24h")).map(({ coverage }) => coverage);
  expect(new Set(kinds)).toEqual(new Set(["before", "proved", "gap", "open"]));
  // The gap of an hour touches one or two hours; only the current hour is too recent.
  expect(kinds.filter((kind) => kind === "gap").length).toBeLessThanOrEqual(2);
  expect(kinds.filter((kind) => kind === "open")).toHaveLength(1);
  expect(kinds.at(-1)).toBe("open");
  await run(`
    insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
    values ('live', ${now - 4n * HOUR}, ${now - 4n * HOUR + 1n}, 'missed_change', 'R', 1, 'poll', 'The mirror did not have the order.')`);
  expect((await read("24h")).filter(({ coverage }) => coverage === "breach")).toHaveLength(1);
});
