import type pg from "pg";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { untilWaiting, openTestDatabase } from "../../support/servers/database.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import { ask } from "../../support/http/serve.ts";
import { openRaw, sendRaw } from "../../support/http/rawHttp.ts";
import {
  CHUNKED,
  headOf,
  lengthOf,
  makeBody,
  post,
  signHeaders,
  startReceiving,
  type Receiving,
} from "../../support/signing/receiving.ts";
import { refuseEvents } from "../../support/faults/events.ts";
import { emptying } from "../../support/mirror/tables.ts";

/** Senders give up after 3 to 5 s; the receiver after 2. */
const GIVES_UP_AFTER_MS = 2_000;
/** Until then its connections to Postgres give up, too, those under way and those that they make room for. */
const CONNECTIONS_GIVE_UP_AFTER_MS = 10_000;
const PATIENCE = { timeout: 60_000, interval: 50 };

const { database } = await openTestDatabase();
let receiving: Receiving;
let locker: pg.PoolClient | undefined;
beforeEach(async () => {
  receiving = await startReceiving({ url: database.url });
});
afterEach(async () => {
  await unlock();
  await receiving.close();
  await database.pool.query(emptying("inbox pending"));
});

/** A receiver that gives up as the product does. */
async function start(url = database.url): Promise<Receiving> {
  const own = await startReceiving({ url, givesUp: true });
  onTestFinished(() => own.close());
  return own;
}

/** Blocks inserts into the inbox until `unlock` or the end of the test. */
async function lockInbox(): Promise<void> {
  locker = await database.pool.connect();
  await locker.query("begin; lock table mirror.inbox in access exclusive mode");
}

async function unlock(): Promise<void> {
  await locker?.query("rollback");
  locker?.release();
  locker = undefined;
}

async function listBackends(): Promise<number[]> {
  const { rows } = await database.pool.query<{ pid: number }>(
    "select pid from pg_stat_activity where datname = current_database() and application_name = 'order-mirror receive'",
  );
  return rows.map((row) => row.pid);
}

async function listEventIds(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ event_id: string }>("select event_id from mirror.inbox");
  return rows.map((row) => row.event_id);
}

/** Statuses of new events that are sent at the same time. */
async function postAll(port: number, count: number): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: count }, () => post(port, makeBody())));
  return answers.map(({ status }) => status);
}

async function postOne(port: number): Promise<number> {
  return (await post(port, makeBody())).status;
}

/**
 * Sends new events while the program's timers stand still, and lets these run for 2 s as soon as it is storing all of
 * them: then each must have its result. So neither the machine's speed nor the way to the receiver counts. Expects that
 * each refusal is a 503 with Retry-After, and resolves with the statuses.
 */
async function postUntilItGivesUp({ port, stores }: Receiving, count: number): Promise<number[]> {
  const { begun, ended } = stores;
  // The timers of fetch would stand still, too.
  const send = () => {
    const body = makeBody();
    const headers = { "content-type": "application/json", ...signHeaders(body) };
    return ask(`http://127.0.0.1:${port}/webhooks/live`, { method: "POST", headers, body: body.toString() });
  };
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const answering = Promise.all(Array.from({ length: count }, send));
  try {
    while (stores.begun < begun + count) await turn();
    await vi.advanceTimersByTimeAsync(GIVES_UP_AFTER_MS);
    await turn();
    expect(stores.ended).toBe(ended + count);
  } finally {
    // A timer that still stands still when the real ones return never ends.
    await vi.advanceTimersByTimeAsync(CONNECTIONS_GIVE_UP_AFTER_MS);
    vi.useRealTimers();
  }
  const answers = await answering;
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 503));
  for (const { headers } of refused) expect(Number(headers["retry-after"])).toBeGreaterThan(0);
  return answers.map(({ status = 0 }) => status);
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("while the inbox cannot be written", () => {
  it("answers 200 only once the event is committed", async () => {
    await lockInbox();
    const answering = post(receiving.port, makeBody("evt_1")).then(async (answer) => ({
      status: answer.status,
      stored: await listEventIds(database.pool),
    }));
    await untilWaiting(database.pool);
    expect(receiving.counts.received ?? 0).toBe(0);
    await unlock();
    expect(await answering).toEqual({ status: 200, stored: ["evt_1"] });
  });

  it("survives frozen connections to Postgres and never reuses them", async () => {
    const others = await listBackends();
    const own = await start();
    await expect.poll(() => postAll(own.port, 2), PATIENCE).toEqual([200, 200]);
    const frozen = (await listBackends()).filter((pid) => !others.includes(pid));
    expect(frozen.length).toBeGreaterThan(0);
    for (const pid of frozen) process.kill(pid, "SIGSTOP");
    try {
      expect(await postUntilItGivesUp(own, 5)).toContain(503);
      // They are still frozen, so these requests work without them.
      await expect.poll(() => postAll(own.port, 10), PATIENCE).toEqual(Array(10).fill(200));
    } finally {
      for (const pid of frozen) process.kill(pid, "SIGCONT");
    }
    const left = async () => (await listBackends()).filter((pid) => frozen.includes(pid));
    await expect.poll(left, PATIENCE).toEqual([]);
  });

  it("fails only the event that Postgres refuses, not the others of its commit", async () => {
    onTestFinished(await refuseEvents(database.pool, "evt_bad"));
    await lockInbox();
    const blockers = [post(receiving.port, makeBody("evt_1")), post(receiving.port, makeBody("evt_2"))];
    const batch = ["evt_3", "evt_bad", "evt_4"].map((id) => post(receiving.port, makeBody(id)));
    await untilWaiting(database.pool, 2);
    await unlock();
    const statuses = (await Promise.all([...blockers, ...batch])).map((answer) => answer.status);
    expect(statuses).toEqual([200, 200, 200, 500, 200]);
    expect(new Set(await listEventIds(database.pool))).toEqual(new Set(["evt_1", "evt_2", "evt_3", "evt_4"]));
  });
});

