import { beforeEach, expect, it, onTestFinished } from "vitest";
import fc from "fast-check";
import {
  acquireLease,
  LeaseLostError,
  releaseLease,
  renewLease,
  type Lease,
} from "../../../src/database/leases.sql.ts";
import { commitHead, recordWalked } from "../../../src/poll/coverage.sql.ts";
import { makeLeadership } from "../../../src/poll/leadership.ts";
import { beginCycle, beginPolling, endCycle } from "../../../src/poll/pollState.sql.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import { beside, untilWaiting } from "../../support/servers/database.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";
import { emptying, makeRead } from "../../support/mirror/tables.ts";

const NAME = "poll:live";
/** Longer than any of these tests by the database's real clock. */
const TTL_MS = 60_000;

const { pool } = await openLiveMirror({ statementTimeoutMs: 30_000 });
beforeEach(() => pool.query(emptying("leases")));

const acquire = (holder: string) => acquireLease(pool, { name: NAME, holder, ttlMs: TTL_MS });
const expiresIn = (seconds: number) =>
  pool.query("update mirror.leases set expires_at = clock_timestamp() + make_interval(secs => $1)", [
    seconds,
  ]);

it("is taken immediately from a dead holder when the database's clock was set back", async () => {
  expect(await acquire("dead")).toMatchObject({ fence: 1n });
  await expiresIn(3_600);
  expect(await acquire("next")).toMatchObject({ holder: "next", fence: 2n });
});

it("is not taken from a holder that acquired it while the other one waited", async () => {
  const second = await beside(
    pool,
    (client) =>
      client.query(
        "insert into mirror.leases values ('poll:live', 'first', 1, now() + interval '1 min', mirror.server_identity())",
      ),
    () => acquire("second"),
  );
  expect(second).toBeUndefined();
});

/** Delays answers of the leases' table until the returned function is called. */
async function holdBackAnswers(): Promise<() => Promise<void>> {
  const client = await pool.connect();
  await client.query("begin; lock table mirror.leases in access exclusive mode");
  return async () => {
    await client.query("commit");
    client.release();
  };
}

function makeSut() {
  const clock = makeSimulatedClock();
  const sleeps: number[] = [];
  const leadership = makeLeadership({
    pool,
    name: NAME,
    holder: "test",
    ttlMs: TTL_MS,
    clock: {
      ...clock,
      sleep(ms, signal) {
        sleeps.push(ms);
        return clock.sleep(ms, signal);
      },
    },
    logger: silentLogger,
  });
  onTestFinished(() => leadership.resign());
  return { clock, leadership, sleeps };
}

it("is trusted from the instant before its request, however long the answer took", async () => {
  const { clock, leadership } = makeSut();
  const letAnswer = await holdBackAnswers();
  const leading = leadership.lead();
  await untilWaiting(pool);
  await clock.runUntil(TTL_MS - 1_000);
  await letAnswer();
  const term = (await leading)!;
  expect(() => term.assertLeading()).not.toThrow();
  await clock.runUntil(TTL_MS);
  expect(() => term.assertLeading()).toThrow(LeaseLostError);
});

it("is trusted from the instant before its renewal was requested", async () => {
  const { clock, leadership, sleeps } = makeSut();
  const term = (await leadership.lead())!;
  const letAnswer = await holdBackAnswers();
  const askedMs = TTL_MS / 3;
  await clock.runUntil(askedMs);
  await untilWaiting(pool);
  await clock.runUntil(TTL_MS - 1_000);
  await letAnswer();
  // The loop sleeps again once it has the answer.
  await expect.poll(() => sleeps.length).toBe(2);
  // Later renewals are held back, so that only this one counts.
  const letThemAnswer = await holdBackAnswers();
  onTestFinished(letThemAnswer);
  await clock.runUntil(askedMs + TTL_MS - 1_000);
  expect(() => term.assertLeading()).not.toThrow();
  await clock.runUntil(askedMs + TTL_MS);
  expect(() => term.assertLeading()).toThrow(LeaseLostError);
});

/** The lease's contract: at most one holder, each acquisition has a greater number, and an expired lease is free. */
interface Model {
  fence: bigint;
  /** Index in `taken` of the current holder. */
  holds: number | undefined;
  taken: number;
}
interface Real {
  readonly taken: Lease[];
}
type Command = fc.AsyncCommand<Model, Real>;

