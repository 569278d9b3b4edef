import { expect, it, onTestFinished } from "vitest";
import { applyAbsence, type AbsenceOutcome } from "../../../src/apply/absence.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { readStandings } from "../../../src/health/conditions/standing.ts";
import { missAgain } from "../../support/mirror/liveApply.ts";
import { requestGone } from "../../../src/poll/refetches.sql.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { addSource, at } from "../../support/mirror/orders.ts";

const instant = (seconds: number) => parseInstant(at(seconds));
const MARGIN = 900;

/** A mirror that knows `claimed` only from an event and `read` from a read. Both changed at second 100. */
async function makeMirror() {
  const { pool, read, tell, show } = await openLiveMirror({ ends: onTestFinished });
  const showAt = (seconds: number, ...references: string[]) => {
    const orders = references.map((reference) => ({ reference, updatedAt: at(100) }));
    return show(instant(seconds), orders, { marginSeconds: MARGIN });
  };
  await tell({ reference: "claimed", updatedAt: at(100) });
  await showAt(1_001, "read");
  const timed = (reference: string, horizonSeconds: number) => {
    const [horizon, requestedAt] = [instant(horizonSeconds), instant(horizonSeconds + MARGIN)];
    return { sourceId: "live", reference, horizon, requestedAt };
  };
  const missOnce = (reference: string, horizonSeconds: number, missedAt: bigint | null = null) => {
    const absence = { ...timed(reference, horizonSeconds), missedAt, marginSeconds: MARGIN };
    return applyAbsence(pool, { ...absence, via: "refetch" });
  };
  const miss = async (reference: string, horizonSeconds: number) =>
    (await missAgain(pool, timed(reference, horizonSeconds))).outcome;
  const readServed = async () =>
    (await read("select reference from mirror.orders where gone_at is null order by 1")).map(
      ({ reference }) => reference,
    );
  return { pool, read, tell, show, showAt, miss, missOnce, readServed };
}

it("refutes a claim whose version lies within the read's horizon, and no younger claim", async () => {
  const { pool, tell, miss, readServed } = await makeMirror();
  await tell({ reference: "claimed", updatedAt: at(100) });
  // The same event again and again is no answer of the provider's.
  await pool.query("update mirror.orders set observed_at = $1 where reference = 'claimed'", [instant(5_000)]);
  expect(await miss("claimed", 99)).toBe("claim_stands");
  expect(await readServed()).toEqual(["claimed", "read"]);
  expect(await miss("claimed", 100)).toBe("gone");
  expect(await readServed()).toEqual(["read"]);
  const readGone = async () =>
    (await pool.query("select gone_at, changed_at, revision from mirror.orders where reference = 'claimed'"))
      .rows;
  const gone = await readGone();
  // Later and earlier answers change neither since when it is gone, nor what readers see.
  expect(await miss("claimed", 101)).toBe("confirmed");
  expect(await miss("claimed", 99)).toBe("confirmed");
  expect(await readGone()).toEqual(gone);
  // Since the last answer it waits to be read again.
  const { rows: read } = await pool.query(
    "select observed_at from mirror.orders where reference = 'claimed'",
  );
  expect(read).toEqual([{ observed_at: String(instant(101 + MARGIN)) }]);
  const { rows } = await pool.query(
    "select verdict, refuted from mirror.history where reference = 'claimed' order by history_id",
  );
  expect(rows).toEqual([
    { verdict: "applied", refuted: true },
    // One claim, however often it came.
    { verdict: "duplicate", refuted: false },
    { verdict: "gone", refuted: false },
  ]);
});

it("names how far an order reaches that is dated years ahead: to the read that showed it", async () => {
  const { pool, show, miss, missOnce } = await makeMirror();
  await show(instant(1_001), [{ reference: "ahead", updatedAt: "2125-01-01T00:00:00Z" }]);
  // The answer that decides is one of after the read, not of after 2125.
  const stands = { outcome: "claim_stands", reach: instant(1_001) };
  expect(await missOnce("ahead", 1_000)).toMatchObject(stands);
  expect(await miss("ahead", 1_002)).toBe("gone");
  // Its time is wrong, and the order was there.
  const { rows } = await pool.query("select verdict, refuted from mirror.history where reference = 'ahead'");
  expect(rows).toContainEqual({ verdict: "applied", refuted: false });
});