it("while Postgres as a whole fails answers 503 in time, frozen or stopped, and 200 again afterwards", async () => {
  const postgres = await startOwnPostgres();
  onTestFinished(() => postgres.remove());
  const own = await start(postgres.url);
  await expect.poll(() => postOne(own.port), PATIENCE).toBe(200);

  await postgres.freeze();
  expect(await postUntilItGivesUp(own, 30)).toEqual(Array(30).fill(503));
  expect(own.lines.filter((line) => line["outcome"] === "unavailable")).toHaveLength(1);
  postgres.thaw();
  await expect.poll(() => postOne(own.port), PATIENCE).toBe(200);

  await postgres.stop();
  expect(await postUntilItGivesUp(own, 1)).toEqual([503]);
  await postgres.start();
  await expect.poll(() => postOne(own.port), PATIENCE).toBe(200);
});

it("a receiver that is drained answers the events that it is storing, refuses the rest with 503, and then ends", async () => {
  await lockInbox();
  const body = makeBody("evt_slow");
  const slow = await openRaw(receiving.port);
  slow.write(headOf(body, lengthOf(body)));
  slow.write(body.subarray(0, 5));
  const storing = post(receiving.port, makeBody("evt_1"));
  await untilWaiting(database.pool);

  let drained = false;
  const draining = receiving.receiver.drain().then(() => (drained = true));
  const late = await post(receiving.port, makeBody("evt_2"));
  expect([late.status, late.headers.get("retry-after"), late.headers.get("connection")]).toEqual([
    503,
    "5",
    "close",
  ]);
  slow.write(body.subarray(5));
  expect((await slow.readAnswer()).status).toBe(503);
  await slow.closed;
  expect(drained).toBe(false);
  await unlock();
  expect((await storing).status).toBe(200);
  await draining;
  expect(await listEventIds(database.pool)).toEqual(["evt_1"]);
  await receiving.receiver.drain();
});

describe("an overloaded receiver", () => {
  const KIBIBYTE = 1_024;

  it("has room for small events, however many large bodies never end", async () => {
    const receiving = await startReceiving({
      url: database.url,
      limits: { bodiesBytes: 256 * KIBIBYTE },
    });
    onTestFinished(() => receiving.close());
    const large = Buffer.alloc(200 * KIBIBYTE, "x");
    const endless = await Promise.all(Array.from({ length: 40 }, () => openRaw(receiving.port)));
    for (const [place, connection] of endless.entries()) {
      const chunked = place % 2 === 0;
      connection.write(headOf(large, chunked ? CHUNKED : ["Content-Length", large.length + 1]));
      if (chunked) connection.write(`${large.length.toString(16)}\r\n`);
      connection.write(large);
    }
    const refused = () => receiving.counts.overloaded ?? 0;
    await expect.poll(refused, PATIENCE).toBe(39);
    for (let count = 0; count < 30; count += 1) {
      expect((await post(receiving.port, makeBody(`evt_${count}`, "x".repeat(10_000)))).status).toBe(200);
    }
    for (const connection of endless) connection.abort();
    const sendLarge = async () =>
      (await post(receiving.port, makeBody("evt_large", "x".repeat(150_000)))).status;
    await expect.poll(sendLarge, PATIENCE).toBe(200);
  });

  it("gets the room of a refused body back", async () => {
    const limits = { bodyBytes: 128 * KIBIBYTE, bodiesBytes: 256 * KIBIBYTE };
    const receiving = await startReceiving({ url: database.url, limits });
    onTestFinished(() => receiving.close());
    const tooLong = Buffer.alloc(130 * KIBIBYTE, "x");
    const half = tooLong.subarray(0, 65 * KIBIBYTE);
    const part = `${half.length.toString(16)}\r\n`;
    for (let count = 0; count < 6; count += 1) {
      const head = headOf(tooLong, CHUNKED);
      const answer = await sendRaw(receiving.port, head, part, half, "\r\n", part, half, "\r\n0\r\n\r\n");
      expect(answer.status).toBe(413);
    }
    // That of a body that was stored, too.
    for (const id of ["evt_1", "evt_2", "evt_3", "evt_4"])
      expect((await post(receiving.port, makeBody(id, "x".repeat(100_000)))).status).toBe(200);
  });
});
