import path from "node:path";
import { readFile, writeFile } from "node:fs/promises";
import { randomUUID } from "node:crypto";
import pg from "pg";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { makePool, withClient, type Pool } from "../../../src/database/database.ts";
import { makeOpsRouter } from "../../../src/ops/opsRouter.ts";
import { setAnswerHeaders } from "../../../src/roles/serve.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { findChromium, NO_BROWSER, openBrowser, openTab } from "../../support/pages/browser.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { serve, type TestServer } from "../../support/http/serve.ts";
import { migrate } from "../../../src/database/migrations.ts";
import { migrateQueue } from "../../../src/queue/postgresServer.ts";
import { createDatabase, runOnServer, withDatabase } from "../../support/servers/createDatabase.ts";
import { findTestServer } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, makeEventBody, makeSnapshot, putIntoInbox, readAt } from "../../support/mirror/orders.ts";

const BRANCHES = ["Centre", "Harbour", "North"] as const;
const FLEETS = ["Swift Couriers", "Northside Couriers"] as const;
const STEPS = ["created", "assigned", "picked_up", "delivered"] as const;
const MINUTE_MS = 60_000;
const ORDERS = 30;

const iso = (ms: number) => new Date(ms).toISOString();

/**
 * An hour of a small shop that ends at `end`, always the same: thirty orders, of which one event was lost and found by a
 * read, and windows that prove the last day.
 */
async function fillShop(
  pool: Pool,
  { end, setClock }: { end: string; setClock: (instant: string) => Promise<void> },
): Promise<void> {
  const endMs = Date.parse(end);
  await setClock(iso(endMs - 30 * 86_400_000));
  await addSource(pool, "live");
  for (const name of BRANCHES) {
    await pool.query(
      `insert into mirror.branches (source_id, branch_id, reference, name, raw) values ('live', $1, $1, $2, '{}')`,
      [name.toLowerCase(), name],
    );
  }
  const { applyEvents, applyReads } = makeLiveApply(pool);
  const latest = new Map<number, ReturnType<typeof sketch>>();
  for (const { isLost, ...change } of listChanges(endMs)) {
    const { n, step, atMs } = change;
    const order = sketch(change, endMs);
    latest.set(n, order);
    if (isLost) {
      await setClock(iso(atMs + 74_000));
      const time = readAt(parseInstant(iso(atMs + 73_000)), 5);
      await applyReads({ sourceId: "live", via: "poll", snapshots: [makeSnapshot(order)], time });
    } else {
      await setClock(iso(atMs + 180 + ((n * 37 + step * 11) % 90) * 10));
      const eventId = `evt_${String(n * 10 + step).padStart(4, "0")}`;
      await applyEvents(await putIntoInbox(pool, [{ eventId, body: makeEventBody({ id: eventId, order }) }]));
    }
  }
  await setClock(end);
  // A last read confirms what is older than its margin.
  const snapshots = [...latest.values()].map(makeSnapshot);
  await applyReads({ sourceId: "live", via: "verify", snapshots, time: readAt(parseInstant(end), 5) });
  await proveDay(pool);
}

/** All changes of the hour, in their sequence; a lost one is found by a read. */
function listChanges(endMs: number) {
  const orders = Array.from({ length: ORDERS }, (_, index) => index + 1);
  const changes = orders.flatMap((n) =>
    STEPS.map((_, step) => ({ n, step, atMs: findChange(n, step, endMs), isLost: n === 12 && step === 1 })),
  );
  return changes.filter(({ atMs }) => atMs < endMs - 5_000).toSorted((one, other) => one.atMs - other.atMs);
}

/** When an order takes a step. */
function findChange(n: number, step: number, endMs: number): number {
  const createdMs = endMs - (64 - 2 * n) * MINUTE_MS + n * 1_300;
  return createdMs + step * (9 + (n % 4)) * MINUTE_MS + step * 7_100;
}

