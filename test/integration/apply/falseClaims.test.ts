import { expect, it, onTestFinished } from "vitest";
import { formatInstant, type Instant } from "../../../src/domain/order/instant.ts";
import { readStandings } from "../../../src/health/conditions/standing.ts";
import { readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import { setPaused } from "../../../src/sources/sources.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const MILLI = 1_000_000n;
const MINUTE = 60_000n * MILLI;
/** Two hours old, in whole seconds. */
const OLD = (secondsAgo(7_200) / 1_000_000_000n) * 1_000_000_000n;

const PERIOD = {
  kind: "verification",
  sourceId: "live",
  since: OLD - 30n * MINUTE,
  until: OLD + 30n * MINUTE,
} as const;

/** A provider with four orders that are two hours old, and a mirror that has polled it and rests. */
async function startWorld() {
  const { pool, tell } = await openLiveMirror({ max: 6, statementTimeoutMs: 10_000, ends: onTestFinished });
  const provider = makeMemoryProvider();
  for (const reference of ["A", "B", "C", "D"]) provider.put(reference, OLD, { status: "delivered" });
  // The last known orders are read again with whatever is to be proved.
  for (const reference of ["N1", "N2", "N3"]) provider.put(reference, OLD + 40n * MINUTE);
  makeLivePoller({ client: provider, pool, intervalSeconds: 0.02, backfillSince: "PT3H" }).start();

  async function claim(reference: string, updatedAt: Instant, more: Record<string, unknown> = {}) {
    const [decision] = await tell({
      reference,
      updatedAt: formatInstant(updatedAt),
      status: "cancelled",
      more,
    });
    return decision?.verdict;
  }
  const readServed = async () =>
    (
      await pool.query<{ reference: string; status: string; version: string }>(
        "select reference, status, version from mirror.orders where gone_at is null and reference !~ '^N' order by reference",
      )
    ).rows;
  const readVerdicts = async (reference: string) =>
    (
      await pool.query<{ via: string; verdict: string }>(
        "select via, verdict from mirror.history where reference = $1 order by history_id",
        [reference],
      )
    ).rows.map(({ via, verdict }) => `${via} ${verdict}`);
  const truth = ["A", "B", "C", "D"].map((reference) => ({
    reference,
    status: "delivered",
    version: String(OLD),
  }));
  await expect.poll(readServed, WAIT).toEqual(truth);
  const isSafe = async () =>
    (await pool.query("select from mirror.poll_state where safe_through > $1::bigint", [OLD])).rowCount;
  await expect.poll(isSafe, WAIT).toBe(1);
  // As if the orders were last read while they were younger than the margin.
  await pool.query(`alter table mirror.orders disable trigger orders_only_grow;
    update mirror.orders set horizon = null;
    alter table mirror.orders enable trigger orders_only_grow`);
  // Without polls, so that a verification finds what is wrong before single reads do.
  await setPaused(pool, { sourceId: "live", paused: true });
  const readLeader = async () =>
    (await pool.query("select from mirror.leases where expires_at > clock_timestamp()")).rowCount;
  await expect.poll(readLeader, WAIT).toBe(0);
  return { pool, claim, readServed, readVerdicts, truth };
}

it("a verification removes every false claim and counts it", async () => {
  const { pool, claim, readServed, readVerdicts, truth } = await startWorld();
  expect([
    await claim("A", OLD + MILLI),
    await claim("B", OLD + 10n * MINUTE),
    await claim("C", OLD + MILLI, { customer: { firstName: "FORGED" } }),
    await claim("INVENTED", OLD + MINUTE),
  ]).toEqual(["applied", "applied", "applied", "applied"]);
  expect(await claim("D", OLD + 365n * 24n * 60n * MINUTE * 200n)).toBe("quarantined");

  const id = await requestPeriod(pool, PERIOD);
  // The single reads that the claims asked for would repair some of it while the verification reads its lists.
  await pool.query("delete from mirror.refetches");
  await setPaused(pool, { sourceId: "live", paused: false });
  await expect.poll(async () => (await readRequest(pool, id))?.state, WAIT).toBe("done");
  expect(await readRequest(pool, id)).toMatchObject({ differed: 4 });
  expect(await readServed()).toEqual(truth);
  expect(await readVerdicts("A")).toEqual(["backfill applied", "webhook applied", "verify corrected"]);
  expect(await readVerdicts("INVENTED")).toEqual(["webhook applied", "refetch gone"]);
  // Reports omit what was never true; the feed shows each correction.
  const timeline = await pool.query("select status from reporting.order_timeline where reference = 'A'");
  expect(timeline.rows).toEqual([{ status: "delivered" }]);
  const feed = await pool.query(
    "select reference, verdict from mirror.changes where verdict <> 'applied' order by reference",
  );
  const corrected = ["A", "B", "C"].map((reference) => ({ reference, verdict: "corrected" }));
  expect(feed.rows).toEqual([...corrected, { reference: "INVENTED", verdict: "gone" }]);
  // The same claims are refuted when they arrive again.
  expect(await claim("A", OLD + 2n * MILLI)).toBe("refuted");
  expect(await claim("INVENTED", OLD + MINUTE + 1n)).toBe("refuted");
});

it("a verification also counts what refetches corrected since it was requested", async () => {
  const { pool, claim, readServed, truth } = await startWorld();
  const id = await requestPeriod(pool, PERIOD);
  await claim("A", OLD + MILLI);
  await claim("INVENTED", OLD + MINUTE);
  await setPaused(pool, { sourceId: "live", paused: false });
  await expect.poll(async () => (await readRequest(pool, id))?.state, WAIT).toBe("done");
  expect(await readServed()).toEqual(truth);
  const { rows } = await pool.query("select via from mirror.changes where verdict <> 'applied'");
  expect(rows).toContainEqual({ via: "refetch" });
  expect(await readRequest(pool, id)).toMatchObject({
    differed: 2,
    examples: expect.arrayContaining(["A", "INVENTED"]) as unknown,
  });
  // The condition for refuted claims reads this count.
  const [standing] = await readStandings(pool);
  expect(standing).toMatchObject({ refutedClaims: 2 });
});
