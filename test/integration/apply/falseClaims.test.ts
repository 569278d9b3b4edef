import { expect, it, onTestFinished } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import { readStandings } from "../../../src/health/standing.sql.ts";
import { readRequest, requestPeriod } from "../../../src/poll/periodRequests.sql.ts";
import { setPaused } from "../../../src/sources/sources.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const MILLI = 1_000_000n;
const MINUTE = 60_000n * MILLI;
/** Two hours old, in whole seconds. */
const OLD = (secondsAgo(7_200) / 1_000_000_000n) * 1_000_000_000n;

/** Makes the orders look as if they were last read while they were younger than the margin. */
async function forgetHorizons(pool: Pool): Promise<void> {
  await pool.query(`alter table mirror.orders disable trigger orders_only_grow;
    update mirror.orders set horizon = null;
    alter table mirror.orders enable trigger orders_only_grow`);
}

/** Pauses polling, so that a verification finds what is wrong before single reads do. */
async function rest(pool: Pool): Promise<void> {
  await setPaused(pool, { sourceId: "live", paused: true });
  const readLeader = async () =>
    (await pool.query("select from mirror.leases where expires_at > clock_timestamp()")).rowCount;
  await expect.poll(readLeader, WAIT).toBe(0);
}

/** A provider with four orders that are two hours old, and a mirror that polls it. */
async function startWorld({ marginSeconds = 3 }: { marginSeconds?: number } = {}) {
  const { pool, apply } = await openLiveMirror({ max: 6, statementTimeoutMs: 10_000, ends: onTestFinished });
  const provider = makeMemoryProvider();
  for (const reference of ["A", "B", "C", "D"]) provider.put(reference, OLD, { status: "delivered" });
  // The last known orders are read again with whatever is to be proved.
  for (const reference of ["N1", "N2", "N3"]) provider.put(reference, OLD + 40n * MINUTE);
  const poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.02,
    marginSeconds,
    backfillSince: "PT3H",
    holder: "test",
  });
  onTestFinished(() => poller.close());
  poller.start();

  let events = 0;
  async function claim(reference: string, updatedAt: Instant, more: Record<string, unknown> = {}) {
    const id = `evt_${(events += 1)}`;
    const order = { reference, updatedAt: formatInstant(updatedAt), status: "cancelled", more };
    const [decision] = await apply.applyEvents(
      await putIntoInbox(pool, [{ eventId: id, body: makeEventBody({ id, order }) }]),
    );
    return decision;
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
  await expect
    .poll(async () => {
      const { rows } = await pool.query<{ safe: boolean }>(
        "select safe_through > $1::bigint as safe from mirror.poll_state",
        [OLD],
      );
      return rows[0]?.safe;
    }, WAIT)
    .toBe(true);
  return { pool, provider, apply, claim, readServed, readVerdicts, truth };
}

it("a verification removes every false claim and counts it", async () => {
  const { pool, claim, readServed, readVerdicts, truth } = await startWorld();
  await forgetHorizons(pool);
  await rest(pool);
  expect(await claim("A", OLD + MILLI)).toMatchObject({ verdict: "applied" });
  expect(await claim("B", OLD + 10n * MINUTE)).toMatchObject({ verdict: "applied" });
  expect(await claim("C", OLD + MILLI, { customer: { firstName: "FORGED" } })).toMatchObject({
    verdict: "applied",
  });
  expect(await claim("D", OLD + 365n * 24n * 60n * MINUTE * 200n)).toMatchObject({
    verdict: "quarantined",
    reason: "dated_ahead",
  });
  expect(await claim("INVENTED", OLD + MINUTE)).toMatchObject({ verdict: "applied" });

  const period = { since: OLD - 30n * MINUTE, until: OLD + 30n * MINUTE };
  const id = await requestPeriod(pool, { kind: "verification", sourceId: "live", ...period });
  // The single reads that the claims asked for would repair some of it while the verification reads its lists.
  await pool.query("delete from mirror.refetches");
  await setPaused(pool, { sourceId: "live", paused: false });
  await expect.poll(async () => (await readRequest(pool, id))?.state, WAIT).toBe("done");
  expect(await readRequest(pool, id)).toMatchObject({
    contradicted: 3,
    extra: 1,
    stale: 0,
    differing: 0,
  });
  expect(await readServed()).toEqual(truth);
  expect(await readVerdicts("A")).toEqual(["backfill applied", "webhook applied", "verify corrected"]);
  expect(await readVerdicts("INVENTED")).toEqual(["webhook applied", "refetch gone"]);
  // Reports omit what was never true; the feed shows each correction.
  const timeline = await pool.query("select status from reporting.order_timeline where reference = 'A'");
  expect(timeline.rows).toEqual([{ status: "delivered" }]);
  const feed = await pool.query(
    "select reference, verdict from mirror.changes where verdict <> 'applied' order by reference",
  );
  expect(feed.rows).toEqual([
    { reference: "A", verdict: "corrected" },
    { reference: "B", verdict: "corrected" },
    { reference: "C", verdict: "corrected" },
    { reference: "INVENTED", verdict: "gone" },
  ]);
  // The same claims are refuted when they arrive again.
  expect(await claim("A", OLD + 2n * MILLI)).toMatchObject({ verdict: "refuted" });
  expect(await claim("INVENTED", OLD + MINUTE + 1n)).toMatchObject({ verdict: "refuted" });
});

