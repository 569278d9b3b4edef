import { expect, it, onTestFinished } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { makePool } from "../../../src/database/database.ts";
import { readRequest, requestNightly, requestPeriod } from "../../../src/poll/ledger/periodRequests.sql.ts";
import { ProviderError } from "../../../src/provider/errors.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { addSource, makeSnapshot, readAt } from "../../support/mirror/orders.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const HOUR = 3_600;
const hoursAgo = (hours: number) => (secondsAgo(hours * HOUR) / 10n ** 9n) * 10n ** 9n;
const OLD = hoursAgo(30);

/** A provider with orders A to F, changed an hour apart, and a mirror that differs in four ways. */
async function startWorld() {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const pool = makePool({ url: database.url, purpose: "poll", max: 6, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  await addSource(pool, "live");
  const provider = makeMemoryProvider();
  const apply = makeLiveApply(pool);
  const mirror = (reference: string, updatedAt: bigint, more: Record<string, unknown> = {}) =>
    apply.applyReads({
      sourceId: "live",
      via: "poll",
      snapshots: [makeSnapshot({ reference, updatedAt: formatInstant(updatedAt), more })],
      time: readAt(updatedAt, 1),
    });
  for (const [index, reference] of ["A", "B", "C", "D", "E"].entries()) {
    provider.put(reference, OLD + BigInt(index) * 10n ** 12n);
  }
  await mirror("A", OLD);
  await mirror("C", OLD - 10n ** 12n, { status: "created" });
  await mirror("D", OLD + 3n * 10n ** 12n, { note: "not what the provider says" });
  await mirror("E", OLD + 4n * 10n ** 12n);
  await mirror("X", OLD + 5n * 10n ** 12n);
  const startPoller = () => {
    const poller = makeLivePoller({
      client: provider,
      pool,
      intervalSeconds: 0.02,
      backfillSince: "PT1M",
      holder: "test",
    });
    onTestFinished(() => poller.close());
    poller.start();
    return poller;
  };
  const ask = (sample: number | null = null, repairs = true) =>
    requestPeriod(pool, {
      kind: "verification",
      sourceId: "live",
      since: hoursAgo(40),
      until: hoursAgo(20),
      sample,
      repairs,
    });
  const read = async (id: bigint) => (await readRequest(pool, id))!;
  const isDone = (id: bigint) => expect.poll(async () => (await read(id)).state, WAIT).toBe("done");
  return { databaseUrl: database.url, pool, provider, mirror, startPoller, ask, read, isDone };
}

it("counts and repairs missing, stale, differing and extra orders", async () => {
  const { pool, startPoller, ask, read, isDone } = await startWorld();
  startPoller();
  const first = await ask();
  await isDone(first);
  const found = await read(first);
  expect(found).toMatchObject({ orders: 5, missing: 1, stale: 1, differing: 1, extra: 1 });
  expect(found.examples.toSorted()).toEqual(["B", "C", "D", "X"]);
  const { rows } = await pool.query<{ reference: string; via: string }>(
    "select reference, via from mirror.changes where via = 'verify' order by reference",
  );
  expect(rows.map(({ reference }) => reference)).toEqual(["B", "C", "D", "X"]);
  const second = await ask();
  await isDone(second);
  expect(await read(second)).toMatchObject({ missing: 0, stale: 0, differing: 0, extra: 0 });
});

it("compares a sample of the mirror's orders one by one", async () => {
  const { provider, startPoller, ask, read, isDone } = await startWorld();
  startPoller();
  const some = await ask(2);
  await isDone(some);
  expect((await read(some)).orders).toBe(2);
  const all = await ask(100);
  await isDone(all);
  expect((await read(all)).orders).toBe(5);
  const sum = (one: { missing: number; stale: number; differing: number }) =>
    one.missing + one.stale + one.differing;
  expect(sum(await read(some)) + sum(await read(all))).toBe(2);
  expect(new Set(provider.singleReads)).toEqual(new Set(["A", "C", "D", "E", "X"]));
});

it("skips no order of a sample when orders leave the period while it is compared", async () => {
  const { provider, mirror, startPoller, ask, read, isDone } = await startWorld();
  const invented = Array.from({ length: 120 }, (_, index) => `INVENTED-${index}`);
  for (const reference of invented) await mirror(reference, OLD, { status: "delivered" });
  startPoller();
  const id = await ask(1_000);
  await isDone(id);
  expect(await read(id)).toMatchObject({ orders: 125, extra: 121 });
  expect(provider.singleReads.toSorted()).toEqual([...invented, "A", "C", "D", "E", "X"].toSorted());
});

const limited = () =>
  new ProviderError("GET /v1/orders/{reference} was refused", {
    failure: "rate_limited",
    retry: { afterMs: 1 },
  });

it("counts what a sample has repaired when the provider then refuses a read", async () => {
  const { provider, startPoller, ask, read, isDone } = await startWorld();
  let refusals = 0;
  provider.before = () => {
    if (provider.singleReads.length === 5 && (refusals += 1) === 1) throw limited();
  };
  const poller = startPoller();
  const id = await ask(100);
  await expect.poll(async () => (await read(id)).orders, WAIT).toBe(4);
  // The task would be repeated in a minute.
  await poller.close();
  startPoller();
  await isDone(id);
  expect(await read(id)).toMatchObject({ orders: 5, stale: 1, differing: 1, extra: 1, unreadable: 0 });
  expect(provider.singleReads).toHaveLength(6);
});

it.each([
  ["and repairs", true],
  ["without repairing", false],
])(
  "counts each difference of a period once, %s, when the provider refuses a read of it",
  async (_, repairs) => {
    const { provider, mirror, startPoller, ask, read, isDone } = await startWorld();
    for (const reference of ["Y", "Z"])
      await mirror(reference, OLD + 6n * 10n ** 12n, { status: "delivered" });
    let refusals = 0;
    provider.before = () => {
      if (provider.singleReads.length === 3 && (refusals += 1) === 1) throw limited();
    };
    startPoller();
    const id = await ask(null, repairs);
    await isDone(id);
    expect(await read(id)).toMatchObject({ missing: 1, stale: 1, differing: 1, extra: 3, unreadable: 0 });
  },
);

it("reports no difference for a change too recent for polling", async () => {
  const { pool, provider, startPoller, ask, read, isDone } = await startWorld();
  // E changes after it was listed, so the walk over the window no longer shows it.
  const now = secondsAgo(0);
  provider.put("E", now, { status: "picked_up" });
  startPoller();
  const id = await ask();
  await isDone(id);
  expect(await read(id)).toMatchObject({ missing: 1, stale: 1, differing: 1, extra: 1 });
  const version = async () =>
    (await pool.query<{ version: string }>("select version from mirror.orders where reference = 'E'"))
      .rows[0]!.version;
  await expect.poll(version, WAIT).toBe(String(now));
});

it("fails after repeated failures", async () => {
  const { provider, startPoller, ask, read } = await startWorld();
  provider.before = () => {
    if ((provider.reads.at(-1)?.query.since ?? 0n) > hoursAgo(15)) return;
    throw new ProviderError("the past is away", { failure: "unavailable" });
  };
  startPoller();
  const id = await ask();
  await expect.poll(async () => (await read(id)).state, { timeout: 60_000 }).toBe("failed");
  expect((await read(id)).lastError).toBe("the past is away");
});

it("requests the nightly verification once, when the last one is old", async () => {
  const { pool } = await startWorld();
  const window = { since: hoursAgo(48), until: hoursAgo(0) };
  const count = async () => {
    await requestNightly(pool, { sourceId: "live", window });
    return (await pool.query("select from mirror.period_requests where nightly")).rowCount;
  };
  expect(await count()).toBe(0);
  await pool.query("update mirror.sources set created_at = now() - interval '37 hours'");
  expect(await count()).toBe(1);
  expect(await count()).toBe(1);
  await pool.query("update mirror.period_requests set requested_at = now() - interval '37 hours'");
  expect(await count()).toBe(2);
});

it("reports the differences, and exits with 3 when there are any", async () => {
  const { databaseUrl, provider, startPoller } = await startWorld();
  provider.put("X", OLD + 5n * 10n ** 12n);
  startPoller();
  const run = (...args: string[]) => runCommand(["verify", "--to", "PT20H", ...args], { databaseUrl });
  const found = await run("--from", "PT40H");
  expect(found).toMatchObject({ code: 3, stdout: expect.stringContaining("Compared 6 orders with") });
  expect(found.stdout).toMatch(/missing +1 /);
  const clean = await run("--from", "PT40H", "--json");
  expect(clean.code).toBe(0);
  expect(JSON.parse(clean.stdout)).toMatchObject({ orders: 6, missing: 0, stale: 0, differing: 0, extra: 0 });
  expect(await run("--from", "PT40H", "--sample", "none")).toMatchObject({ code: 2, stdout: "" });
  expect(await run()).toMatchObject({ code: 2, stdout: "" });
});