it("takes an order back that is there after all, with no word against it or against what is proved", async () => {
  const { pool, read, tell, showAt, miss, readServed } = await makeMirror();
  await tell({ reference: "told", updatedAt: at(100) });
  for (const reference of ["claimed", "read", "told"]) expect(await miss(reference, 102)).toBe("gone");
  expect(await readStandings(pool)).toMatchObject([{ refutedClaims: 2 }]);
  await pool.query("update mirror.coverage set until = $1", [instant(1_000)]);
  await showAt(2_001, "claimed", "read");
  await tell({ reference: "told", updatedAt: at(1_001) });
  expect(await readServed()).toEqual(["claimed", "read", "told"]);
  expect(await read("select from mirror.coverage_breaches")).toEqual([]);
  expect(await read("select from mirror.history where conflict or refuted")).toEqual([]);
  expect(await readStandings(pool)).toMatchObject([{ refutedClaims: 0 }]);
});

it("takes nothing away with one answer, nor with two that an outage explains", async () => {
  const { pool, showAt, miss, missOnce, readServed } = await makeMirror();
  const first = instant(500 + MARGIN);
  const missing: AbsenceOutcome = { outcome: "missing", isKnown: true, missedAt: first, reach: null };
  expect(await missOnce("read", 500)).toEqual(missing);
  // Too early, and then with no proof since the first answer: perhaps the list shows nothing either.
  expect(await missOnce("read", 500 + MARGIN - 1, first)).toEqual(missing);
  await addSource(pool, "test", "test");
  const walk = (sourceId: string, begunAt: bigint, proved = true) =>
    pool.query(
      `insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, begun_at)
       values ($1, 0, 1, 'proof', $2, 0, 1, 1, $3)`,
      [sourceId, proved, begunAt],
    );
  await walk("live", first - 1n);
  await walk("live", first, false);
  await walk("test", first);
  expect(await missOnce("read", 500 + MARGIN, first)).toEqual(missing);
  await walk("live", first + 3_000_000_000n);
  const doubt = (age: string, sourceId = "live") =>
    pool.query(
      `insert into mirror.poll_state (source_id, list_emptied_at) values ($2, clock_timestamp() - $1::interval)
       on conflict (source_id) do update set list_emptied_at = excluded.list_emptied_at`,
      [age, sourceId],
    );
  await doubt("23 hours", "test");
  await doubt("23 hours");
  expect(await missOnce("read", 500 + MARGIN, first)).toMatchObject({ outcome: "list_in_doubt" });
  await doubt("25 hours");
  // A list has shown the order after the first answer.
  await showAt(500 + MARGIN + 1, "read");
  expect(await missOnce("read", 501 + MARGIN, first)).toMatchObject({ outcome: "missing" });
  expect(await readServed()).toEqual(["claimed", "read"]);
  expect(await missOnce("read", 502 + 2 * MARGIN, first + 2_000_000_000n)).toMatchObject({ outcome: "gone" });
  expect(await readServed()).toEqual(["claimed"]);
  // The same of an order that the mirror never had.
  expect(await missOnce("never seen", 500)).toMatchObject({ outcome: "missing", isKnown: false });
  expect(await miss("never seen", 500)).toBe("unknown");
});

it("asks again for orders that are gone after waits that grow from a margin to a day, for a week", async () => {
  const { pool, read, showAt } = await makeMirror();
  /** By name: how long it has been gone, and how long ago it was last read. */
  const gone = {
    "margin not over": ["59 s", "59 s"],
    "margin over": ["61 s", "61 s"],
    "wait as long as before, not over": ["10 min", "5 min"],
    "wait as long as before, over": ["10 min", "6 min"],
    "day not over": ["6 days", "23 h"],
    "day over": ["6 days", "25 h"],
    "week over": ["7 days 1 min", "2 days"],
  };
  await showAt(1_001, ...Object.keys(gone));
  for (const [reference, [since, lastRead]] of Object.entries(gone))
    await pool.query(`set local session_replication_role = replica;
      update mirror.orders set gone_at = clock_timestamp() - interval '${since}',
        observed_at = mirror.nanos_of(clock_timestamp() - interval '${lastRead}') where reference = '${reference}'`);
  await requestGone(pool, { sourceId: "live", marginSeconds: 60 });
  const asked = ["day over", "margin over", "wait as long as before, over"];
  expect(await read("select reference from mirror.refetches order by 1")).toEqual(
    asked.map((reference) => ({ reference })),
  );
});
