import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { openRaw, type RawConnection } from "../../support/http/rawHttp.ts";
import { serve } from "../../support/http/serve.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { insertMany } from "../../support/mirror/orders.ts";
import { openTestDatabase, untilWaiting } from "../../support/servers/database.ts";

const GREEDY = "greedy-token-0123456789";
const MODEST = "modest-token-0123456789";

const { database, pool } = await openTestDatabase({ purpose: "read", max: 4, statementTimeoutMs: 120_000 });
const exportPool = makePool({ url: database.url, purpose: "export", max: 4, statementTimeoutMs: 120_000 });
const apiTokens = [GREEDY, MODEST].map((token) => ({ token, sourceId: "live" }));
/** How many requests are neither answered nor given up. */
let underWay = 0;
const server = await serve((_request, response, next) => {
  underWay += 1;
  response.once("close", () => (underWay -= 1));
  next();
}, makeTestApi({ pool, exportPool, apiTokens }));
const port = Number(new URL(server.url).port);
const opened: RawConnection[] = [];

beforeAll(() => insertMany(database.pool, 1_000, 40_000));
afterAll(async () => {
  for (const connection of opened) connection.abort();
  await server.close();
  await exportPool.end();
});

const ask = (path: string, token: string) =>
  fetch(`${server.url}/v1${path}`, { headers: { authorization: `Bearer ${token}` } });

/** Asks and reads nothing of the answer. */
async function askUnread(path: string, token: string): Promise<void> {
  const connection = await openRaw(port, { reads: false });
  opened.push(connection);
  connection.write(`GET /v1${path} HTTP/1.1\r\nHost: mirror\r\nAuthorization: Bearer ${token}\r\n\r\n`);
}

const untilExporting = (connections: number) =>
  vi.waitFor(async () => {
    const { rowCount } = await database.pool.query(
      "select from pg_stat_activity where application_name = 'order-mirror export' and state = 'idle in transaction'",
    );
    expect(rowCount).toBe(connections);
  }, 60_000);

it("two large answers of the feed are made at a time, however many ask: an acknowledgement waits for no more", async () => {
  const client = await database.pool.connect();
  onTestFinished(() => client.release(true));
  await client.query("begin; lock table mirror.changes in access exclusive mode");
  const query = vi.spyOn(pool, "query");
  const asked = Array.from({ length: 20 }, () => ask("/changes?limit=500", MODEST));
  await vi.waitFor(() => expect(underWay).toBe(20), 60_000);
  await untilWaiting(database.pool, 2);
  // Two statements each.
  expect(query).toHaveBeenCalledTimes(4);
  await client.query("commit");
  const answers = await Promise.all(asked);
  expect(answers.map(({ status }) => status)).toEqual(asked.map(() => 200));
  await Promise.all(answers.map((answer) => answer.arrayBuffer()));
});

describe("one token", () => {
  it("that reads none of its pages leaves half of the memory for answers to others, and of its own gets 503", async () => {
    for (let index = 0; index < 30; index += 1) await askUnread("/orders?limit=200", GREEDY);
    await vi.waitFor(
      async () => {
        const refused = await ask("/orders?limit=1", GREEDY);
        expect([refused.status, refused.headers.get("etag"), await refused.text()]).toEqual([
          503,
          null,
          expect.stringContaining('"code":"too_many_unread"'),
        ]);
      },
      { timeout: 60_000 },
    );
    const other = await ask("/orders?limit=200", MODEST);
    expect(other.status).toBe(200);
    expect(((await other.json()) as { data: unknown[] }).data).toHaveLength(200);
    for (const connection of opened.splice(0)) connection.abort();
    await vi.waitFor(async () => expect((await ask("/orders?limit=1", GREEDY)).status).toBe(200), {
      timeout: 60_000,
    });
  });

  it("that reads none of its exports leaves half of them to others", async () => {
    for (let index = 0; index < 2; index += 1) await askUnread("/orders.ndjson", GREEDY);
    await untilExporting(2);
    const refused = await ask("/orders.ndjson?status=delivered", GREEDY);
    expect([refused.status, await refused.text()]).toEqual([
      503,
      expect.stringContaining('"code":"too_many_exports"'),
    ]);
    const other = await ask("/orders.ndjson?status=delivered", MODEST);
    expect([other.status, await other.text()]).toEqual([200, ""]);
  });

  it("that goes before the database has answered keeps none of it", async () => {
    const client = await database.pool.connect();
    onTestFinished(() => client.release(true));
    await client.query("begin; lock table mirror.poll_state in access exclusive mode");
    const asked = [...Array<string>(5).fill("/orders?limit=200"), "/orders.ndjson", "/orders.ndjson"];
    for (const path of asked) await askUnread(path, GREEDY);
    await untilWaiting(database.pool, 4);
    for (const connection of opened.splice(0)) connection.abort();
    await vi.waitFor(() => expect(underWay).toBe(0), 60_000);
    await client.query("commit");
    for (const path of ["/orders?limit=1", "/orders.ndjson?status=delivered"])
      for (let time = 0; time < 3; time += 1) {
        const answer = await ask(path, GREEDY);
        expect([path, answer.status]).toEqual([path, 200]);
        await answer.text();
      }
    await untilExporting(0);
  });
});
