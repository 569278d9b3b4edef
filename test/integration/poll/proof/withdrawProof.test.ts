import fc from "fast-check";
import { beforeEach, expect, it } from "vitest";
import { acquireLease, type Lease } from "../../../../src/database/leases.sql.ts";
import { gaps, merge, safeThrough } from "../../../support/virtual/windows.ts";
import type { Window } from "../../../../src/domain/window/window.ts";
import { readBreaches, makeRead, readPollState, emptying } from "../../../support/mirror/tables.ts";
import { commitHead, recordWalked } from "../../../../src/poll/coverage.sql.ts";
import { beginPolling } from "../../../../src/poll/pollState.sql.ts";
import { completeRefetch, takeRefetches } from "../../../../src/poll/refetches.sql.ts";
import { formatInstant } from "../../../../src/domain/order/instant.ts";
import { beside } from "../../../support/servers/database.ts";
import { openLiveMirror } from "../../../support/mirror/liveMirror.ts";
import { secondsAgo } from "../../../support/providers/memoryProvider.ts";

const SECOND = 1_000_000_000n;
const { pool, show, tell, read } = await openLiveMirror({ statementTimeoutMs: 10_000 });
let lease: Lease;

beforeEach(async () => {
  await pool.query(emptying("orders history changes refetches inbox quarantine"));
  await begin(0);
});

/** A source without a proof, with a history from that second on. */
async function begin(historySecond: number): Promise<void> {
  await pool.query(emptying("leases poll_state coverage coverage_breaches", { restartsIdentity: true }));
  lease = (await acquireLease(pool, { name: "poll:live", holder: "a", ttlMs: 60_000 }))!;
  const historySince = BigInt(historySecond) * SECOND;
  await beginPolling(pool, lease, { sourceId: "live", historySince, polledThrough: historySince });
}

const seconds = (since: number, until: number): Window => ({
  since: BigInt(since) * SECOND,
  until: BigInt(until) * SECOND,
});
/** An order of that second. */
const at = (reference: string, second: number) => ({
  reference,
  updatedAt: formatInstant(BigInt(second) * SECOND),
});
const walk = (window: Window, listed: readonly string[] = []) =>
  recordWalked(pool, lease, { sourceId: "live", sweep: "proof", read: makeRead(window, { listed }) });
const head = () =>
  commitHead(pool, lease, { sourceId: "live", since: -1n, cursor: 0n, orders: 0, closes: 2n ** 62n });
const commit = async (window: Window, listed: readonly string[] = []) => {
  await walk(window, listed);
  return head();
};
const WITHDRAW =
  "select mirror.withdraw_proof('live', $1, 'missed_change', 'R1', 'poll', 'a test') as withdrawn";
const withdraw = async (version: bigint) =>
  (await read<{ withdrawn: boolean }>(WITHDRAW, [version]))[0]!.withdrawn;
const readSafe = async () => (await readPollState(pool, "live"))?.safeThrough;
const readProved = async () => {
  const proved = await read<{ since: string; until: string }>("select since, until from mirror.proved");
  return merge(proved.map(({ since, until }) => ({ since: BigInt(since), until: BigInt(until) })));
};

it("withdraws exactly the windows that contain the change, until they are read again", async () => {
  const window = fc
    .tuple(fc.integer({ min: 5, max: 50 }), fc.integer({ min: 1, max: 15 }))
    .map(([since, length]) => seconds(since, since + length));
  const evidence = fc.tuple(fc.integer({ min: 0, max: 70 }), fc.bigInt({ min: 0n, max: SECOND - 1n }));
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 30 }),
      fc.array(window, { maxLength: 6 }),
      evidence,
      async (historySecond, windows, [second, nanos]) => {
        await begin(historySecond);
        for (const each of windows) await commit(each);
        const version = BigInt(second) * SECOND + nanos;
        // What joins the history extends it.
        const history = (await readPollState(pool, "live"))!.historySince;
        const [before, safeBefore] = [await readProved(), await readSafe()];
        const claimed = windows.filter(({ since, until }) => since <= version && version < until);
        const wasProved = claimed.length > 0;
        expect(await withdraw(version)).toBe(wasProved);
        // An empty span, which removes nothing, when there was no claim.
        const withdrawn = {
          since: claimed.reduce((least, { since }) => (since < least ? since : least), version),
          until: claimed.reduce((most, { until }) => (until > most ? until : most), version),
        };
        const left = before.flatMap((each) => gaps(each, [withdrawn]));
        expect(await readProved()).toEqual(merge(left));
        expect((await readSafe()) ?? history).toBe(safeThrough(history, left));
        if (!wasProved) return;
        const [breach] = await readBreaches(pool, { sourceId: "live", after: 0n, limit: 1 });
        expect(breach).toMatchObject({ ...withdrawn, version, reprovedAt: null });
        expect(await withdraw(version)).toBe(false);
        await commit(withdrawn);
        expect(await readProved()).toEqual(before);
        expect((await readSafe()) ?? history).toBe(safeBefore ?? history);
        const [reproved] = await readBreaches(pool, { sourceId: "live", after: 0n, limit: 1 });
        expect(reproved!.reprovedAt).not.toBeNull();
      },
    ),
    { numRuns: 120, seed: 20_261_122 },
  );
});

