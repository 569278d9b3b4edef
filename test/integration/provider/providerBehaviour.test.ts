import { expect, it, onTestFinished } from "vitest";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { makePool } from "../../../src/database/database.ts";
import { readStandings } from "../../../src/health/standing.sql.ts";
import { readBehaviour } from "../../../src/poll/ledger/providerBehaviour.sql.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import type { SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { LIVE, speakTo } from "../../support/providers/testSandbox.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const HOUR_NANOS = 3_600n * 10n ** 9n;

/** A fast poller over 300 orders of the hour before last, 20 of which changed at one instant. */
async function startWorld(faults: SandboxOptions["faults"]) {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const sandbox = await startSandbox({
    databaseUrl: database.url,
    port: 0,
    seed: 1,
    speed: 0,
    rateLimits: false,
    faults: { timestampGranularity: "us", ...faults },
  });
  onTestFinished(() => sandbox.close());
  const pool = makePool({ url: database.url, purpose: "poll", max: 4, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  const { steer } = speakTo(sandbox);
  await steer("POST", "/seed", { orders: 300, since: formatInstant(sandbox.now() - 10n ** 12n) });
  await pool.query(
    `update sandbox.orders set updated_at = $1::bigint + greatest(0, number - 20) * 1000001000::bigint`,
    [((sandbox.now() - HOUR_NANOS) / 1_000_000_000n) * 1_000_000_000n],
  );
  await addSource(pool, "live");
  const poller = makeLivePoller({
    client: makeProviderClient({
      baseUrl: sandbox.url,
      apiKey: LIVE,
      budget: makeBudget({
        clock: systemClock,
        limits: {
          sustained: { requestsMax: 10_000, windowMs: 10_000 },
          "order-list": { requestsMax: 10_000, windowMs: 10_000 },
          geocoding: { requestsMax: 100, windowMs: 10_000 },
        },
      }),
      clock: systemClock,
      logger: silentLogger,
    }),
    pool,
    intervalSeconds: 0.3,
    backfillSince: "PT3H",
    holder: "test",
  });
  onTestFinished(() => poller.close());
  poller.start();
  const behaviour = async () =>
    Object.fromEntries((await readBehaviour(pool)).map(({ aspect, value }) => [aspect, value]));
  return { pool, sandbox, steer, behaviour };
}

it("learns the behaviour of a provider that follows the spec from its ordinary reads", async () => {
  const { behaviour } = await startWorld({});
  await expect.poll(behaviour, WAIT).toEqual({
    sort: "ascending",
    precision: "microsecond",
    page: "200",
    clock: "within 5 s",
    rate: "20 per 10 s",
  });
});

it("learns the behaviour of a provider that differs in several aspects", async () => {
  const { behaviour } = await startWorld({
    listOrder: "descending",
    listTies: "random",
    listBounds: "inclusive",
    listLimitMax: 100,
    clockSkewMs: 600_000,
  });
  await expect.poll(behaviour, WAIT).toMatchObject({
    sort: "descending",
    page: "100",
    clock: "over 5 min behind",
  });
});

it("does not call a changed difference of the clocks, which may be ours, a change of the provider", async () => {
  const { pool, sandbox } = await startWorld({});
  const readClock = async () => (await readBehaviour(pool)).find(({ aspect }) => aspect === "clock");
  await expect.poll(readClock, WAIT).toMatchObject({ value: "within 5 s" });
  sandbox.setFaults({ clockSkewMs: 600_000 });
  await expect.poll(readClock, WAIT).toMatchObject({ previous: "within 5 s" });
  expect((await readStandings(pool))[0]?.behaviourChangedAt).toBeNull();
});

it("records when a provider's behaviour changes, with the previous value", async () => {
  const { pool, sandbox, steer } = await startWorld({});
  const read = async (name: string) => (await readBehaviour(pool)).find(({ aspect }) => aspect === name);
  await expect.poll(() => read("sort"), WAIT).toMatchObject({ value: "ascending", changedAt: null });
  expect((await readStandings(pool))[0]?.behaviourChangedAt).toBeNull();
  sandbox.setFaults({ listOrder: "descending" });
  // New orders, so that the current window has some to sort.
  await steer("POST", "/orders", { count: 8 });
  await pool.query("update sandbox.orders set updated_at = $1 + number * 1000 where number > 300", [
    sandbox.now(),
  ]);
  await expect.poll(() => read("sort"), WAIT).toMatchObject({ value: "descending", previous: "ascending" });
  const [standing] = await readStandings(pool);
  expect(standing?.behaviourChangedAt).toBeGreaterThan(standing!.now - 60_000_000_000n);
});
