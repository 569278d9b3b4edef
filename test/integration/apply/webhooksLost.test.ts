import { expect, it, onTestFinished } from "vitest";
import { judgeWebhooks } from "../../../src/domain/order/lostEvents.ts";
import { makePool } from "../../../src/database/database.ts";
import { readStandings } from "../../../src/health/standing.sql.ts";
import { makePoller } from "../../../src/poll/poller.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, putIntoInbox } from "../../support/mirror/orders.ts";
import { LIVE, receiveEvents, SANDBOX_SECRET, speakTo } from "../../support/providers/testSandbox.ts";

const WAIT = { timeout: 60_000, interval: 50 };

async function startWorld(webhooksConfigured: boolean) {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const receiver = await receiveEvents();
  const sandbox = await startSandbox({
    databaseUrl: database.url,
    port: 0,
    seed: 1,
    speed: 0,
    rateLimits: false,
    webhooks: { live: { url: receiver.url, secret: SANDBOX_SECRET } },
  });
  onTestFinished(() => sandbox.close());
  const pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  await addSource(pool, "live");
  const apply = makeLiveApply(pool);
  const poller = makePoller({
    source: { sourceId: "live" },
    client: makeProviderClient({
      baseUrl: sandbox.url,
      apiKey: LIVE,
      budget: makeBudget({ clock: systemClock }),
      clock: systemClock,
      logger: silentLogger,
    }),
    pool,
    apply,
    clock: systemClock,
    logger: silentLogger,
    intervalSeconds: 0.6,
    marginSeconds: 2,
    backfillSince: "PT1M",
    pace: "cycle",
    holder: "test",
    rateWindowMs: 0,
    webhooksConfigured,
    eventGraceSeconds: 1,
  });
  onTestFinished(() => poller.close());
  const { steer } = speakTo(sandbox);
  const { references } = (await steer("POST", "/orders", { count: 6 })) as { references: string[] };
  const [first = "", ...others] = references;

  const applyReceived = async () => {
    const events = receiver.received.splice(0);
    const bodies = events.map(({ body, event }) => ({ eventId: event.id as string, body }));
    if (bodies.length > 0) await apply.applyEvents(await putIntoInbox(pool, bodies));
  };
  const step = (reference: string) => steer("POST", `/orders/${reference}/step`);
  const stepAnnounced = async (reference: string) => {
    receiver.received.length = 0;
    await step(reference);
    await expect.poll(() => receiver.received.length, WAIT).toBe(1);
    await applyReceived();
  };
  const read = async () => ({ ...(await readStandings(pool, "live"))[0]!, configured: webhooksConfigured });
  const mirrored = async () => (await pool.query("select from mirror.orders")).rowCount;
  return { pool, mirrored, poller, steer, step, stepAnnounced, first, others, read };
}

it("reports that webhooks stopped, with the number of lost events, and that they resumed", async () => {
  const { mirrored, poller, steer, step, stepAnnounced, first, others, read } = await startWorld(true);
  poller.start();
  await expect.poll(mirrored, WAIT).toBe(1 + others.length);
  await stepAnnounced(first);
  await expect.poll(async () => (await read()).announced, WAIT).toBe(1);
  expect(judgeWebhooks(await read())).toBe("working");
  const { announced } = await read();

  await steer("POST", "/faults", { loseShare: 1 });
  for (const reference of others.slice(0, 3)) await step(reference);
  await expect.poll(read, WAIT).toMatchObject({ lost: 3, lostSinceLastEvent: 3, announced });
  expect(judgeWebhooks(await read())).toBe("stopped");

  await steer("POST", "/faults", { loseShare: 0 });
  await stepAnnounced(others[3] ?? "");
  await expect.poll(read, WAIT).toMatchObject({ lost: 3, lostSinceLastEvent: 0, announced: announced + 1 });
  expect(judgeWebhooks(await read())).toBe("losing");
});

it("expects no events of a source without webhook secrets", async () => {
  const { poller, pool, steer, step, others, read } = await startWorld(false);
  await steer("POST", "/faults", { loseShare: 1 });
  poller.start();
  for (const reference of others) await step(reference);
  const mirrored = async () =>
    (await pool.query("select from mirror.orders where status <> 'created'")).rowCount;
  await expect.poll(mirrored, WAIT).toBe(others.length);
  expect(judgeWebhooks(await read())).toBe("not-configured");
  expect((await pool.query("select from mirror.unannounced_changes where state = 'lost'")).rowCount).toBe(0);
});