const want = (holder: string): Command => ({
  check: () => true,
  run: async (model, real) => {
    const lease = await acquire(holder);
    expect(lease === undefined).toBe(model.holds !== undefined);
    if (lease === undefined) return;
    expect(lease.fence).toBe((model.fence += 1n));
    model.holds = model.taken;
    model.taken += 1;
    real.taken.push(lease);
  },
  toString: () => `${holder} wants it`,
});

/** An action reserved to the holder; `place` counts from the latest acquisition. */
const use = (
  name: string,
  place: number,
  act: (lease: Lease) => Promise<boolean>,
  frees = false,
): Command => ({
  check: ({ taken }) => place < taken,
  run: async (model, real) => {
    const chosen = model.taken - 1 - place;
    const lease = real.taken[chosen]!;
    expect(await act(lease)).toBe(model.holds === chosen);
    if (frees && model.holds === chosen) model.holds = undefined;
  },
  toString: () => `${name} under the one taken ${place} before the last`,
});

const renew = (place: number) => use("renew", place, (lease) => renewLease(pool, lease, { ttlMs: TTL_MS }));
/** What only the holder may write. */
const WRITES: Record<string, (lease: Lease) => Promise<unknown>> = {
  "record a walked window": (lease) => {
    const read = makeRead({ since: 0n, until: 10n });
    return recordWalked(pool, lease, { sourceId: "live", sweep: "proof", read });
  },
  "commit a head": (lease) =>
    commitHead(pool, lease, { sourceId: "live", since: 0n, cursor: 1n, orders: 0, closes: 2n ** 62n }),
  "commit a part of a head": (lease) =>
    commitHead(pool, lease, { sourceId: "live", since: 0n, cursor: 1n, orders: 0, closes: null }),
  "begin to poll": (lease) =>
    beginPolling(pool, lease, { sourceId: "live", historySince: 0n, polledThrough: 0n }),
  "begin a cycle": (lease) =>
    beginCycle(pool, lease, {
      sourceId: "live",
      provider: "ours",
      intervalMs: 1,
      quietMs: 0,
      marginSeconds: 300,
    }),
  "end a cycle": (lease) =>
    endCycle(pool, lease, { sourceId: "live", failure: { sentence: "x", trouble: "other" } }),
};
const readWritten = async () =>
  (
    await pool.query(
      "select p.*, (select json_agg(c) from mirror.coverage c) as windows from mirror.poll_state p",
    )
  ).rows;

const write = (place: number, name: string) =>
  use(name, place, async (lease) => {
    const before = await readWritten();
    try {
      await WRITES[name]!(lease);
      return true;
    } catch (error) {
      expect(error).toBeInstanceOf(LeaseLostError);
      expect(await readWritten()).toEqual(before);
      return false;
    }
  });
const release = (place: number) =>
  use(
    "release",
    place,
    async (lease) => {
      const before = await isHeld(lease);
      await releaseLease(pool, lease);
      return before;
    },
    true,
  );
const expire: Command = {
  check: () => true,
  run: async (model) => {
    await pool.query("update mirror.leases set expires_at = clock_timestamp() - interval '1 ms'");
    model.holds = undefined;
  },
  toString: () => "it runs out",
};

async function isHeld({ holder, fence }: Lease): Promise<boolean> {
  const { rowCount } = await pool.query(
    `select from mirror.leases
     where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()`,
    [NAME, holder, fence],
  );
  return rowCount === 1;
}

it("has one holder at a time and lets nobody else renew, write or release, in any sequence of events", async () => {
  const place = fc.nat(3);
  const commands = fc.commands(
    [
      fc.constantFrom("a", "b", "c").map(want),
      place.map(renew),
      fc.tuple(place, fc.constantFrom(...Object.keys(WRITES))).map(([taken, name]) => write(taken, name)),
      place.map(release),
      fc.constant(expire),
    ],
    { maxCommands: 30, size: "max" },
  );
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      await pool.query(emptying("leases poll_state coverage"));
      await pool.query(
        "insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', 0, 0)",
      );
      const model: Model = { fence: 0n, holds: undefined, taken: 0 };
      const real: Real = { taken: [] };
      await fc.asyncModelRun(() => ({ model, real }), sequence);
      expect(new Set(real.taken.map(({ fence }) => fence)).size).toBe(real.taken.length);
    }),
    { numRuns: 60 },
  );
});
