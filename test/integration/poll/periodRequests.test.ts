import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import {
  cancelRequest,
  readRequest,
  requestNightly,
  requestPeriod,
} from "../../../src/poll/periodRequests.sql.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { openPolledMirror, pollUntil } from "../../support/mirror/livePoller.ts";
import { readPollState } from "../../support/mirror/tables.ts";
import { runCommand } from "../../support/programs/command.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { CLOCK_START, makeClockVirtual } from "../../support/virtual/virtualTime.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";

const DAY = 86_400;
const SECOND = 10n ** 9n;
const daysAgo = (days: number) => (secondsAgo(days * DAY) / SECOND) * SECOND;
const hoursAgo = (hours: number) => daysAgo(hours / 24);
const OLD = hoursAgo(30);

const world = await openPolledMirror({
  intervalSeconds: 0.02,
  marginSeconds: 1,
  backfillSince: "PT1M",
});
const { pool, provider, listReferences, makeSut } = world;

const ask = (since: bigint, until: bigint, kind: "backfill" | "verification" = "backfill") =>
  requestPeriod(pool, { kind, sourceId: "live", since, until });
const read = async (id: bigint) => (await readRequest(pool, id))!;
const pollUntilDone = (poller: Poller, id: bigint) =>
  pollUntil(poller, async () => (await read(id)).state === "done");
const readProgress = async () => (await readPollState(pool, "live"))!;
const pollUntilSafe = (poller: Poller) =>
  pollUntil(poller, async () => (await readProgress()).safeThrough !== null);

describe("a backfill", () => {
  it("reads the period and extends the complete history back to it", async () => {
    for (const days of [1, 5, 9.9, 10.1]) provider.put(`D${days}`, secondsAgo(days * DAY));
    const poller = makeSut();
    await pollUntilSafe(poller);
    const since = daysAgo(10);
    const id = await ask(since, daysAgo(0));
    await pollUntilDone(poller, id);
    expect(await listReferences()).toEqual(["D1", "D5", "D9.9"]);
    const { historySince, polledThrough } = await readProgress();
    expect(historySince).toBe(since);
    expect(polledThrough).toBeGreaterThan(daysAgo(0.01));
    expect(await read(id)).toMatchObject({ orders: 3, unproved: 0 });
  });

  it("joins the history of a new source, whose beginning is too recent to be proved", async () => {
    const since = daysAgo(1);
    const id = await ask(since, daysAgo(0) + 60n * SECOND);
    await pollUntilDone(makeSut({ backfillSince: "PT0S" }), id);
    expect((await readProgress()).historySince).toBe(since);
  });

  it("claims nothing across a period that was never read", async () => {
    provider.put("old", secondsAgo(9 * DAY));
    const poller = makeSut();
    await pollUntilSafe(poller);
    const before = (await readProgress()).historySince;
    await pollUntilDone(poller, await ask(daysAgo(10), daysAgo(8)));
    expect(await listReferences()).toEqual(["old"]);
    expect((await readProgress()).historySince).toBe(before);
    await pollUntilDone(poller, await ask(daysAgo(8), daysAgo(0)));
    // The two periods touch only at a whole second; the older one may begin a second earlier.
    expect((await readProgress()).historySince).toBeLessThanOrEqual(daysAgo(8));
  });

  it("continues under the next leader where the last one stopped", async () => {
    for (let day = 1; day < 15; day += 1) provider.put(`D${day}`, secondsAgo(day * DAY));
    provider.limitMax = 1;
    const first = makeSut({ intervalSeconds: 0.001 });
    const id = await ask(daysAgo(15), daysAgo(0));
    await pollUntil(first, async () => (await read(id)).orders > 3);
    await first.close();
    const stopped = await read(id);
    expect(stopped.state).toBe("running");
    const reads = provider.reads.length;
    await pollUntilDone(makeSut(), id);
    // Besides, what borders on the proved part begins at the last known orders.
    const again = provider.reads
      .slice(reads)
      .filter(({ query }) => query.until < daysAgo(4) && query.since > stopped.readDownTo + 2n * SECOND);
    expect(again).toEqual([]);
    expect(await listReferences()).toHaveLength(14);
  });

  it("stops when it is cancelled, and fails after repeated failures, behind the ones after it", async () => {
    provider.put("old", secondsAgo(5 * DAY));
    const cancelled = await ask(daysAgo(9), daysAgo(8));
    expect(await cancelRequest(pool, cancelled)).toBe(true);
    expect(await cancelRequest(pool, cancelled)).toBe(false);
    provider.before = () => {
      if (provider.reads.at(-1)!.query.since > daysAgo(2)) return;
      throw new ProviderError("the past is away", { failure: "unavailable" });
    };
    const failing = await ask(daysAgo(9), daysAgo(2.5));
    const next = await ask(daysAgo(1.5), daysAgo(1));
    await pollUntil(
      makeSut({ intervalSeconds: 0.005 }),
      async () => (await read(failing)).state === "failed",
    );
    expect(await read(failing)).toMatchObject({ lastError: "the past is away", orders: 0 });
    expect((await read(cancelled)).state).toBe("cancelled");
    expect(await listReferences()).toEqual([]);
    const { rows } = await pool.query<{ id: string }>(
      "select request_id as id from mirror.period_requests where state <> 'cancelled' order by ended_at",
    );
    expect(rows.map(({ id }) => BigInt(id))).toEqual([next, failing]);
  });
});