it("a verification also counts what refetches corrected since it was requested", async () => {
  const { pool, claim, readServed, truth } = await startWorld();
  await forgetHorizons(pool);
  await rest(pool);
  const period = { since: OLD - 30n * MINUTE, until: OLD + 30n * MINUTE };
  const id = await requestPeriod(pool, { kind: "verification", sourceId: "live", ...period });
  await claim("A", OLD + MILLI);
  await claim("INVENTED", OLD + MINUTE);
  await setPaused(pool, { sourceId: "live", paused: false });
  await expect.poll(async () => (await readRequest(pool, id))?.state, WAIT).toBe("done");
  expect(await readServed()).toEqual(truth);
  const { rows } = await pool.query("select via from mirror.changes where verdict <> 'applied'");
  expect(rows).toContainEqual({ via: "refetch" });
  expect(await readRequest(pool, id)).toMatchObject({
    contradicted: 1,
    extra: 1,
    examples: expect.arrayContaining(["A", "INVENTED"]) as unknown,
  });
  // The condition for refuted claims reads this count.
  const [standing] = await readStandings(pool);
  expect(standing).toMatchObject({ refutedClaims: 2 });
});

it("a young false claim is refetched until a read can refute it, and is then corrected", async () => {
  const { claim, readServed, readVerdicts, truth } = await startWorld({ marginSeconds: 8 });
  expect(await claim("A", secondsAgo(1))).toMatchObject({ verdict: "applied" });
  expect(await claim("INVENTED", secondsAgo(1))).toMatchObject({ verdict: "applied" });
  await expect.poll(readServed, WAIT).toEqual(truth);
  expect((await readVerdicts("A")).at(-1)).toMatch(/^(refetch|poll) corrected$/);
  expect((await readVerdicts("INVENTED")).at(-1)).toBe("refetch gone");
});

it("a true event stands when the list shows it late", async () => {
  const { pool, provider, claim, readServed, readVerdicts } = await startWorld({ marginSeconds: 8 });
  const changedAt = secondsAgo(1);
  await claim("A", changedAt);
  const shownAt = Date.now() + 4_000;
  provider.before = () => {
    if (Date.now() > shownAt) provider.put("A", changedAt, { status: "cancelled" });
  };
  const readVerified = async () =>
    (
      await pool.query<{ verified: boolean }>(
        "select horizon is not null as verified from mirror.orders where reference = 'A' and version = $1::bigint",
        [changedAt],
      )
    ).rows[0]?.verified;
  await expect.poll(readVerified, WAIT).toBe(true);
  expect((await readServed()).find(({ reference }) => reference === "A")).toMatchObject({
    status: "cancelled",
  });
  expect(await readVerdicts("A")).not.toContain("refetch corrected");
});

it("an order that reappears is served again", async () => {
  const { pool, provider, claim, readServed, truth } = await startWorld();
  await claim("INVENTED", secondsAgo(5));
  await expect.poll(readServed, WAIT).toEqual(truth);
  const { rows } = await pool.query("select reference from mirror.orders where gone_at is not null");
  expect(rows).toEqual([{ reference: "INVENTED" }]);
  provider.put("INVENTED", secondsAgo(0));
  await expect.poll(async () => (await readServed()).length, WAIT).toBe(5);
});
