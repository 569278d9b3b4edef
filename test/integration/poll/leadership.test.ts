import { beforeEach, expect, it, onTestFinished } from "vitest";
import {
  acquireLease,
  LeaseLostError,
  makeLeaseLostError,
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

it("has one holder at a time, and a greater number with each", async () => {
  const first = await acquire("a");
  expect(await acquire("a")).toBeUndefined();
  expect(await acquire("b")).toBeUndefined();
  await expiresIn(-0.001);
  const second = await acquire("b");
  await releaseLease(pool, second!);
  const third = await acquire("a");
  expect([first, second, third]).toMatchObject([
    { holder: "a", fence: 1n },
    { holder: "b", fence: 2n },
    { holder: "a", fence: 3n },
  ]);
});

/** What only the holder may do. */
const DEEDS: Record<string, (lease: Lease) => Promise<unknown>> = {
  renew: async (lease) => {
    if (!(await renewLease(pool, lease, { ttlMs: TTL_MS }))) throw makeLeaseLostError(lease);
  },
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
      `select p.*, (select json_agg(c) from mirror.coverage c) as windows, (select json_agg(l) from mirror.leases l) as leases
       from mirror.poll_state p`,
    )
  ).rows;

it.each<[string, (lease: Lease) => Promise<unknown>, isHeld?: boolean]>([
  ["it was taken", () => Promise.resolve(), true],
  ["it ran out", () => expiresIn(-0.001)],
  ["it was released", (lease) => releaseLease(pool, lease)],
  ["another took it", () => expiresIn(-0.001).then(() => acquire("b"))],
  ["the same took it again", () => expiresIn(-0.001).then(() => acquire("a"))],
])("may be used by its holder alone: after %s", async (_, happen, isHeld = false) => {
  for (const [name, act] of Object.entries(DEEDS)) {
    await pool.query(emptying("leases poll_state coverage"));
    await pool.query(
      "insert into mirror.poll_state (source_id, history_since, polled_through) values ('live', 0, 0)",
    );
    const lease = (await acquire("a"))!;
    await happen(lease);
    const before = await readWritten();
    const isLost = await act(lease).then(
      () => false,
      (error: unknown) => error instanceof LeaseLostError || error,
    );
    expect([name, isLost]).toEqual([name, !isHeld]);
    if (isHeld) continue;
    // Nor does it release what it does not hold.
    await releaseLease(pool, lease);
    expect(await readWritten()).toEqual(before);
  }
});
