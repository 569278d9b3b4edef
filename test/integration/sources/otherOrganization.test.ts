import { beforeEach, expect, it, onTestFinished, vi } from "vitest";
import type { Pool } from "../../../src/database/database.ts";
import { ConfigurationError, UnavailableError } from "../../../src/domain/errors.ts";
import type { OrderSource } from "../../../src/domain/source/orderSource.ts";
import type { Poller } from "../../../src/poll/poller.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
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
import { LIVE, makeTestSandbox, orderBody } from "../../support/providers/testSandbox.ts";

/** The key of another organization of the sandbox. */
const OTHER = "dos_live_other";
const WAIT = { timeout: 60_000 };

let url: string;
let pool: Pool;

beforeEach(async () => {
  const opened = await openTestDatabase({ purpose: "poll", ends: onTestFinished });
  ({ pool } = opened);
  ({ url } = opened.database);
});

const startPoller = (client: OrderSource) => makeLivePoller({ client, pool, backfillSince: "P1D" });

function clientWith(baseUrl: string, apiKey: string): OrderSource {
  const budget = makeBudget({ clock: systemClock });
  return makeProviderClient({ baseUrl, apiKey, budget, clock: systemClock, logger: silentLogger });
}

/** An in-memory provider with these branches, or with the given `list`. */
function providerWith(list: () => Promise<readonly string[]>): OrderSource {
  const provider = makeMemoryProvider();
  provider.put("A", secondsAgo(300));
  return { ...provider, listBranches: async () => ({ raws: await list(), hasMore: false }) };
}
const branches = (...ids: string[]) =>
  ids.map((id) =>
    JSON.stringify({ id, reference: null, name: `Branch ${id}`, routesTo: null, connectedZones: [] }),
  );

const readSource = async () =>
  (
    await pool.query<{ safeThrough: string | null; refused: string | null; orders: number }>(
      `select safe_through as "safeThrough", refused_branches as refused,
         (select count(*)::int from mirror.orders) as orders
       from mirror.sources left join mirror.poll_state using (source_id)`,
    )
  ).rows[0]!;

const configured = (baseUrl: string, apiKey = LIVE) =>
  loadConfig({ DELIVERY_BASE_URL: baseUrl, DELIVERY_LIVE_API_KEY: apiKey }, null);

/** A sandbox whose first organization the source `live` belongs to; its address. */
async function startProvider(): Promise<string> {
  const sandbox = await makeTestSandbox();
  onTestFinished(() => sandbox.close());
  await recordConfiguredSources(pool, configured(sandbox.url));
  return sandbox.url;
}

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
  const baseUrl = await startProvider();
  await pollUntilProved(startPoller(clientWith(baseUrl, LIVE)));
  const before = await readSource();

  const client = clientWith(baseUrl, OTHER);
  const listed = vi.spyOn(client, "listWindow");
  const refused = await lead(startPoller(client));
  expect(refused).toMatchObject({ outcome: "failed", error: expect.any(ConfigurationError) as unknown });
  const { message, fix } = refused.error as ConfigurationError;
  expect(message).toMatch(
    /^Source live belongs to the organization with the branches .* \(.{36}\), .* \(.{36}\) and 4 more, and the configured key is of the one with the branches Keuken .* \(.{36}\), Keuken .* \(.{36}\)\.$/,
  );
  expect(fix).toMatch(/source name of its own .*`order-mirror source adopt live`/);
  expect(listed).not.toHaveBeenCalled();
  expect(await readSource()).toEqual({
    ...before,
    refused: expect.stringContaining("Keuken Centrum") as string,
  });
  const { stdout: status } = await runCommand(["status"], { databaseUrl: url });
  expect(status).toContain(message);
  const env = { DELIVERY_BASE_URL: baseUrl, DELIVERY_LIVE_API_KEY: OTHER };
  const { stdout: doctor } = await runCommand(["doctor"], { databaseUrl: url, env });
  expect(doctor).toMatch(/key of source live is of another organization, with the branches .*Keuken/);

  // The right key can lead immediately and continues where it was.
  expect(await lead(startPoller(clientWith(baseUrl, LIVE)))).toMatchObject({ outcome: "polled" });
  expect((await readSource()).refused).toBeNull();
});

