import type pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { startOwnPostgres } from "../../support/servers/ownPostgres.ts";
import { makeHead, openRaw } from "../../support/http/rawHttp.ts";
import { makeBody, post, signHeaders, startReceiving } from "../../support/signing/receiving.ts";
import type { Receiving } from "../../support/signing/receiving.ts";
import { refuseEvents } from "../../support/faults/refuseEvents.ts";
import { emptying } from "../../support/mirror/emptying.ts";

/** Senders give up after 3 to 5 s; the receiver after 2. */
const GIVES_UP_AFTER_MS = 2_000;
const ANSWER_LIMIT_MS = 2_700;
const PATIENCE = { timeout: 60_000, interval: 50 };

let database: TestDatabase;
let receiving: Receiving;
let locker: pg.PoolClient | undefined;
beforeAll(async () => {
  database = await makeTestDatabase();
});
afterAll(() => database.drop());
beforeEach(async () => {
  receiving = await startReceiving({ url: database.url, mount: "by http.createServer" });
});
afterEach(async () => {
  await unlock();
  await receiving.close();
  await database.pool.query(emptying("inbox pending"));
});

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

/** Status, Retry-After in seconds, and duration of the answer, less the delay of a timer that ran beside it. */
async function measure(port: number): Promise<{ status: number; retryAfter: number; tookMs: number }> {
  const startedMs = performance.now();
  const sinceMs = () => performance.now() - startedMs;
  const fired = new Promise<number>((resolve) => setTimeout(() => resolve(sinceMs()), GIVES_UP_AFTER_MS));
  const answer = await post(port, makeBody());
  const answeredMs = sinceMs();
  const tookMs =
    answeredMs < GIVES_UP_AFTER_MS ? answeredMs : answeredMs - ((await fired) - GIVES_UP_AFTER_MS);
  return { status: answer.status, retryAfter: Number(answer.headers.get("retry-after")), tookMs };
}

function expectRefusedInTime({ status, retryAfter, tookMs }: Awaited<ReturnType<typeof measure>>): void {
  expect(status).toBe(503);
  expect(retryAfter).toBeGreaterThan(0);
  expect(tookMs).toBeLessThan(ANSWER_LIMIT_MS);
}

describe("while the inbox cannot be written", () => {
  it("answers 200 only once the event is committed", async () => {
    await lockInbox();
    const answering = post(receiving.port, makeBody("evt_1")).then(async (answer) => ({
      status: answer.status,
      stored: await listEventIds(database.pool),
    }));
    await expect
      .poll(async () => {
        const { rows } = await database.pool.query("select 1 from pg_locks where not granted");
        return rows.length;
      }, PATIENCE)
      .toBe(1);
    expect(receiving.receiver.counts().received).toBe(0);
    await unlock();
    expect(await answering).toEqual({ status: 200, stored: ["evt_1"] });
  });

  it("answers 503 with Retry-After in time, and 200 as soon as possible", async () => {
    await lockInbox();
    const answers = await Promise.all(Array.from({ length: 20 }, () => measure(receiving.port)));
    for (const answer of answers) expectRefusedInTime(answer);
    expect(receiving.notified).toEqual([]);
    await unlock();
    await expect.poll(async () => (await measure(receiving.port)).status, PATIENCE).toBe(200);
    expect(receiving.lines.filter((line) => line["outcome"] === "unavailable")).toHaveLength(1);
  });

  it("survives frozen connections to Postgres and never reuses them", async () => {
    await Promise.all([measure(receiving.port), measure(receiving.port)]);
    const frozen = await listBackends();
    expect(frozen.length).toBeGreaterThan(0);
    for (const pid of frozen) process.kill(pid, "SIGSTOP");
    onTestFinished(() => {
      for (const pid of frozen) process.kill(pid, "SIGCONT");
    });
    const answers = await Promise.all(Array.from({ length: 5 }, () => measure(receiving.port)));
    const refused = answers.filter((answer) => answer.status !== 200);
    expect(refused.length).toBeGreaterThan(0);
    for (const answer of refused) expectRefusedInTime(answer);
    // They are still frozen, so these requests work without them.
    await expect.poll(async () => (await measure(receiving.port)).status, PATIENCE).toBe(200);
    const after = await Promise.all(Array.from({ length: 10 }, () => measure(receiving.port)));
    expect(after.map((answer) => answer.status)).toEqual(Array(10).fill(200));
  });

  it("keeps every event that it acknowledged while its connections are killed", async () => {
    const acknowledged: string[] = [];
    let done = false;
    const killing = (async () => {
      while (!done) {
        await database.pool.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'order-mirror receive' and datname = current_database()",
        );
      }
    })();
    const sender = async (name: string) => {
      for (let n = 0; n < 40; n += 1) {
        const id = `evt_${name}_${n}`;
        const answer = await post(receiving.port, makeBody(id));
        expect([200, 503]).toContain(answer.status);
        if (answer.status === 200) acknowledged.push(id);
      }
    };
    await Promise.all(["a", "b", "c", "d", "e", "f"].map(sender));
    done = true;
    await killing;
    const stored = new Set(await listEventIds(database.pool));
    expect(acknowledged.filter((id) => !stored.has(id))).toEqual([]);
    await expect.poll(async () => (await measure(receiving.port)).status, PATIENCE).toBe(200);
  });

  it("fails only the event that Postgres refuses, not the others of its commit", async () => {
    onTestFinished(await refuseEvents(database.pool, "evt_bad"));
    await lockInbox();
    const blockers = [post(receiving.port, makeBody("evt_1")), post(receiving.port, makeBody("evt_2"))];
    const batch = ["evt_3", "evt_bad", "evt_4"].map((id) => post(receiving.port, makeBody(id)));
    await expect
      .poll(async () => {
        const { rows } = await database.pool.query("select 1 from pg_locks where not granted");
        return rows.length;
      }, PATIENCE)
      .toBe(2);
    await unlock();
    const statuses = (await Promise.all([...blockers, ...batch])).map((answer) => answer.status);
    expect(statuses).toEqual([200, 200, 200, 500, 200]);
    expect(new Set(await listEventIds(database.pool))).toEqual(new Set(["evt_1", "evt_2", "evt_3", "evt_4"]));
  });
});

