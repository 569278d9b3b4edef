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

const MINUTE = 60_000_000_000n;
const YEAR = 525_600n * MINUTE;
const WAIT = { timeout: 60_000, interval: 200 };
const ORDERS = 120;

let database: TestDatabase;
let provider: ForeignProvider;
let env: Record<string, string>;
let address: string;
/** When the provider's orders changed last: two hours ago. */
let old: Instant;

beforeAll(async () => {
  database = await makeTestDatabase();
  provider = await startForeignProvider();
  old = (secondsAgo(7_200) / 1_000_000_000n) * 1_000_000_000n;
  for (let n = 0; n < ORDERS; n += 1) provider.put(`O-${n}`, old + BigInt(n % 7) * MINUTE, "delivered");
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
  };
  await startProgram(["up"], env).waitFor(/poller is ready/);
  await vi.waitUntil(async () => (await readSafeThrough()) > old + 30n * MINUTE, WAIT);
});
afterAll(async () => {
  await stopPrograms();
  await provider.close();
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
  const status = await sendEvent(`${address}/webhooks/live`, { id, body: makeEventBody({ id, order }) });
  expect(status).toBe(200);
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
  await database.pool
    .query(`create function keep_out() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger keep_out before insert on mirror.refetches for each row execute function keep_out()`);
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