describe("a verification", () => {
  const mirror = (reference: string, updatedAt: bigint, more: Record<string, unknown> = {}) =>
    world.show(updatedAt, [{ reference, updatedAt: formatInstant(updatedAt), more }], { marginSeconds: 1 });
  /** A provider with orders A to E, changed a quarter of an hour apart, and a mirror that differs in four ways. */
  beforeEach(async () => {
    for (const [index, reference] of ["A", "B", "C", "D", "E"].entries())
      provider.put(reference, OLD + BigInt(index) * 10n ** 12n);
    await mirror("A", OLD);
    await mirror("C", OLD - 10n ** 12n, { status: "created" });
    await mirror("D", OLD + 3n * 10n ** 12n, { note: "not what the provider says" });
    await mirror("E", OLD + 4n * 10n ** 12n);
    await mirror("X", OLD + 5n * 10n ** 12n);
  });
  /** Asks for a verification of the period of OLD, polls until it is done, and returns it. */
  async function verify(poller = makeSut()) {
    const requestId = await ask(hoursAgo(40), hoursAgo(20), "verification");
    await pollUntilDone(poller, requestId);
    return read(requestId);
  }

  it("counts and repairs orders that are missing, in an older or another state, or not at the provider", async () => {
    // No list shows what is dated ahead.
    await world.show(secondsAgo(60), [{ reference: "AHEAD", updatedAt: formatInstant(hoursAgo(-24)) }]);
    const poller = makeSut();
    const found = await verify(poller);
    expect(found).toMatchObject({ orders: 5, differed: 4 });
    expect(found.examples.toSorted()).toEqual(["B", "C", "D", "X"]);
    expect(provider.singleReads).toContain("AHEAD");
    const changes = await world.read(
      "select reference, via from mirror.changes where via in ('verify', 'refetch') and reference <> 'AHEAD' order by 1",
    );
    const repaired = ["B", "C", "D"].map((reference) => ({ reference, via: "verify" }));
    expect(changes).toEqual([...repaired, { reference: "X", via: "refetch" }]);
    expect(await verify(poller)).toMatchObject({ differed: 0 });
  });

  it("says what the provider shows, also where a stored horizon does not allow the repair", async () => {
    // As if a clock that is just trusted had dated the read of another state.
    await pool.query("alter table mirror.orders disable trigger orders_only_grow");
    await pool.query(
      "update mirror.orders set version = version - 1, hash = '\\x00', horizon = $1 where reference = 'A'",
      [secondsAgo(-30)],
    );
    await pool.query("alter table mirror.orders enable trigger orders_only_grow");
    const found = await verify();
    expect(found).toMatchObject({ differed: 5, examples: expect.arrayContaining(["A"]) as unknown });
  });

  it("counts each difference of a period once when the provider refuses a read of it, and what it cannot show", async () => {
    for (const reference of ["W", "Y", "Z"])
      await mirror(reference, OLD + 6n * 10n ** 12n, { status: "delivered" });
    provider.failing.set("W", new ProviderError("not JSON", { failure: "unreadable" }));
    let refusals = 0;
    provider.before = () => {
      if (provider.singleReads.length !== 3 || (refusals += 1) > 1) return;
      throw new ProviderError("was refused", { failure: "rate_limited", retry: { afterMs: 1 } });
    };
    expect(await verify()).toMatchObject({ differed: 6, unreadable: 1 });
  });

  it("ends a request for a time to come with its reason, and does what was requested after it", async () => {
    const future = await ask(hoursAgo(-24), hoursAgo(-48), "verification");
    await verify();
    expect(await read(future)).toMatchObject({
      state: "failed",
      lastError: "The period lies in the provider's future.",
    });
  });

  it("reports the differences, and exits with 3 when there are any", async () => {
    provider.put("X", OLD + 5n * 10n ** 12n);
    makeSut().start();
    const run = (...args: string[]) =>
      runCommand(["verify", "--to", "PT20H", ...args], { databaseUrl: world.database.url });
    const found = await run("--from", "PT40H");
    expect(found).toMatchObject({ code: 3, stdout: expect.stringContaining("Compared 6 orders with") });
    expect(found.stdout).toMatch(/differed +3 /);
    const clean = await run("--from", "PT40H", "--json");
    expect(clean.code).toBe(0);
    expect(JSON.parse(clean.stdout)).toMatchObject({ orders: 6, differed: 0 });
    expect(await run()).toMatchObject({ code: 2, stdout: "" });
  });
});

