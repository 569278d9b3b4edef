import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text as readText } from "node:stream/consumers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import type { Instant } from "../../../src/domain/order/instant.ts";
import { findFreePort } from "../../../src/runtime/postgres/freePort.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { startForeignProvider } from "../../support/providers/foreignProvider.ts";
import type { ForeignProvider } from "../../support/providers/foreignProvider.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import { makeEventBody } from "../../support/mirror/orders.ts";
import { runProgram, startProgram, stopPrograms } from "../../support/programs/program.ts";
import { json, text } from "../../support/providers/scriptedProvider.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/webhooks.ts";

const OUTGOING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const MINUTE = 60_000_000_000n;
const YEAR = 525_600n * MINUTE;
const WAIT = { timeout: 60_000, interval: 200 };
const ORDERS = 120;

let database: TestDatabase;
let provider: ForeignProvider;
let env: Record<string, string>;
let address: string;
/** Messages of our own outgoing webhooks. */
const messages: { type: string; data: { reference: string; verdict: string; status: string } }[] = [];
let receiver: Server;
let folder: string;
/** When the provider's orders changed last: two hours ago. */
let old: Instant;

beforeAll(async () => {
  database = await makeTestDatabase();
  provider = await startForeignProvider();
  old = (secondsAgo(7_200) / 1_000_000_000n) * 1_000_000_000n;
  for (let n = 0; n < ORDERS; n += 1) provider.put(`O-${n}`, old + BigInt(n % 7) * MINUTE, "delivered");
  receiver = createServer((request, response) => {
    void readText(request).then((body) => {
      messages.push(JSON.parse(body) as (typeof messages)[number]);
      response.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  folder = await mkdtemp(path.join(tmpdir(), "order-mirror-claims-"));
  const outgoing = path.join(folder, "outgoing.json");
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  await writeFile(
    outgoing,
    JSON.stringify([{ name: "erp", url, secret: OUTGOING_SECRET, sources: ["live"] }]),
  );
  const port = await findFreePort();
  address = `http://127.0.0.1:${port}`;
  env = {
    DATABASE_URL: database.url,
    PORT: String(port),
    DELIVERY_BASE_URL: provider.url,
    DELIVERY_LIVE_API_KEY: "dos_live_x",
    DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
    POLL_INTERVAL_SECONDS: "1",
    BACKFILL_SINCE: "PT5H",
    OUTGOING_WEBHOOKS_FILE: outgoing,
  };
  await startProgram(["up"], env).waitFor(/poller is ready/);
  await vi.waitUntil(async () => (await readSafeThrough()) > old + 30n * MINUTE, WAIT);
});
afterAll(async () => {
  await stopPrograms();
  await provider.close();
  receiver.closeAllConnections();
  receiver.close();
  await rm(folder, { recursive: true });
  await database.drop();
});

async function readServed(): Promise<Record<string, string>> {
  const response = await fetch(`${address}/v1/orders?limit=200`);
  const { data } = (await response.json()) as { data: { reference: string; status: string }[] };
  return Object.fromEntries(data.map(({ reference, status }) => [reference, status]));
}

async function readSafeThrough(): Promise<bigint> {
  const { rows } = await database.pool.query<{ instant: string | null }>(
    "select safe_through as instant from mirror.poll_state",
  );
  return BigInt(rows[0]?.instant ?? 0);
}

let events = 0;
async function claim(reference: string, updatedAt: Instant, more: Record<string, unknown> = {}) {
  const id = `evt_${(events += 1)}`;
  const order = { reference, updatedAt: formatInstant(updatedAt), status: "cancelled", more };
  const event = { id, body: makeEventBody({ id, order }) };
  // As a provider does: what was not accepted is sent again.
  await expect.poll(() => sendEvent(`${address}/webhooks/live`, event), WAIT).toBe(200);
}

/** Signed with the right secret, about orders that have not changed for two hours. */
async function claimFalsely(): Promise<void> {
  await claim("O-0", old + 1_000_000n);
  await claim("O-7", old + 10n * MINUTE);
  await claim("O-14", old, { customer: { firstName: "FORGED" } });
  await claim("O-21", old + 234n * YEAR);
  await claim("INVENTED", old + MINUTE);
}

async function countDecisions(): Promise<number> {
  const { rowCount } = await database.pool.query("select from mirror.history where via = 'webhook'");
  return rowCount ?? 0;
}

it("five false claims about old orders are corrected automatically", async () => {
  expect(await readServed()).toEqual(provider.truth());
  await claimFalsely();
  await expect.poll(countDecisions, WAIT).toBe(5);
  await expect.poll(readServed, WAIT).toEqual(provider.truth());
  const { stdout } = await runProgram(["status"], env);
  expect(stdout).toMatch(/Reads contradict 3 signed events of live/);
});

it("a verification corrects five false claims and reports them", async () => {
  // As after a time without reads, when only the events describe the orders.
  await database.pool.query(`alter table mirror.orders disable trigger orders_only_grow;
    update mirror.orders set horizon = null;
    delete from mirror.orders where reference = 'INVENTED';
    alter table mirror.orders enable trigger orders_only_grow`);
  // Only the verification may have orders read singly.
  await database.pool
    .query(`create function keep_out() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger keep_out before insert on mirror.refetches for each row when (new.request_id is null)
    execute function keep_out()`);
  const decided = await countDecisions();
  await claimFalsely();
  await expect.poll(countDecisions, WAIT).toBe(decided + 5);
  expect(Object.keys(await readServed())).toHaveLength(ORDERS + 1);
  const { code, stdout, stderr } = await runProgram(["verify", "--from", "PT5H"], env);
  expect(await readServed()).toEqual(provider.truth());
  expect(stdout).toMatch(/contradicted +2 /);
  expect(stdout).toMatch(/extra +1 /);
  expect(stderr).toMatch(/repaired/);
  expect(code).toBe(3);
  await database.pool.query("drop trigger keep_out on mirror.refetches");
});

it("a correction reaches every kind of reader", async () => {
  const feed = (await (await fetch(`${address}/v1/changes?limit=500`)).json()) as {
    data: { reference: string; verdict: string; status: string }[];
  };
  const corrections = feed.data.filter(({ verdict }) => verdict === "corrected");
  expect(corrections).toEqual(
    expect.arrayContaining([expect.objectContaining({ reference: "O-7", status: "delivered" })]),
  );
  expect(feed.data.findLast(({ reference }) => reference === "INVENTED")?.verdict).toBe("gone");
  const newestMessage = (reference: string) =>
    messages.findLast(({ data }) => data.reference === reference)?.data;
  await expect
    .poll(() => newestMessage("O-7"), WAIT)
    .toMatchObject({ verdict: "corrected", status: "delivered" });
  await expect.poll(() => newestMessage("INVENTED"), WAIT).toMatchObject({ verdict: "gone" });
  const { rows } = await database.pool.query(
    "select verdict, via from reporting.order_history where reference = 'O-7' order by history_id",
  );
  expect(rows).toContainEqual({ verdict: "refuted", via: "webhook" });
  expect(rows).toContainEqual(expect.objectContaining({ verdict: "corrected" }));
  const { stdout } = await runProgram(["order", "O-7"], env);
  expect(stdout).toMatch(/refuted/);
  expect(stdout).toMatch(/corrected/);
  const page = await (await fetch(`${address}/ops/orders/live/O-7`)).text();
  expect(page).toMatch(/refuted/i);
  expect(page).toMatch(/corrected/i);
});

// integration/apply/unreadableOrders checks, in virtual time, how fast the proof advances.
it("orders that can never be refetched do not delay the proof", async () => {
  provider.answerSingly("O-3", json(500, { error: "out of order" }));
  provider.answerSingly("O-4", json(404, "<h1>not here</h1>"));
  provider.answerSingly("O-5", text(200, "<html>ok</html>"));
  for (const reference of ["O-3", "O-4", "O-5"]) {
    await runProgram(["refetch", reference], env);
    const asked = () => provider.requests.filter(({ url }) => url.endsWith(`/${reference}`)).length;
    await expect.poll(asked, WAIT).toBeGreaterThan(0);
  }
  for (let moves = 0; moves < 2; moves += 1) {
    const before = await readSafeThrough();
    await expect.poll(readSafeThrough, WAIT).toBeGreaterThan(before);
  }
});
