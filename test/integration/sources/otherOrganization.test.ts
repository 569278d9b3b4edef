import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { recordConfiguredSources } from "../../../src/sources/configuredSources.ts";
import { composeWrites } from "../../../src/mirror/web.ts";
import { loadConfig } from "../../../src/config/environment.ts";
import { makeShutdown } from "../../../src/process/shutdown.ts";
import { makeMetrics } from "../../../src/process/telemetry/metrics.ts";
import { serve } from "../../support/http/serve.ts";
import { makeTestApi } from "../../support/mirror/served.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";
import { runCommand } from "../../support/programs/command.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLivePoller } from "../../support/mirror/livePoller.ts";
import { makeMemoryProvider, secondsAgo } from "../../support/providers/memoryProvider.ts";
import { json, startScriptedProvider } from "../../support/providers/scriptedProvider.ts";

const WAIT = { timeout: 60_000 };
const OURS = ["a", "b", "c"];
/** The branches of another organization. */
const OTHERS = ["x", "y"];
const TOKEN = "token-that-may-write";

let url: string;
let pool: Pool;
let provider: Awaited<ReturnType<typeof startScriptedProvider>>;
let env: Record<string, string>;
const configured = () => loadConfig(env, null);

/** A provider, to which writes go, and a source of it. */
beforeEach(async () => {
  const opened = await openTestDatabase({ purpose: "poll", ends: onTestFinished });
  ({ pool } = opened);
  ({ url } = opened.database);
  provider = await startScriptedProvider();
  onTestFinished(() => provider.close());
  provider.script(json(201, { reference: "R1" }));
  env = { DELIVERY_BASE_URL: provider.url, DELIVERY_LIVE_API_KEY: "dos_live_x" };
  await recordConfiguredSources(pool, configured());
});

/** A poller with a key for which these branches are listed. */
function startPoller(ids: readonly string[] | Error): Poller & { readonly reads: readonly unknown[] } {
  const memory = makeMemoryProvider();
  memory.put("A", secondsAgo(300));
  const listBranches = () => {
    if (ids instanceof Error) return Promise.reject(ids);
    const raws = ids.map((id) => JSON.stringify({ id, name: `Branch ${id}`, connectedZones: [] }));
    return Promise.resolve({ raws, hasMore: false });
  };
  const poller = makeLivePoller({ client: { ...memory, listBranches }, pool, backfillSince: "P1D" });
  return { ...poller, reads: memory.reads };
}

const readSource = async () =>
  (
    await pool.query<{ safeThrough: string | null; refused: string | null; orders: number }>(
      `select safe_through as "safeThrough", refused_branches as refused,
         (select count(*)::int from mirror.orders) as orders
       from mirror.sources left join mirror.poll_state using (source_id)`,
    )
  ).rows[0]!;

/** Returns the outcome of the first cycle that it leads, once the lease of a poller that closed slowly expires. */
const lead = (poller: Poller) =>
  vi.waitUntil(
    async () => {
      const report = await poller.runOnce();
      return report.outcome === "not_leading" || report.outcome === "not_due" ? undefined : report;
    },
    { ...WAIT, interval: 20 },
  );

async function pollUntilProved(poller: Poller): Promise<void> {
  const provedBy = async () => {
    const { outcome } = await poller.runOnce();
    return (await readSource()).safeThrough === null ? "nothing is proved" : outcome;
  };
  await expect.poll(provedBy, WAIT).toBe("polled");
  await poller.close();
}

it("refuses the key of another organization before its first list request, and names both and the remedies", async () => {
  await pollUntilProved(startPoller(OURS));
  const before = await readSource();

  const other = startPoller(OTHERS);
  const refused = await lead(other);
  expect(refused).toMatchObject({ outcome: "failed", error: expect.any(ConfigurationError) as unknown });
  const { message, fix } = refused.error as ConfigurationError;
  expect(message).toBe(
    "Source live belongs to the organization with the branches Branch a (a), Branch b (b) and 1 more, and the configured key is of the one with the branches Branch x (x), Branch y (y).",
  );
  expect(fix).toMatch(/source name of its own .*`order-mirror source adopt live`/);
  expect(other.reads).toEqual([]);
  expect(await readSource()).toEqual({ ...before, refused: "Branch x (x), Branch y (y)" });
  const { stdout: status } = await runCommand(["status"], { databaseUrl: url });
  expect(status).toContain(message);
  const { stdout: doctor } = await runCommand(["doctor"], { databaseUrl: url, env });
  expect(doctor).toMatch(/key of source live is of another organization, with the branches .*Branch x/);

  // The right key can lead immediately and continues where it was.
  expect(await lead(startPoller(OURS))).toMatchObject({ outcome: "polled" });
  expect((await readSource()).refused).toBeNull();
});

