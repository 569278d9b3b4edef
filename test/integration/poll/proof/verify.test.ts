import { beforeEach, expect, it, onTestFinished } from "vitest";
import { formatInstant } from "../../../../src/domain/order/instant.ts";
import { readRequest, requestNightly, requestPeriod } from "../../../../src/poll/periodRequests.sql.ts";
import { ProviderError } from "../../../../src/provider/errors.ts";
import { runCommand } from "../../../support/programs/command.ts";
import { openPolledMirror, pollUntil } from "../../../support/mirror/livePoller.ts";
import { secondsAgo } from "../../../support/providers/memoryProvider.ts";
import { addSource } from "../../../support/mirror/orders.ts";
import { openTestDatabase } from "../../../support/servers/database.ts";
import { CLOCK_START, makeClockVirtual } from "../../../support/virtual/virtualTime.ts";

const HOUR = 3_600;
const DAY = 86_400n;
const hoursAgo = (hours: number) => (secondsAgo(hours * HOUR) / 10n ** 9n) * 10n ** 9n;
const OLD = hoursAgo(30);

const { database, pool, provider, show, read, makeSut } = await openPolledMirror({
  intervalSeconds: 0.02,
  backfillSince: "PT1M",
});

const mirror = (reference: string, updatedAt: bigint, more: Record<string, unknown> = {}) =>
  show(updatedAt, [{ reference, updatedAt: formatInstant(updatedAt), more }], { marginSeconds: 1 });
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
const ask = (from = hoursAgo(40), until = hoursAgo(20)) =>
  requestPeriod(pool, { kind: "verification", sourceId: "live", since: from, until });
/** Asks for a verification, polls until it is done, and returns it. */
async function verify(poller = makeSut()) {
  const requestId = await ask();
  await pollUntil(poller, async () => (await readRequest(pool, requestId))!.state === "done");
  return (await readRequest(pool, requestId))!;
}

it("counts and repairs orders that are missing, in an older or another state, or not at the provider", async () => {
  // No list shows what is dated ahead.
  await show(secondsAgo(60), [{ reference: "AHEAD", updatedAt: formatInstant(hoursAgo(-24)) }]);
  const poller = makeSut();
  const found = await verify(poller);
  expect(found).toMatchObject({ orders: 5, differed: 4 });
  expect(found.examples.toSorted()).toEqual(["B", "C", "D", "X"]);
  expect(provider.singleReads).toContain("AHEAD");
  const changes = await read(
    "select reference, via from mirror.changes where via in ('verify', 'refetch') and reference <> 'AHEAD' order by 1",
  );
  expect(changes.map(({ reference, via }) => `${String(reference)} ${String(via)}`)).toEqual([
    "B verify",
    "C verify",
    "D verify",
    "X refetch",
  ]);
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

it("counts each difference of a period once when the provider refuses a read of it", async () => {
  for (const reference of ["Y", "Z"]) await mirror(reference, OLD + 6n * 10n ** 12n, { status: "delivered" });
  let refusals = 0;
  provider.before = () => {
    if (provider.singleReads.length !== 3 || (refusals += 1) > 1) return;
    throw new ProviderError("was refused", { failure: "rate_limited", retry: { afterMs: 1 } });
  };
  expect(await verify()).toMatchObject({ differed: 6, unreadable: 0 });
});

it("ends a request for a time to come with its reason, and does what was requested after it", async () => {
  const future = await ask(hoursAgo(-24), hoursAgo(-48));
  await verify();
  expect(await readRequest(pool, future)).toMatchObject({
    state: "failed",
    lastError: "The period lies in the provider's future.",
  });
});

it("requests the nightly verification at night 20 hours after the last one, and at any time after 36", async () => {
  const { database: own, pool: nights } = await openTestDatabase({ ends: onTestFinished });
  await makeClockVirtual(own.pool);
  await addSource(nights, "live");
  const days = CLOCK_START / (DAY * 10n ** 9n);
  const window = { since: 0n, until: 1n };
  /** The hours of the day at which it is due so long after the last one, if a person asked for one an hour ago. */
  async function readHours(hoursSince: number): Promise<number[]> {
    const due: number[] = [];
    for (const hour of [0, 1, 4, 5, 12]) {
      await nights.query("delete from mirror.period_requests");
      await nights.query("select setval('virtual.micros', $1)", [
        ((days + 9n) * DAY + BigInt(hour * HOUR)) * 10n ** 6n,
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

it("reports the differences, and exits with 3 when there are any", async () => {
  provider.put("X", OLD + 5n * 10n ** 12n);
  makeSut().start();
  const run = (...args: string[]) =>
    runCommand(["verify", "--to", "PT20H", ...args], { databaseUrl: database.url });
  const found = await run("--from", "PT40H");
  expect(found).toMatchObject({ code: 3, stdout: expect.stringContaining("Compared 6 orders with") });
  expect(found.stdout).toMatch(/differed +3 /);
  const clean = await run("--from", "PT40H", "--json");
  expect(clean.code).toBe(0);
  expect(JSON.parse(clean.stdout)).toMatchObject({ orders: 6, differed: 0 });
  expect(await run()).toMatchObject({ code: 2, stdout: "" });
});