function sketch({ n, step, atMs }: { n: number; step: number; atMs: number }, endMs: number) {
  const createdMs = endMs - (64 - 2 * n) * MINUTE_MS;
  const at = (minutes: number) => iso(createdMs + minutes * MINUTE_MS);
  const branch = BRANCHES[n % BRANCHES.length] ?? "Centre";
  const name = `DO-${(n * 7_919_113).toString(36).toUpperCase().padStart(8, "7")}`;
  return {
    reference: name,
    status: STEPS[step] ?? "created",
    updatedAt: iso(atMs),
    more: {
      externalOrderId: `shop-${20_480 + n}`,
      branch: { id: branch.toLowerCase(), reference: branch.toLowerCase() },
      fleet: { name: FLEETS[n % FLEETS.length] },
      customer: { firstName: "Ada", phone: "+44 20 7946 0000" },
      pickupTime: at(18),
      deliveryTime: at(n % 7 === 0 ? 26 : 45),
      realPickupTime: step >= 2 ? iso(findChange(n, 2, endMs)) : null,
      realDeliveryTime: step >= 3 ? iso(atMs) : null,
    },
  };
}

/** Proves the last 24 h up to a minute ago in windows of 10 minutes, and has a poller at work. */
async function proveDay(pool: Pool): Promise<void> {
  await pool.query(`
    with clock as (select (extract(epoch from clock_timestamp()) * 1000000000)::bigint - 70000000000 as until)
    insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders, started_at, ended_at)
    select 'live', until - (n + 1) * 600000000000, until - n * 600000000000, 'proof', true, 1, 2, 5,
      clock_timestamp() - n * interval '10 min' - interval '2 s', clock_timestamp() - n * interval '10 min'
    from clock, generate_series(150, 0, -1) n`);
  await pool.query(`
    insert into mirror.poll_state (source_id, history_since, polled_through, safe_through, last_cycle_started_at,
      last_cycle_ended_at, margin_seconds)
    select 'live', min(since), max(until) + 60000000000, max(until), clock_timestamp() - interval '12 s',
      clock_timestamp() - interval '11 s', 300 from mirror.coverage`);
  await pool.query(`
    insert into mirror.leases values ('poll:live', 'poller-1:42', 1, clock_timestamp() + interval '20 s')`);
  await pool.query("update mirror.sources set event_grace = '0', created_at = now() - interval '30 days'");
  await pool.query(`
    insert into mirror.webhook_hours
    select 'live', date_trunc('hour', clock_timestamp()) - n * interval '1 hour', 'assigned', 'announced', 1, 80 + (n * 37) % 60, 0, 0
    from generate_series(0, 23) n
    union all
    select 'live', date_trunc('hour', min(changed_at)), status, 'lost', 0, count(*), 0, 0
    from mirror.changes where via = 'poll' and revision > 1 group by status`);
  await pool.query(`
    insert into mirror.calls
    select 'live', 'order-list', date_trunc('minute', clock_timestamp()) - n * interval '1 minute', 'answered', 2, now()
    from generate_series(0, 60) n`);
}

/**
 * A migrated database and this process, with one clock that a test sets: for what must look the same at every run.
 *
 * The database's own clock cannot be set. But names without a schema are looked up along the search path, so functions
 * of the same names in an earlier schema take its place, also in what the migrations create.
 */
async function makeFixedClockDatabase() {
  const serverUrl = findTestServer();
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  await createDatabase(serverUrl, name);
  const url = withDatabase(serverUrl, name);
  await runOnServer(
    url,
    `create schema fixed;
     create table fixed.clock (at timestamptz not null);
     insert into fixed.clock values (now());
     create function fixed.clock_timestamp() returns timestamptz language sql volatile as 'select at from fixed.clock';
     create function fixed.now() returns timestamptz language sql stable as 'select at from fixed.clock';
     alter database ${pg.escapeIdentifier(name)} set search_path = fixed, pg_catalog, public`,
  );
  await migrate(url);
  await withClient(url, migrateQueue);
  const pool = new pg.Pool({ connectionString: url, max: 2 });
  pool.on("error", () => undefined);
  vi.useFakeTimers({ toFake: ["Date"] });
  return {
    url,
    pool,
    /** Sets both clocks to this instant. */
    async setClock(instant: string) {
      vi.setSystemTime(instant);
      await pool.query("update fixed.clock set at = $1", [instant]);
    },
    async drop() {
      vi.useRealTimers();
      await pool.end();
      await runOnServer(serverUrl, `drop database if exists ${pg.escapeIdentifier(name)} with (force)`);
    },
  };
}