/** Starts the read API of a web process that forwards writes. */
async function startForwarding() {
  const shutdown = makeShutdown({ logger: silentLogger });
  const config = { ...configured(), writeThrough: true };
  const metrics = makeMetrics({ version: "test" });
  const common = { databaseUrl: url, clock: systemClock, logger: silentLogger };
  const writes = composeWrites({ ...common, config, shutdown, metrics }, () => undefined);
  const apiTokens = [{ token: TOKEN, sourceId: "live", mayWrite: true }];
  const server = await serve(makeTestApi({ pool, apiTokens, writes }));
  onTestFinished(async () => {
    await server.close();
    await shutdown.run("the test is over");
  });
  return async (path = "/v1/orders") => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    const response = await fetch(server.url + path, { method: "POST", headers, body: "{}" });
    return { status: response.status, text: await response.text() };
  };
}
const REFUSED = { status: 502, text: expect.stringContaining("source_key_refused") as string };

it("forwards no write with a key that the poller found to be of another organization", async () => {
  await pollUntilProved(startPoller(OURS));
  const other = startPoller(OTHERS);
  expect(await lead(other)).toMatchObject({ outcome: "failed" });
  await other.close();
  const write = await startForwarding();
  for (const path of ["/v1/orders", "/v1/orders/quote", "/v1/orders/DO-UNKNOWN/cancel"]) {
    const answer = await write(path);
    expect({ path, ...answer }).toEqual({ path, ...REFUSED });
    expect(answer.text).not.toContain("Branch");
  }
  expect(provider.requests).toEqual([]);
  await lead(startPoller(OURS));
  expect((await write()).status).toBe(201);
});

it("forwards no writes to the provider that a source belonged to before", async () => {
  const write = await startForwarding();
  // The organization is not known yet.
  expect((await write()).status).toBe(201);
  // Where this cannot be found out, the provider decides.
  await pool.query("alter table mirror.sources rename refused_branches to unreadable");
  expect((await write()).status).toBe(201);
  await pool.query("alter table mirror.sources rename unreadable to refused_branches");
  await pool.query("update mirror.sources set provider = 'https://elsewhere.example'");
  expect(await write()).toEqual(REFUSED);
});

it("gives the source to the other organization on request and starts a new history", async () => {
  const adopt = () => runCommand(["source", "adopt", "live", "--yes"], { databaseUrl: url, env });
  await pollUntilProved(startPoller(OURS));
  // No other organization has been seen yet.
  expect((await adopt()).stdout).toContain("belongs to http://127.0.0.1");
  expect((await readSource()).safeThrough).not.toBeNull();

  const poller = startPoller(OTHERS);
  expect(await lead(poller)).toMatchObject({ outcome: "failed" });
  await poller.close();
  const { code, stdout } = await adopt();
  expect(stdout).toMatch(/^Source live now belongs to the organization with the branches Branch x /);
  expect(code).toBe(0);
  expect(await readSource()).toMatchObject({ safeThrough: null, refused: null });
  const { rows } = await pool.query<{ note: string }>(
    "select note from mirror.ops_actions where action = 'adopt'",
  );
  expect(rows).toEqual([
    { note: expect.stringContaining("; now the organization with the branches Branch x ") as string },
  ]);
  await pollUntilProved(startPoller(OTHERS));
  expect(await lead(startPoller(OURS))).toMatchObject({ outcome: "failed" });
});

it("tolerates an empty list of branches, a failing request, and branches that come and go", async () => {
  const lists = [
    ["a", "b"],
    [],
    new UnavailableError("there are no branches now"),
    ["b", "c"],
    // None of the original branches is left, but it is still the same organization.
    ["c", "d"],
    // Branches that were closed meanwhile.
    ["a"],
  ];
  for (const list of lists) await pollUntilProved(startPoller(list));
  const { rows } = await pool.query("select branch_ids from mirror.sources");
  expect(rows).toEqual([{ branch_ids: ["a", "b", "c", "d"] }]);
  expect(await lead(startPoller(OTHERS))).toMatchObject({ outcome: "failed" });
});