it("takes back a walk that no head sweep has closed yet, too: its pages may have missed the same", async () => {
  await commit(seconds(0, 10));
  await walk(seconds(5, 20));
  await walk(seconds(20, 30));
  expect(await withdraw(7n * SECOND)).toBe(true);
  await head();
  expect(await readProved()).toEqual([seconds(20, 30)]);
});

it("withdraws the second around a change whose windows were removed", async () => {
  await commit(seconds(0, 40));
  await pool.query("delete from mirror.coverage");
  expect(await withdraw(20n * SECOND + 7n)).toBe(true);
  expect(await readSafe()).toBe(20n * SECOND);
  expect(await readProved()).toEqual([seconds(0, 20), seconds(21, 40)]);
  // Again only that second of the remaining proof.
  expect(await withdraw(30n * SECOND)).toBe(true);
  expect(await readProved()).toEqual([seconds(0, 20), seconds(21, 30), seconds(31, 40)]);
});

it("is not undone by a concurrent commit of a window", async () => {
  await commit(seconds(0, 10));
  await walk(seconds(10, 20));
  const late = await beside(pool, (finder) => finder.query(WITHDRAW, [5n * SECOND]), head);
  expect(late.safeThrough).toBe(0n);
  expect(await readProved()).toEqual([seconds(10, 20)]);
});

it("asks for a read of a late event also where the mirror had a version ahead of its observation", async () => {
  await commit(seconds(0, 60));
  const order = (second: number) => at("BACK", second);
  await show(45n * SECOND, [order(10_000)], { marginSeconds: 0 });
  expect(await tell(order(50))).toMatchObject([{ verdict: "corrected" }]);
  const readAsked = () => read("select reason, claim_version::text as claim from mirror.refetches");
  expect(await readAsked()).toEqual([{ reason: "late_event", claim: String(50n * SECOND) }]);
  // What is dated ahead asks for a read, too, and leaves that claim the exception that it is.
  await tell({ reference: "BACK", updatedAt: formatInstant(secondsAgo(-120)) });
  expect(await readAsked()).toEqual([{ reason: "late_event", claim: String(50n * SECOND) }]);
});

it("withdraws no proof that was made again after the event that asks for a read", async () => {
  await commit(seconds(0, 10));
  const announce = async (reference: string, second: number) => {
    await tell(at(reference, second));
    const [refetch] = await takeRefetches(pool, { sourceId: "live", limit: 1 });
    return (shown: bigint | undefined) =>
      completeRefetch(pool, {
        sourceId: "live",
        refetch: refetch!,
        shown,
        differed: false,
        marginSeconds: 1,
      });
  };
  const end = await announce("ANNOUNCED", 5);
  // By another way.
  expect(await withdraw(5n * SECOND)).toBe(true);
  await commit(seconds(0, 10), ["ANNOUNCED"]);
  await end(5n * SECOND);
  // Nor do events that reads do not confirm.
  await (
    await announce("OLDER", 7)
  )(3n * SECOND);
  await (
    await announce("ABSENT", 8)
  )(undefined);
  expect(await readProved()).toEqual([seconds(0, 10)]);
  // The next one finds that this proof has missed it.
  await (
    await announce("NEXT", 6)
  )(6n * SECOND);
  expect(await readProved()).toEqual([]);
});

it("withdraws a proof beyond a gap, too, of a change that it had missed", async () => {
  for (const since of [0, 20]) await commit(seconds(since, since + 10));
  await tell(at("ANNOUNCED", 24));
  expect(await read("select reference, reason from mirror.refetches")).toEqual([
    { reference: "ANNOUNCED", reason: "late_event" },
  ]);
  await show(100n * SECOND, [at("FOUND", 25)], { marginSeconds: 0 });
  expect(await readBreaches(pool, { sourceId: "live", after: 0n, limit: 9 })).toMatchObject([
    { kind: "missed_change", reference: "FOUND" },
  ]);
  // Otherwise the claim would jump over what was missed as soon as the gap is read.
  await commit(seconds(10, 20));
  expect(await readSafe()).toBe(20n * SECOND);
});