/** The difference of one colour channel that the eye does not see, of 255: smoothed edges of letters vary. */
const CHANNEL_TOLERANCE = 48;

/** The share of pixels that differ visibly; 1 for pictures of different sizes. The browser reads the files. */
async function comparePictures(browser: Browser, one: Buffer, other: Buffer): Promise<number> {
  const page = await browser.newPage();
  try {
    const files = [one, other].map((file) => file.toString("base64"));
    return await page.evaluate<number>(`(async () => {
      const [one, other] = await Promise.all(${JSON.stringify(files)}.map(async (file) => {
        const bytes = Uint8Array.from(atob(file), (character) => character.charCodeAt(0));
        const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
        const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
        canvas.drawImage(bitmap, 0, 0);
        return canvas.getImageData(0, 0, bitmap.width, bitmap.height);
      }));
      if (one.width !== other.width || one.height !== other.height) return 1;
      let different = 0;
      for (let pixel = 0; pixel < one.data.length; pixel += 4) {
        const isVisible = [0, 1, 2].some(
          (channel) => Math.abs(one.data[pixel + channel] - other.data[pixel + channel]) > ${CHANNEL_TOLERANCE},
        );
        if (isVisible) different += 1;
      }
      return different / (one.width * one.height);
    })()`);
  } finally {
    await page.close();
  }
}

const ROOT = path.resolve(import.meta.dirname, "../../..");
const COMMAND = "npm run screenshots";
const isWriting = process.env["PICTURES"] === "write";
const END = "2026-11-22T14:32:07Z";
const DESK = { viewport: { width: 1280, height: 800 }, colorScheme: "light" } as const;
/** Of all pixels. Other fonts differ in tens of per cent, a changed word in a few thousandths. */
const SHARE_MAX = 0.002;

/** Made of a mirror whose clock stands still, so that they are the same at every run. */
describe.skipIf(findChromium() === undefined)(`README's pictures (else ${NO_BROWSER})`, () => {
  let database: Awaited<ReturnType<typeof makeFixedClockDatabase>>;
  let pool: Pool;
  let server: TestServer;
  let browser: Browser;

  beforeAll(async () => {
    database = await makeFixedClockDatabase();
    pool = makePool({ url: database.url, purpose: "ops", max: 4, statementTimeoutMs: 10_000 });
    await fillShop(pool, { end: END, setClock: (instant) => database.setClock(instant) });
    const config = { opsPassword: null, opsViewerPassword: null, localTrust: true };
    const router = makeOpsRouter({ pool, queues: () => [], config, logger: silentLogger });
    server = await serve(setAnswerHeaders, router);
    const opened = await openBrowser();
    if (opened === undefined) throw new Error(NO_BROWSER);
    browser = opened;
  });
  afterAll(async () => {
    await browser.close();
    await server.close();
    await pool.end();
    await database.drop();
  });

  it.each([
    ["overview", "/ops"],
    ["orders", "/ops/orders"],
  ])("%s shows the page as it is", async (name, address) => {
    const { page, troubles, close } = await openTab(browser, server.url, DESK);
    // The page's line about updates counts seconds.
    await page.clock.setFixedTime(END);
    await page.goto(address, { waitUntil: "networkidle" });
    const fresh = await page.screenshot({ animations: "disabled", caret: "hide" });
    await close();
    expect(troubles).toEqual([]);
    const file = path.join(ROOT, `docs/images/${name}.png`);
    if (isWriting) return writeFile(file, fresh);
    const difference = await comparePictures(browser, await readFile(file), fresh);
    expect(
      difference <= SHARE_MAX,
      `${name}.png shows the page as it was: run ${COMMAND}, and look at what has changed`,
    ).toBe(true);
  });
});