it("requests the nightly verification at night 20 hours after the last one, and at any time after 36", async () => {
  const { database: own, pool: nights } = await openTestDatabase({ ends: onTestFinished });
  await makeClockVirtual(own.pool);
  await addSource(nights, "live");
  const days = CLOCK_START / (BigInt(DAY) * SECOND);
  const window = { since: 0n, until: 1n };
  /** The hours of the day at which it is due so long after the last one, if a person asked for one an hour ago. */
  async function readHours(hoursSince: number): Promise<number[]> {
    const due: number[] = [];
    for (const hour of [0, 1, 4, 5, 12]) {
      await nights.query("delete from mirror.period_requests");
      await nights.query("select setval('virtual.micros', $1)", [
        ((days + 9n) * BigInt(DAY) + BigInt(hour * 3_600)) * 10n ** 6n,
      ]);
      await nights.query(
        `insert into mirror.period_requests (source_id, kind, since, until, read_down_to, nightly, requested_at)
         select 'live', 'verification', 0, 1, 1, hours > 1, clock_timestamp() - hours * interval '1 hour'
         from unnest(array[1, $1::int]) as hours`,
        [hoursSince],
      );
      await requestNightly(nights, { sourceId: "live", window });
      if ((await nights.query("select from mirror.period_requests")).rowCount === 3) due.push(hour);
    }
    return due;
  }
  expect(await readHours(19)).toEqual([]);
  expect(await readHours(21)).toEqual([1, 4]);
  expect(await readHours(35)).toEqual([1, 4]);
  expect(await readHours(37)).toEqual([0, 1, 4, 5, 12]);
  // The first one is due so long after the source was configured.
  await nights.query("delete from mirror.period_requests where nightly");
  await nights.query("update mirror.sources set created_at = clock_timestamp() - interval '35 hours'");
  await requestNightly(nights, { sourceId: "live", window });
  expect((await nights.query("select from mirror.period_requests where nightly")).rowCount).toBe(0);
});
