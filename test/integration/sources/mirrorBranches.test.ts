import { beforeEach, expect, it } from "vitest";
import { acquireLease, LeaseLostError, releaseLease, type Lease } from "../../../src/database/leases.sql.ts";
import { ConfigurationError } from "../../../src/domain/errors.ts";
import { makeLeaderTasks, mirrorBranches } from "../../../src/poll/leaderTasks.ts";
import { WalkStalledError } from "../../../src/poll/sweeps/windows.ts";
import type { Term } from "../../../src/poll/leadership.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { makeMemoryProvider } from "../../support/providers/memoryProvider.ts";
import { emptying } from "../../support/mirror/tables.ts";

const { pool } = await openLiveMirror({ statementTimeoutMs: 10_000 });
let lease: Lease;

beforeEach(async () => {
  await pool.query(emptying("branches leases"));
  await pool.query("update mirror.sources set branch_ids = '{}', refused_branches = null");
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
      `select branch_id, r.reference, r.name, r.fleet_name, r.zone_code, not is_open as closed, r.closed_at, raw::text
       from reporting.branches r join mirror.branches using (source_id, branch_id) order by branch_id`,
    )
  ).rows;

/** Mirrors these pages of branches. */
function makeSut(pages: () => readonly { raws: readonly string[]; hasMore: boolean }[]) {
  let asked = 0;
  const provider = makeMemoryProvider();
  const listBranches = () => {
    const page = pages()[asked++] ?? { raws: [], hasMore: true };
    return Promise.resolve({ ...page, data: [], request_id: "test" });
  };
  let nowMs = 0;
  const deps = {
    // A list takes a minute.
    clock: { ...systemClock, monotonicMs: () => (nowMs += 60_000) },
    source: { sourceId: "live" },
    client: { ...provider, listBranches },
    pool,
    logger: silentLogger,
  };
  return { mirror: () => mirrorBranches(deps, lead()), restart: () => (asked = 0) };
}

it("stores the branches of all pages, closes one that is no longer listed, and reopens it", async () => {
  let listed = [
    { raws: [branch("a", { name: "Former" })], hasMore: true },
    { raws: [branch("a"), branch("b", { reference: null, routesTo: null })], hasMore: true },
    { raws: [branch("c", { name: "Nul \u0000" }), '{"id":"d","connectedZones":null}'], hasMore: false },
  ];
  const { mirror, restart } = makeSut(() => listed);
  await mirror();
  expect(await readAll()).toMatchObject([
    { branch_id: "a", reference: "ref-a", fleet_name: "Northside", zone_code: "Z1", raw: branch("a") },
    { branch_id: "b", reference: null, fleet_name: null, zone_code: null, closed: false },
    { branch_id: "c", name: "Nul \ufffd", closed: false },
    // What else a branch shows is for people.
    { branch_id: "d", name: null, closed: false },
  ]);
  const { rows } = await pool.query<{ now: string; aged: boolean }>(
    `select clock_timestamp()::text as now, clock_timestamp() - branches_read_at >= interval '1 minute' as aged
     from mirror.sources`,
  );
  expect(rows).toMatchObject([{ aged: true }]);
  listed = [{ raws: [branch("a", { name: "Renamed" })], hasMore: false }];
  restart();
  await mirror();
  const renamed = await readAll();
  expect(renamed).toMatchObject([{ name: "Renamed", closed: false }, ...Array(3).fill({ closed: true })]);
  const seen = "select branch_id from reporting.branches where last_seen_at > $1";
  expect((await pool.query(seen, [rows[0]!.now])).rows).toEqual([{ branch_id: "a" }]);
  // When they were first missing.
  restart();
  await mirror();
  expect(await readAll()).toEqual(renamed);
  listed = [{ raws: [branch("a"), branch("b")], hasMore: false }];
  restart();
  await mirror();
  expect((await readAll()).map(({ closed }) => closed)).toEqual([false, false, true, true]);
});

it("takes nothing from an empty list: no refusal ends, and no branch is closed before a day", async () => {
  let raws: readonly string[] = [];
  const { mirror, restart } = makeSut(() => [{ raws, hasMore: false }]);
  const list = async (...ids: string[]) => {
    raws = ids.map((id) => branch(id));
    restart();
    await mirror().catch((error: unknown) => {
      if (!(error instanceof ConfigurationError)) throw error;
    });
    const { rows } = await pool.query<{ open: number; refused: boolean }>(
      `select (select count(*)::int from mirror.branches where closed_at is null) as open,
         refused_branches is not null as refused
       from mirror.sources`,
    );
    return rows[0];
  };
  const readHoursAgo = (hours: number) =>
    pool.query("update mirror.sources set branches_read_at = now() - make_interval(hours => $1)", [hours]);
  expect(await list("a", "b")).toEqual({ open: 2, refused: false });
  await readHoursAgo(25);
  expect(await list("x")).toEqual({ open: 2, refused: true });
  expect(await list()).toEqual({ open: 2, refused: true });
  expect(await list("a", "b")).toEqual({ open: 2, refused: false });
  await readHoursAgo(23);
  expect(await list()).toEqual({ open: 2, refused: false });
  await readHoursAgo(25);
  expect(await list()).toEqual({ open: 0, refused: false });
});

it("closes no branch because of an incomplete list", async () => {
  let listed = [{ raws: [branch("a"), branch("b")], hasMore: false }];
  const { mirror, restart } = makeSut(() => listed);
  await mirror();
  listed = [{ raws: [branch("a")], hasMore: true }];
  restart();
  await expect(mirror()).rejects.toThrow(WalkStalledError);
  expect((await readAll()).map(({ closed }) => closed)).toEqual([false, false]);
});

it("writes nothing for a leader that has lost its lease", async () => {
  const { mirror } = makeSut(() => [{ raws: [branch("a")], hasMore: false }]);
  await releaseLease(pool, lease);
  await expect(mirror()).rejects.toThrow(LeaseLostError);
  expect(await readAll()).toEqual([]);
});

it("runs hourly, sooner after a failure, and a failure does not affect other tasks", async () => {
  let nowMs = 0;
  const ran: string[] = [];
  let fails = true;
  const run = (name: string) => async () => {
    ran.push(name);
    if (name === "a" && fails) throw new Error("no");
  };
  const runTasks = makeLeaderTasks(
    { clock: { ...systemClock, monotonicMs: () => nowMs }, logger: silentLogger },
    [
      { name: "a", everyMs: 3_600_000, run: run("a") },
      { name: "b", everyMs: 0, run: run("b") },
    ],
  );
  for (nowMs of [0, 59_999]) await runTasks(lead());
  fails = false;
  for (nowMs of [60_000, 3_659_999, 3_660_000]) await runTasks(lead());
  expect(ran).toEqual(["a", "b", "b", "a", "b", "b", "a", "b"]);
});