/** Starts the read API of a web process that forwards writes with this key. */
async function startForwarding(baseUrl: string, apiKey: string) {
  const shutdown = makeShutdown({ logger: silentLogger });
  const config = { ...configured(baseUrl, apiKey), writeThrough: true };
  const metrics = makeMetrics({ version: "test" });
  const common = { databaseUrl: url, clock: systemClock, logger: silentLogger };
  const writes = composeWrites({ ...common, config, shutdown, metrics }, () => undefined);
  const apiTokens = [{ token: WRITER, sourceId: "live", mayWrite: true }];
  const server = await serve(makeTestApi({ pool, apiTokens, writes }));
  onTestFinished(async () => {
    await server.close();
    await shutdown.run("the test is over");
  });
  return async (method: string, path: string, body?: unknown) => {
    const response = await fetch(server.url + path, {
      method,
      headers: { authorization: `Bearer ${WRITER}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, text: await response.text() };
  };
}
const WRITER = "token-that-may-write";

async function countOrders(baseUrl: string, apiKey: string): Promise<number> {
  const response = await fetch(`${baseUrl}/v1/orders?limit=200`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  return ((await response.json()) as { data: unknown[] }).data.length;
}

it("forwards no write with a key that the poller found to be of another organization", async () => {
  const baseUrl = await startProvider();
  await pollUntilProved(startPoller(clientWith(baseUrl, LIVE)));
  const before = await countOrders(baseUrl, OTHER);
  expect(await lead(startPoller(clientWith(baseUrl, OTHER)))).toMatchObject({ outcome: "failed" });

  const writeToOther = await startForwarding(baseUrl, OTHER);
  for (const [method, path] of [
    ["POST", "/v1/orders"],
    ["POST", "/v1/orders/quote"],
    ["POST", "/v1/orders/DO-UNKNOWN/cancel"],
  ] as const) {
    const refused = await writeToOther(method, path, orderBody());
    expect({ path, ...refused }).toMatchObject({
      path,
      status: 502,
      text: expect.stringContaining("source_key_refused") as string,
    });
    expect(refused.text).not.toContain("Keuken");
  }
  expect(await countOrders(baseUrl, OTHER)).toBe(before);

  await lead(startPoller(clientWith(baseUrl, LIVE)));
  const write = await startForwarding(baseUrl, LIVE);
  expect((await write("POST", "/v1/orders", orderBody())).status).toBe(201);
});

it("forwards no writes to the provider that a source belonged to before", async () => {
  const baseUrl = await startProvider();
  const write = await startForwarding(baseUrl, LIVE);
  // The organization is not known yet.
  expect((await write("POST", "/v1/orders", orderBody())).status).toBe(201);

  // Where this cannot be found out, the provider decides.
  await pool.query("alter table mirror.sources rename refused_branches to unreadable");
  expect((await write("POST", "/v1/orders", orderBody())).status).toBe(201);
  await pool.query("alter table mirror.sources rename unreadable to refused_branches");

  await pool.query("update mirror.sources set provider = 'https://elsewhere.example'");
  expect(await write("POST", "/v1/orders", orderBody())).toMatchObject({
    status: 502,
    text: expect.stringContaining("source_key_refused") as string,
  });
});

it("gives the source to the other organization on request and starts a new history", async () => {
  const baseUrl = await startProvider();
  const env = { DELIVERY_BASE_URL: baseUrl, DELIVERY_LIVE_API_KEY: OTHER };
  const adopt = () => runCommand(["source", "adopt", "live", "--yes"], { databaseUrl: url, env });
  await pollUntilProved(startPoller(clientWith(baseUrl, LIVE)));
  // No other organization has been seen yet.
  expect((await adopt()).stdout).toContain("belongs to http://127.0.0.1");
  expect((await readSource()).safeThrough).not.toBeNull();

  const poller = startPoller(clientWith(baseUrl, OTHER));
  expect(await lead(poller)).toMatchObject({ outcome: "failed" });
  await poller.close();
  const { code, stdout } = await adopt();
  expect(stdout).toMatch(/^Source live now belongs to the organization with the branches Keuken /);
  expect(code).toBe(0);
  expect(await readSource()).toMatchObject({ safeThrough: null, refused: null });
  const { rows } = await pool.query<{ note: string }>(
    "select note from mirror.ops_actions where action = 'adopt'",
  );
  expect(rows).toHaveLength(1);
  expect(rows[0]!.note).toMatch(/; now the organization with the branches Keuken /);
  await pollUntilProved(startPoller(clientWith(baseUrl, OTHER)));
  expect(await lead(startPoller(clientWith(baseUrl, LIVE)))).toMatchObject({ outcome: "failed" });
});

it("tolerates an empty list of branches, a failing request, and branches that come and go", async () => {
  await recordConfiguredSources(pool, configured("https://api.example"));
  const lists: (() => Promise<readonly string[]>)[] = [
    () => Promise.resolve(branches("a", "b")),
    () => Promise.resolve([]),
    () => Promise.reject(new UnavailableError("there are no branches now")),
    () => Promise.resolve(branches("b", "c")),
    // None of the original branches is left, but it is still the same organization.
    () => Promise.resolve(branches("c", "d")),
    // Branches that were closed meanwhile.
    () => Promise.resolve(branches("a")),
  ];
  for (const list of lists) await pollUntilProved(startPoller(providerWith(list)));
  const { rows } = await pool.query("select branch_ids from mirror.sources");
  expect(rows).toEqual([{ branch_ids: ["a", "b", "c", "d"] }]);

  const replaced = startPoller(providerWith(() => Promise.resolve(branches("x", "y"))));
  expect(await lead(replaced)).toMatchObject({ outcome: "failed" });
});
