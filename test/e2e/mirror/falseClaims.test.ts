import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text as readText } from "node:stream/consumers";
import { afterAll, expect, it, vi } from "vitest";
import { formatInstant, type Instant } from "../../../src/domain/order/instant.ts";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { startForeignProvider } from "../../support/providers/foreignProvider.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import { makeEventBody } from "../../support/mirror/orders.ts";
import { runCommand } from "../../support/programs/command.ts";
import { startProgram, stopPrograms } from "../../support/programs/program.ts";
import { listenHere } from "../../support/http/serve.ts";
import { sendEvent, WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const OUTGOING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const MINUTE = 60_000_000_000n;
const YEAR = 525_600n * MINUTE;
const WAIT = { timeout: 60_000, interval: 200 };
const ORDERS = 120;

const { database } = await openTestDatabase();
/** Messages of our own outgoing webhooks. */
const messages: { type: string; data: { reference: string; verdict: string; status: string } }[] = [];
const provider = await startForeignProvider();
/** When the provider's orders changed last: two hours ago. */
const old = (secondsAgo(7_200) / 1_000_000_000n) * 1_000_000_000n;
for (let n = 0; n < ORDERS; n += 1) provider.put(`O-${n}`, old + BigInt(n % 7) * MINUTE, "delivered");
const receiver = createServer((request, response) => {
  void readText(request).then((body) => {
    messages.push(JSON.parse(body) as (typeof messages)[number]);
    response.writeHead(204).end();
  });
});
const { url, close } = await listenHere(receiver);
const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-claims-"));
const outgoing = path.join(folder, "outgoing.json");
await writeFile(outgoing, JSON.stringify([{ name: "erp", url, secret: OUTGOING_SECRET, sources: ["live"] }]));
const port = await findFreePort();
const address = `http://127.0.0.1:${port}`;
const env = {
  DATABASE_URL: database.url,
  PORT: String(port),
  DELIVERY_BASE_URL: provider.url,
  DELIVERY_LIVE_API_KEY: "dos_live_x",
  DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
  POLL_INTERVAL_SECONDS: "1",
  // An order is gone with the second answer, a margin after the first.
  POLL_MARGIN_SECONDS: "5",
  BACKFILL_SINCE: "PT5H",
  OUTGOING_WEBHOOKS_FILE: outgoing,
};
await startProgram(["up"], env).waitFor(/poller is ready/);
await vi.waitUntil(async () => (await readSafeThrough()) > old + 30n * MINUTE, WAIT);
afterAll(async () => {
  await stopPrograms();
  await provider.close();
  await close();
  await rm(folder, { recursive: true });
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

const command = (...args: string[]) => runCommand(args, { databaseUrl: database.url, env });

it("five false claims about old orders are corrected automatically, for every kind of reader", async () => {
  expect(await readServed()).toEqual(provider.truth());
  await claimFalsely();
  await expect.poll(countDecisions, WAIT).toBe(5);
  await expect.poll(readServed, WAIT).toEqual(provider.truth());
  const { stdout } = await command("status");
  expect(stdout).toMatch(/Reads contradict 3 signed events of live/);

  // As after a time without reads, when only the events describe the orders.
  await database.pool.query(`alter table mirror.orders disable trigger orders_only_grow;
    update mirror.orders set horizon = null;
    delete from mirror.orders where reference = 'INVENTED';
    alter table mirror.orders enable trigger orders_only_grow`);
  await claimFalsely();
  await expect.poll(countDecisions, WAIT).toBe(10);
  await expect.poll(readServed, WAIT).toEqual(provider.truth());

  const feed = (await (await fetch(`${address}/v1/changes?limit=500`)).json()) as {
    data: { reference: string; verdict: string; status: string }[];
  };
  const corrections = feed.data.filter(({ verdict }) => verdict === "corrected");
  expect(corrections).toEqual(
    expect.arrayContaining([expect.objectContaining({ reference: "O-7", status: "delivered" })]),
  );
  expect(feed.data.findLast(({ reference }) => reference === "INVENTED")?.verdict).toBe("gone");
  const messagesAbout = (reference: string) =>
    messages.flatMap(({ data }) => (data.reference === reference ? [`${data.verdict} ${data.status}`] : []));
  await expect.poll(() => messagesAbout("O-7"), WAIT).toContain("corrected delivered");
  await expect.poll(() => messagesAbout("INVENTED"), WAIT).toContain("gone cancelled");
  const { rows } = await database.pool.query(
    "select verdict, via from reporting.order_history where reference = 'O-7' order by history_id",
  );
  expect(rows).toContainEqual({ verdict: "refuted", via: "webhook" });
  expect(rows).toContainEqual(expect.objectContaining({ verdict: "corrected" }));
  const page = await (await fetch(`${address}/ops/orders/live/O-7`)).text();
  for (const shown of [(await command("order", "O-7")).stdout, page])
    for (const verdict of [/refuted/i, /corrected/i]) expect(shown).toMatch(verdict);
});

it("what was sent to an endpoint is counted, and sent again by hand", async () => {
  const metrics = await (await fetch(`${address}/metrics`)).text();
  expect(metrics).toMatch(/order_mirror_outgoing_pending\{endpoint="erp"\} \d+/);
  const list = await command("outgoing", "list", "--json");
  expect(JSON.parse(list.stdout)).toMatchObject([{ endpointId: "erp", dead: 0 }]);
  const before = messages.length;
  const replay = await command("outgoing", "replay", "erp", "--yes", "--since", "PT1H", "--json");
  expect(JSON.parse(replay.stdout)).toMatchObject({ replayed: true });
  await expect.poll(() => messages.length, WAIT).toBeGreaterThan(before);
  const unknown = await command("outgoing", "retry", "none", "--yes");
  expect([unknown.code, unknown.stderr]).toEqual([
    2,
    expect.stringContaining("`order-mirror outgoing list` shows the known endpoints"),
  ]);
});
