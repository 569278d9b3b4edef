import { beforeEach, expect, it, onTestFinished } from "vitest";
import { runCommand } from "../../support/programs/command.ts";
import { startProgram } from "../../support/programs/program.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { LIVE, makeTestSandbox } from "../../support/providers/testSandbox.ts";
import { emptying } from "../../support/mirror/tables.ts";
import { WEBHOOK_SECRET } from "../../support/signing/signing.ts";

const { database, pool } = await openTestDatabase();
await addSource(pool, "live");
beforeEach(() => pool.query(emptying("period_requests")));

const run = (...args: string[]) => runCommand(["backfill", ...args], { databaseUrl: database.url });
/** As where web or a worker runs. */
const KEYLESS = {
  DELIVERY_BASE_URL: "https://api.example.com",
  DELIVERY_LIVE_WEBHOOK_SECRETS: WEBHOOK_SECRET,
};

function startPoller() {
  const provider = makeMemoryProvider();
  provider.put("old", secondsAgo(3 * 86_400));
  makeLivePoller({ client: provider, pool, intervalSeconds: 0.1, backfillSince: "PT1M" }).start();
}

const isAsked = () =>
  expect
    .poll(async () => (await pool.query("select from mirror.period_requests")).rowCount, { timeout: 60_000 })
    .toBe(1);

it("is in the audit log, says that polling is paused, and is cancelled by Ctrl-C", async () => {
  await pool.query("update mirror.sources set paused_at = now()");
  onTestFinished(async () => void (await pool.query("update mirror.sources set paused_at = null")));
  const period = ["--from", "2026-01-01", "--to", "2026-01-02"];
  const command = startProgram(["backfill", ...period], { DATABASE_URL: database.url });
  await isAsked();
  expect(await command.stop("SIGINT")).toMatchObject({
    signal: "SIGINT",
    stdout: "",
    stderr: expect.stringMatching(
      /^Polling of live is paused: this waits for `order-mirror source resume live`\.\n.*the poller that has it does the work\.\nCancelled; what was read stays\.\n$/,
    ),
  });
  const { rows } = await pool.query("select state from mirror.period_requests");
  expect(rows).toEqual([{ state: "cancelled" }]);
  const actions = await pool.query("select action, source_id, target, affected::int from mirror.ops_actions");
  const target = "2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z";
  expect(actions.rows).toEqual([{ action: "backfill", source_id: "live", target, affected: 1 }]);
});

it("is done by the poller that leads the source", async () => {
  startPoller();
  const { code, stdout } = await run("--from", "P9D");
  // A window that a busy machine makes the poller read again is counted again.
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^Read [1-9] orders? with/) });
  expect(stdout).toContain("The mirror is complete from");
});

it.each([
  ["backfill", "unproved = 2", 3, "2 parts could not be proved complete"],
  ["backfill", "unproved = 0", 0, ""],
  ["backfill", "state = 'failed'", 1, "order-mirror: It failed: the key is refused"],
  ["verify", "differed = 0", 0, ""],
  ["verify", "differed = 1", 3, ""],
  ["verify", "unreadable = 1", 3, ""],
])(
  "without a key waits for the poller that has it, and tells how it ended: %s with %s is exit %i",
  async (verb, end, code, sentence) => {
    const running = runCommand([verb, "--from", "P9D"], { databaseUrl: database.url, env: KEYLESS });
    await isAsked();
    const state = end.startsWith("state") ? "" : "state = 'done', ";
    await pool.query(
      `update mirror.period_requests set ${state}${end}, last_error = 'the key is refused', started_at = now(), ended_at = now()`,
    );
    const ended = await running;
    expect(ended).toMatchObject({ code, stderr: expect.stringContaining(sentence) });
    expect(ended.stderr).toContain("the poller that has it does the work.");
  },
);

it("does the work itself as the first command after migrate, and ends with its result", async () => {
  const sandbox = await makeTestSandbox();
  onTestFinished(() => sandbox.close());
  const { database: own, pool: ownPool } = await openTestDatabase({ max: 1, ends: onTestFinished });
  const since = new Date(Date.now() - 2 * 3_600_000).toISOString();
  await sandbox.steer("POST", "/seed", { orders: 30, since });
  const env = {
    DELIVERY_BASE_URL: sandbox.url,
    DELIVERY_LIVE_API_KEY: LIVE,
    POLL_INTERVAL_SECONDS: "1",
    POLL_MARGIN_SECONDS: "1",
    BACKFILL_SINCE: "PT1H",
  };
  const args = ["backfill", "--source", "live", "--from", "PT3H", "--to", "PT2M", "--json"];
  const read = await runCommand(args, { databaseUrl: own.url, env });
  expect({ code: read.code, stderr: read.stderr }).toMatchObject({ code: 0 });
  expect(JSON.parse(read.stdout)).toMatchObject({ state: "done", unproved: 0 });
  const { rows } = await ownPool.query("select from mirror.leases where expires_at > clock_timestamp()");
  expect(rows).toEqual([]);
});
