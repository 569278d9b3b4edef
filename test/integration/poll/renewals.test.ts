import { beforeAll, beforeEach, expect, it, onTestFinished } from "vitest";
import { acquireLease } from "../../../src/database/leases.sql.ts";
import { makeRenewals } from "../../../src/poll/leader/renewals.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

const TTL_MS = 60_000;
const RENEWED = { ttlMs: 10 * TTL_MS };

let database: TestDatabase;
beforeAll(async () => {
  database = await makeTestDatabase();
  return () => database.drop();
});
beforeEach(() => database.pool.query(emptying("leases")));

async function acquire(name: string) {
  const lease = await acquireLease(database.pool, { name, holder: "test", ttlMs: TTL_MS });
  if (lease === undefined) throw new Error(`${name} is taken`);
  return lease;
}

/** The names of the leases that hold for longer than they were taken for. */
async function readRenewed(): Promise<string[]> {
  const { rows } = await database.pool.query<{ name: string }>(
    "select name from mirror.leases where expires_at > clock_timestamp() + make_interval(secs => $1) order by name",
    [TTL_MS / 1_000],
  );
  return rows.map(({ name }) => name);
}

function makeSut() {
  const clock = makeSimulatedClock();
  const statements: string[] = [];
  const { pool } = database;
  const query = (...args: Parameters<typeof pool.query>) => {
    statements.push(String(args[0]));
    return pool.query(...args);
  };
  const renew = makeRenewals({ pool: { query } as unknown as typeof pool, clock });
  return { renew, statements, gather: () => clock.runUntil(clock.monotonicMs() + 1_000) };
}

it("renews the leases of many sources with one statement", async () => {
  const names = Array.from({ length: 100 }, (_, n) => `poll:${String(n).padStart(2, "0")}`);
  const leases = await Promise.all(names.map(acquire));
  const { renew, statements, gather } = makeSut();
  const renewed = Promise.all(leases.map((lease) => renew(lease, RENEWED)));
  await gather();
  expect(await renewed).toEqual(names.map(() => true));
  expect(await readRenewed()).toEqual(names);
  expect(statements).toHaveLength(1);
});

it("says which lease another holder has taken over", async () => {
  const [kept, lost] = [await acquire("kept"), await acquire("lost")];
  await database.pool.query(
    "update mirror.leases set holder = 'next', fence = fence + 1 where name = 'lost'",
  );
  const { renew, gather } = makeSut();
  const renewed = Promise.all([kept, lost].map((lease) => renew(lease, RENEWED)));
  await gather();
  expect(await renewed).toEqual([true, false]);
  expect(await readRenewed()).toEqual(["kept"]);
});

it("does not let other leases wait for one in use", async () => {
  const [used, free] = [await acquire("used"), await acquire("free")];
  const client = await database.pool.connect();
  onTestFinished(() => client.release());
  await client.query("begin; select from mirror.leases where name = 'used' for share");
  const { renew, gather } = makeSut();
  const [ofUsed, ofFree] = [used, free].map((lease) => renew(lease, RENEWED));
  await gather();
  expect(await ofFree).toBe(true);
  expect(await readRenewed()).toEqual(["free"]);
  await client.query("commit");
  expect(await ofUsed).toBe(true);
  expect(await readRenewed()).toEqual(["free", "used"]);
});

it("tells all of a failure, and renews the next ones", async () => {
  const lease = await acquire("poll:live");
  const { renew, gather } = makeSut();
  const invalid = { ...lease, name: "invalid\u0000" };
  const failing = Promise.allSettled([lease, invalid].map((each) => renew(each, RENEWED)));
  await gather();
  expect((await failing).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  const renewed = renew(lease, RENEWED);
  await gather();
  expect(await renewed).toBe(true);
});
