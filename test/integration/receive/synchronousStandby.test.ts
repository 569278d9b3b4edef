import pg from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { makeBody, post, startReceiving } from "../../support/signing/receiving.ts";
import { startOwnPostgres, startStandby, waitForStandby } from "../../support/servers/ownPostgres.ts";

const PATIENCE = { timeout: 60_000, interval: 50 };

it("a stalled standby uses no more connections than a pool has, and nothing is acknowledged that it lacks", async () => {
  const server = await startOwnPostgres();
  onTestFinished(() => server.remove());
  const standby = await startStandby(server);
  onTestFinished(() => standby.remove());
  await waitForStandby(server);
  const primary = new pg.Client(server.url);
  const replica = new pg.Client(standby.url);
  for (const client of [primary, replica]) {
    client.on("error", () => undefined);
    await client.connect();
    onTestFinished(() => client.end());
  }
  const receiving = await startReceiving({ url: server.url, givesUp: true });
  onTestFinished(() => receiving.close());
  const send = async (id: string) => (await post(receiving.port, makeBody(id))).status;
  const count = async (client: pg.Client, where: string) =>
    (await client.query<{ n: number }>(`select count(*)::int as n from ${where}`)).rows[0]?.n;
  const waiting = () => count(primary, "pg_stat_activity where wait_event = 'SyncRep'");
  const stored = (client: pg.Client, id: string) => count(client, `mirror.inbox where event_id = '${id}'`);

  expect(await send("evt_before")).toBe(200);
  const { rows } = await replica.query<{ pid: number }>(
    "select pid from pg_stat_activity where backend_type = 'walreceiver'",
  );
  const walReceiver = rows[0]!.pid;
  process.kill(walReceiver, "SIGSTOP");
  onTestFinished(() => void process.kill(walReceiver, "SIGCONT"));

  let most = 0;
  for (let n = 0; n < 6; n += 1) {
    expect(await send(`evt_${n}`)).toBe(503);
    most = Math.max(most, (await waiting()) ?? 0);
  }
  expect(most).toBeLessThanOrEqual(2);
  await vi.waitFor(async () => expect(await waiting()).toBe(0), PATIENCE);
  // Committed on the primary, because the wait was cancelled; the standby lacks it.
  expect(await stored(primary, "evt_0")).toBe(1);
  expect(await stored(replica, "evt_0")).toBe(0);
  expect(await send("evt_0")).toBe(503);

  process.kill(walReceiver, "SIGCONT");
  await vi.waitFor(async () => expect(await send("evt_0")).toBe(200), PATIENCE);
  expect(await stored(primary, "evt_0")).toBe(1);
  await vi.waitFor(async () => expect(await stored(replica, "evt_0")).toBe(1), PATIENCE);
});
