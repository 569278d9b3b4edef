import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { findFreePort } from "../../../src/postgres/freePort.ts";
import { makeEventLoad } from "../../support/faults/events.ts";
import { at, makeEventBody } from "../../support/mirror/orders.ts";
import { runOnServer } from "../../support/servers/database.ts";
import { startOwnPostgres, type OwnPostgres } from "../../support/servers/ownPostgres.ts";
import { startRole, stopPrograms } from "../../support/programs/program.ts";
import { readRssBytes } from "../../support/programs/processes.ts";
import { sendEvent } from "../../support/signing/signing.ts";

const MEBIBYTE = 1_048_576;

let postgres: OwnPostgres;
let url: string;
let env: Record<string, string>;
beforeAll(async () => {
  postgres = await startOwnPostgres();
});
beforeEach(async () => {
  const port = await findFreePort();
  url = `http://127.0.0.1:${port}`;
  env = { DATABASE_URL: postgres.url, PORT: String(port) };
});
afterEach(async () => {
  postgres.thaw();
  await stopPrograms();
});
afterAll(() => postgres.remove());

it("a shutdown in the middle of traffic loses nothing and exits within its deadline, although Postgres is frozen", async () => {
  const up = await startRole("up", env);
  const { acknowledged, ...load } = makeEventLoad(`${url}/webhooks/live`);
  load.start();
  await expect.poll(() => acknowledged.size, { timeout: 60_000, interval: 10 }).toBeGreaterThan(100);
  await postgres.freeze();
  const { code, signal } = await up.stop("SIGTERM");
  await load.stop();
  postgres.thaw();
  const rows = await runOnServer(postgres.url, "select event_id as id from mirror.inbox");
  const stored = new Set(rows.map(({ id }) => id));
  expect([...acknowledged].filter((id) => !stored.has(id))).toEqual([]);
  // By the signal if everything could be closed, with code 1 if the deadline ended it.
  expect([signal, code]).toEqual(code === 1 ? [null, 1] : ["SIGTERM", null]);
});

it("several times what may wait at once is refused with 503, in bounded memory, and then all is well again", async () => {
  const web = await startRole("web", env);
  const body = (id: string) => {
    const order = { reference: "BIG", updatedAt: at(1), more: { note: "x".repeat(MEBIBYTE / 2) } };
    return makeEventBody({ id, order });
  };
  const fire = (id: string) => sendEvent(`${url}/webhooks/live`, { id, body: body(id) });
  expect(await fire("evt_before")).toBe(200);
  await postgres.freeze();
  // 64 MiB of bodies may be in memory at a time (receive/callBody.ts); these are 240 MiB.
  const statuses = new Map<number | null, number>();
  let peakBytes = 0;
  const senders = Array.from({ length: 160 }, async (_, sender) => {
    for (let shot = 0; shot < 3; shot += 1) {
      const status = await fire(`evt_${sender}_${shot}`);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      peakBytes = Math.max(peakBytes, await readRssBytes(web.child.pid ?? 0));
    }
  });
  await Promise.all(senders);
  // On a busy machine, senders that gave up got no answer; every answer was a refusal with Retry-After.
  expect(statuses.get(200)).toBeUndefined();
  expect(statuses.get(503)).toBeGreaterThan(0);
  expect(peakBytes).toBeLessThan(512 * MEBIBYTE);
  postgres.thaw();
  await expect.poll(() => fire("evt_after"), { timeout: 60_000 }).toBe(200);
});
