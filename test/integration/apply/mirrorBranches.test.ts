import { beforeEach, expect, it } from "vitest";
import { acquireLease, LeaseLostError, releaseLease } from "../../../src/database/leases.sql.ts";
import type { Lease } from "../../../src/database/leases.sql.ts";
import { makeLeaderTasks } from "../../../src/poll/tasks/leaderTasks.ts";
import type { CycleEnd } from "../../../src/poll/ledger/pollState.sql.ts";
import { WalkStalledError } from "../../../src/poll/cycle/errors.ts";
import type { Term } from "../../../src/poll/leader/leadership.ts";
import { makeMirrorBranches } from "../../../src/poll/tasks/mirrorBranches.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";
import { insertOrder, orderText } from "../../support/mirror/mirroredOrders.ts";
import { LIVE, makeTestSandbox } from "../../support/providers/testSandbox.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });
let lease: Lease;

beforeEach(async () => {
  await pool.query(emptying("branches leases"));
  await pool.query("update mirror.sources set branch_ids = '{}'");
  const taken = await acquireLease(pool, { name: "poll:live", holder: "test", ttlMs: 60_000 });
  if (taken === undefined) throw new Error("the lease is free");
  lease = taken;
});

const { signal } = new AbortController();
const lead = () => ({ term: { lease, signal, assertLeading: () => undefined } satisfies Term, signal });
const branch = (id: string, more: Record<string, unknown> = {}) =>
  JSON.stringify({
    id,
    reference: `ref-${id}`,
    name: `Branch ${id}`,
    address: { street: "Overtoom 12", city: "Amsterdam", postcode: "1054 HN" },
    routesTo: { fleet: { name: "Northside" }, zone: { code: "Z1", name: "West" } },
    connectedZones: [{ code: "Z1", name: "West", isPrimary: true }],
    ...more,
  });
const readAll = async () =>
  (
    await pool.query<Record<string, unknown>>(
      `select branch_id, reference, name, fleet_name, zone_code, closed_at is not null as closed, raw::text
       from mirror.branches order by branch_id`,
    )
  ).rows;

/** A leader task that reads these pages of branches. */
function makeSut(pages: () => readonly { raws: readonly string[]; hasMore: boolean }[]) {
  let asked = 0;
  const provider = makeMemoryProvider();
  const listBranches = () => {
    const page = pages()[asked++] ?? { raws: [], hasMore: true };
    return Promise.resolve({ ...page, data: [], request_id: "test" });
  };
  const task = makeMirrorBranches({
    clock: systemClock,
    source: { sourceId: "live" },
    client: { ...provider, listBranches },
    pool,
    logger: silentLogger,
  });
  return { task, restart: () => (asked = 0) };
}

it("stores the branches of all pages, closes one that is no longer listed, and reopens it", async () => {
  let listed = [
    { raws: [branch("a"), branch("b", { reference: null, routesTo: null })], hasMore: true },
    { raws: [branch("c", { name: "Nul \u0000" })], hasMore: false },
  ];
  const { task, restart } = makeSut(() => listed);
  await task.run(lead());
  expect(await readAll()).toMatchObject([
    { branch_id: "a", reference: "ref-a", fleet_name: "Northside", zone_code: "Z1", raw: branch("a") },
    { branch_id: "b", reference: null, fleet_name: null, zone_code: null, closed: false },
    { branch_id: "c", name: "Nul \ufffd", closed: false },
  ]);
  listed = [{ raws: [branch("a", { name: "Renamed" })], hasMore: false }];
  restart();
  await task.run(lead());
  expect(await readAll()).toMatchObject([
    { name: "Renamed", closed: false },
    { closed: true },
    { closed: true },
  ]);
  listed = [{ raws: [branch("a"), branch("b")], hasMore: false }];
  restart();
  await task.run(lead());
  expect((await readAll()).map(({ closed }) => closed)).toEqual([false, false, true]);
});

it("reads branches again when an order names an unlisted one, and after three minutes", async () => {
  let asked = 0;
  const listBranches = () => {
    asked += 1;
    const raws = [branch("a"), branch("b")];
    return Promise.resolve({ raws, hasMore: false, data: [], request_id: "test" });
  };
  const task = makeMirrorBranches({
    clock: systemClock,
    source: { sourceId: "live" },
    client: { ...makeMemoryProvider(), listBranches },
    pool,
    logger: silentLogger,
  });
  // Each run has the same term.
  const { term } = lead();
  const readsAgain = async (secondsLater: number) => {
    await pool.query(
      "update mirror.sources set branches_read_at = clock_timestamp() - $1 * interval '1 second'",
      [secondsLater],
    );
    const before = asked;
    await task.run({ term, signal });
    return asked > before;
  };
  const change = async (named: unknown, at = new Date().toISOString()) => {
    await pool.query(emptying("orders"));
    await insertOrder(pool, "live", orderText({ updatedAt: at, branch: named }));
  };
  await task.run({ term, signal });
  expect(asked).toBe(1);
  expect([await readsAgain(60), await readsAgain(181)]).toEqual([false, true]);
  await change({ id: "a", reference: "ref-a" });
  expect(await readsAgain(60)).toBe(false);
  for (const named of [{ id: "c" }, { id: "a", reference: "renamed" }, { reference: "new" }]) {
    await change(named);
    expect([named, await readsAgain(60)]).toEqual([named, true]);
    expect(await readsAgain(5)).toBe(false);
  }
  await pool.query("update mirror.branches set closed_at = now() where branch_id = 'b'");
  await change({ id: "b", reference: "ref-b" });
  expect(await readsAgain(60)).toBe(true);
  // A backfill brings orders of branches that closed long ago.
  await change({ id: "c" }, "2026-01-01T10:00:00Z");
  expect(await readsAgain(60)).toBe(false);
  await pool.query(emptying("orders"));
});