describe("while Postgres as a whole fails", () => {
  it("answers 503 in time, frozen or stopped, and 200 again afterwards", async () => {
    const postgres = await startOwnPostgres();
    onTestFinished(() => postgres.remove());
    const own = await startReceiving({ url: postgres.url, mount: "by http.createServer" });
    onTestFinished(() => own.close());
    expect((await measure(own.port)).status).toBe(200);

    await postgres.freeze();
    const frozen = await Promise.all(Array.from({ length: 30 }, () => measure(own.port)));
    for (const answer of frozen) expectRefusedInTime(answer);
    postgres.thaw();
    await expect.poll(async () => (await measure(own.port)).status, PATIENCE).toBe(200);

    await postgres.stop();
    expectRefusedInTime(await measure(own.port));
    await postgres.start();
    await expect.poll(async () => (await measure(own.port)).status, PATIENCE).toBe(200);
  });
});

describe("a receiver that is drained", () => {
  it("answers the events that it is storing, refuses the rest with 503, and then ends", async () => {
    await lockInbox();
    const body = makeBody("evt_slow");
    const [head, bytes] = [
      makeHead("POST /webhooks/live", [
        ["Content-Type", "application/json"],
        ["Content-Length", body.length],
        ...Object.entries(signHeaders(body)),
      ]),
      body,
    ];
    const slow = await openRaw(receiving.port);
    slow.write(head);
    slow.write(bytes.subarray(0, 5));
    const storing = post(receiving.port, makeBody("evt_1"));
    await expect
      .poll(async () => {
        const { rows } = await database.pool.query("select 1 from pg_locks where not granted");
        return rows.length;
      }, PATIENCE)
      .toBe(1);

    let drained = false;
    const draining = receiving.receiver.drain().then(() => (drained = true));
    const late = await post(receiving.port, makeBody("evt_2"));
    expect([late.status, late.headers.get("retry-after"), late.headers.get("connection")]).toEqual([
      503,
      "5",
      "close",
    ]);
    slow.write(bytes.subarray(5));
    expect((await slow.readAnswer()).status).toBe(503);
    await slow.closed;
    expect(drained).toBe(false);
    await unlock();
    expect((await storing).status).toBe(200);
    await draining;
    expect(await listEventIds(database.pool)).toEqual(["evt_1"]);
    await receiving.receiver.drain();
  });
});

describe("an overloaded receiver", () => {
  const KIBIBYTE = 1_024;
  const headOf = (body: Buffer, length: readonly [string, string | number]) =>
    makeHead("POST /webhooks/live", [
      ["Content-Type", "application/json"],
      ...Object.entries(signHeaders(body)),
      length,
    ]);

  it("has room for small events, however many large bodies never end", async () => {
    const receiving = await startReceiving({
      url: database.url,
      mount: "by http.createServer",
      limits: { bodiesBytes: 256 * KIBIBYTE },
    });
    onTestFinished(() => receiving.close());
    const large = Buffer.alloc(200 * KIBIBYTE, "x");
    const endless = await Promise.all(Array.from({ length: 40 }, () => openRaw(receiving.port)));
    for (const [place, connection] of endless.entries()) {
      const chunked = place % 2 === 0;
      connection.write(
        headOf(large, chunked ? ["Transfer-Encoding", "chunked"] : ["Content-Length", large.length + 1]),
      );
      if (chunked) connection.write(`${large.length.toString(16)}\r\n`);
      connection.write(large);
    }
    const refused = () => receiving.receiver.counts().overloaded;
    await expect.poll(refused, PATIENCE).toBe(39);
    for (let count = 0; count < 30; count += 1) {
      expect((await post(receiving.port, makeBody(`evt_${count}`, "x".repeat(10_000)))).status).toBe(200);
    }
    // A complete large event displaces the body that has been arriving for longest.
    expect((await post(receiving.port, makeBody("evt_large", "x".repeat(150_000)))).status).toBe(200);
    expect(refused()).toBe(40);
    for (const connection of endless) connection.abort();
  });

  it("refuses immediately what exceeds the memory for bodies, and accepts more when some is free", async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const small = await startReceiving({
      url: database.url,
      mount: "by http.createServer",
      limits: { bodiesBytes: 10_000 },
      store: () => held.then(() => ({ seq: 1 })),
    });
    onTestFinished(() => small.close());
    const first = post(small.port, makeBody("evt_1", "x".repeat(25_000)));
    await expect
      .poll(async () => (await post(small.port, makeBody("evt_2", "x".repeat(25_000)))).status, PATIENCE)
      .toBe(503);
    release();
    expect((await first).status).toBe(200);
    expect((await post(small.port, makeBody("evt_3", "x".repeat(25_000)))).status).toBe(200);
    expect(small.receiver.counts().overloaded).toBeGreaterThan(0);
  });
});
