import { beforeEach, expect, it, onTestFinished } from "vitest";
import { acquireLease, LeaseLostError } from "../../../src/database/leases.sql.ts";
import { makeLeadership } from "../../../src/poll/leadership.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { beside, untilWaiting, openTestDatabase } from "../../support/servers/database.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";
import { emptying } from "../../support/mirror/tables.ts";

const NAME = "poll:live";
/** Longer than any of these tests by the database's real clock. */
const TTL_MS = 60_000;

const { pool } = await openTestDatabase({ statementTimeoutMs: 30_000 });
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

it("is not taken from a holder that may be alive", async () => {
  await acquire("alive");
  await expiresIn(TTL_MS / 1_000 - 1);
  expect(await acquire("next")).toBeUndefined();
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
