import { beforeEach, expect, it, onTestFinished } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeTestDatabase, openTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { LIVE, makeTestSandbox } from "../../support/providers/testSandbox.ts";
import { emptying } from "../../support/mirror/emptying.ts";

const { database, pool } = await openTestDatabase();
await addSource(pool, "live");
beforeEach(() => pool.query(emptying("period_requests")));

const run = (args: readonly string[], interruptWhen?: () => Promise<unknown>) =>
  runCommand(["backfill", ...args], {
    databaseUrl: database.url,
    ...(interruptWhen === undefined ? {} : { interruptWhen }),
  });

function startPoller() {
  const provider = makeMemoryProvider();
  provider.put("old", secondsAgo(3 * 86_400));
  const poller = makeLivePoller({
    client: provider,
    pool,
    intervalSeconds: 0.1,
    backfillSince: "PT1M",
    holder: "test",
  });
  poller.start();
  return poller;
}

it("requests a backfill from the poller, cancels it, and refuses wrong arguments", async () => {
  const asked = await run(["--from", "P9D", "--to", "P1D", "--detach", "--json"]);
  const { requestId, state } = JSON.parse(asked.stdout) as { requestId: string; state: string };
  expect({ code: asked.code, state }).toEqual({ code: 0, state: "requested" });
  expect(asked.stderr).toContain(`order-mirror backfill --watch ${requestId}`);
  expect(await run(["--cancel", requestId])).toMatchObject({
    code: 0,
    stdout: `Backfill ${requestId} is cancelled; what was read stays.\n`,
  });
  expect(await run(["--watch", requestId])).toMatchObject({ code: 1, stdout: "" });
  for (const wrong of [
    [],
    ["--from", "soon"],
    ["--from", "P1D", "--to", "P2D"],
    ["--from", "2062-01-01T00:00:00Z", "--to", "2063-01-01T00:00:00Z"],
    ["--watch", "999"],
  ]) {
    expect(await run(wrong)).toMatchObject({ code: 2, stdout: "" });
  }
  expect(await run(["--from", "P1D", "--source", "other"])).toMatchObject({ code: 2 });
});

it("leaves it running at Ctrl-C and watches it to its end", async () => {
  const isAsked = async () =>
    expect
      .poll(async () => (await pool.query("select from mirror.period_requests")).rowCount, {
        timeout: 60_000,
      })
      .toBe(1);
  const left = await run(["--from", "P9D"], isAsked);
  expect(left.code).toBe(130);
  const [, number = ""] = /--watch (\d+)/.exec(left.stderr) ?? [];
  expect(left.stderr).toContain(`--cancel ${number}`);
  const poller = startPoller();
  const watched = await run(["--watch", number]);
  await poller.close();
  expect(watched).toMatchObject({ code: 0, stdout: expect.stringContaining("Read 1 order with") });
  expect(watched.stdout).toContain("The mirror is complete from");
});

it("exits with 3 when part of the period could not be proved", async () => {
  const { stdout } = await run(["--from", "P9D", "--detach", "--json"]);
  const { requestId } = JSON.parse(stdout) as { requestId: string };
  const end = (unproved: number) =>
    pool.query(
      "update mirror.period_requests set state = 'done', unproved = $1, started_at = now(), ended_at = now()",
      [unproved],
    );
  await end(2);
  const watched = await run(["--watch", requestId]);
  expect(watched).toMatchObject({ code: 3, stdout: expect.stringContaining("Read 0 orders") });
  expect(watched.stderr).toContain("2 parts could not be proved complete");
  expect(await run(["--watch", requestId, "--json"])).toMatchObject({ code: 3 });
  await end(0);
  expect(await run(["--watch", requestId])).toMatchObject({ code: 0 });
});

it("does the work itself while nothing polls, and ends with its result", async () => {
  const sandbox = await makeTestSandbox();
  onTestFinished(() => sandbox.close());
  const own = await makeTestDatabase();
  onTestFinished(() => own.drop());
  const ownPool = makePool({ url: own.url, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  onTestFinished(() => ownPool.end());
  await ownPool.query("insert into mirror.sources (source_id, mode, base_url) values ('live', 'live', $1)", [
    sandbox.url,
  ]);
  const since = new Date(Date.now() - 5 * 86_400_000).toISOString();
  await sandbox.steer("POST", "/seed", { orders: 30, since });
  const env = {
    DELIVERY_BASE_URL: sandbox.url,
    DELIVERY_LIVE_API_KEY: LIVE,
    POLL_INTERVAL_SECONDS: "1",
    POLL_MARGIN_SECONDS: "1",
    BACKFILL_SINCE: "PT1H",
  };
  const command = (verb: string) =>
    runCommand([verb, "--source", "live", "--from", "P9D", "--to", "PT2M", "--json"], {
      databaseUrl: own.url,
      env,
    });
  const read = await command("backfill");
  expect({ code: read.code, stderr: read.stderr }).toMatchObject({ code: 0 });
  expect(JSON.parse(read.stdout)).toMatchObject({ state: "done", unproved: 0 });
  const compared = await command("verify");
  expect(JSON.parse(compared.stdout)).toMatchObject({ state: "done", missing: 0, stale: 0, extra: 0 });
  const { rows } = await ownPool.query("select from mirror.leases where expires_at > clock_timestamp()");
  expect(rows).toEqual([]);
});