it("closes no branch because of an incomplete list", async () => {
  let listed = [{ raws: [branch("a"), branch("b")], hasMore: false }];
  const { task, restart } = makeSut(() => listed);
  await task.run(lead());
  listed = [{ raws: [branch("a")], hasMore: true }];
  restart();
  await expect(task.run(lead())).rejects.toThrow(WalkStalledError);
  expect((await readAll()).map(({ closed }) => closed)).toEqual([false, false]);
});

it("writes nothing for a leader that has lost its lease", async () => {
  const { task } = makeSut(() => [{ raws: [branch("a")], hasMore: false }]);
  await releaseLease(pool, lease);
  await expect(task.run(lead())).rejects.toThrow(LeaseLostError);
  expect(await readAll()).toEqual([]);
});

const END: CycleEnd = {
  historySince: "1",
  safeThrough: "2",
  lastBreach: "3",
  lastRequest: "5",
  newestChange: "6",
  newestObservation: "7",
};

it("runs a task again only after news, after a run that left work or failed, and in another term", async () => {
  let ran = 0;
  let run: () => Promise<"again" | undefined> = () => Promise.resolve(undefined);
  let nowMs = 0;
  const tasks = makeLeaderTasks(
    { clock: { ...systemClock, monotonicMs: () => nowMs }, logger: silentLogger },
    [
      {
        name: "a",
        everyMs: 0,
        concerns: ({ safeThrough, lastBreach }) => [safeThrough, lastBreach],
        run: () => {
          ran += 1;
          return run();
        },
      },
    ],
  );
  const first = lead();
  const cycle = async (end: Partial<CycleEnd> = {}, context = first) => {
    nowMs += 60_000;
    const before = ran;
    await tasks.run(context, { ...END, ...end });
    return ran > before;
  };
  expect([await cycle(), await cycle(), await cycle({ newestChange: "60" })]).toEqual([true, false, false]);
  expect([await cycle({ lastBreach: "30" }), await cycle({ lastBreach: "30" })]).toEqual([true, false]);
  run = () => Promise.resolve("again");
  expect([await cycle(), await cycle({ lastBreach: "30" }), await cycle()]).toEqual([true, true, true]);
  run = () => Promise.reject(new Error("no"));
  expect([await cycle(), await cycle()]).toEqual([true, true]);
  run = () => Promise.resolve(undefined);
  expect([await cycle(), await cycle()]).toEqual([true, false]);
  expect(await cycle({}, lead())).toBe(true);
});

it("runs hourly, sooner after a failure, and a failure does not affect other tasks", async () => {
  let nowMs = 0;
  const ran: string[] = [];
  let fails = true;
  const tasks = makeLeaderTasks(
    { clock: { ...systemClock, monotonicMs: () => nowMs }, logger: silentLogger },
    [
      {
        name: "a",
        everyMs: 3_600_000,
        run: () => {
          ran.push("a");
          return fails ? Promise.reject(new Error("no")) : Promise.resolve();
        },
      },
      { name: "b", everyMs: 0, run: () => Promise.resolve(void ran.push("b")) },
    ],
  );
  for (nowMs of [0, 59_999]) await tasks.run(lead(), END);
  fails = false;
  for (nowMs of [60_000, 3_659_999, 3_660_000]) await tasks.run(lead(), END);
  expect(ran).toEqual(["a", "b", "b", "a", "b", "b", "a", "b"]);
});

it("stores the sandbox's branches unchanged", async () => {
  const provider = await makeTestSandbox();
  const client = makeProviderClient({
    baseUrl: provider.url,
    apiKey: LIVE,
    budget: makeBudget({ clock: systemClock }),
    clock: systemClock,
    logger: silentLogger,
  });
  await makeMirrorBranches({
    source: { sourceId: "live" },
    client,
    pool,
    clock: systemClock,
    logger: silentLogger,
  }).run(lead());
  const truth = (await provider.ask("GET", "/v1/branches")).json.data as { id: string; name: string }[];
  await provider.close();
  const mirrored = (await readAll()).map(({ raw }) => JSON.parse(raw as string) as { id: string });
  expect(mirrored).toEqual(truth.toSorted((left, right) => (left.id < right.id ? -1 : 1)));
  expect(mirrored.length).toBeGreaterThan(1);
});
