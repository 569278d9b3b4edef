import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import type { Mode } from "../../domain/source/orderSource.ts";
import { orderAddress } from "../../health/pageAddresses.ts";
import { localUrl } from "../../process/httpServer.ts";
import type { WebAddress } from "../../mirror/serve.ts";
import type { Decision } from "../../apply/applySubjects.ts";
import { systemClock } from "../../process/clock.ts";
import type { Config } from "../../config/config.ts";
import type { SourceConfig } from "../../config/sources.ts";
import { findText } from "../../config/environment.ts";
import { VERSION } from "../../process/version.ts";
import { HOST as SANDBOX_HOST, startSandbox } from "../../sandbox/startSandbox.ts";
import { announceDemo, announceSetUp, enterDemoFolder } from "./demoFolder.ts";
import { formatDecisions } from "../output/decisionLine.ts";
import { runService, startMirror, type Service } from "../../mirror/service.ts";
import { readConfig } from "../input/session.ts";
import { makePaint, printLine, printNotice } from "../output/terminal.ts";
import { withPool } from "../../database/database.ts";
import { ConfigurationError } from "../../domain/errors.ts";
import { chooseFreePort } from "../../postgres/freePort.ts";
import { findSourcesOfOthers } from "../../sources/sources.sql.ts";

/** Share of the sandbox's events that it drops on purpose, so that polling has something to find. */
const LOST_SHARE = 0.1;
const TRAFFIC_PER_MINUTE = 20;
/** An order lives about 80 s: long enough for a poll to see what its events did not report. */
const FLEET_SPEED = 20;
/**
 * A new sandbox starts with this many orders over this many hours: dense enough that about a dozen are under way and
 * send events immediately.
 */
const PAST_ORDERS = 600;
const PAST_HOURS = 24;
/** The sandbox sends events immediately, but a poll may see a change a moment before its event is here. */
const EVENT_GRACE_SECONDS = 5;
/** Identifies the provider of every demo: its sandbox may answer on another port after each start. */
const DEMO_PROVIDER = "the sandbox of order-mirror demo";
const MODES = ["live", "test"] as const;
const SECRET_BYTES = 24;
const TRUSTING =
  "everybody on this machine, without a password, because all orders are invented (LOCAL_TRUST)";

/** `demo`: everything on one machine, with the provider as a sandbox. `npm start` runs it. */
export function register(program: Command): void {
  program
    .command("demo")
    .description("run everything with a sandbox as the provider: no account, no server, nothing to configure")
    .action(async () => {
      const loaded = readConfig();
      const config = await makeDemoConfig(loaded, await enterDemoFolder(loaded.dataDir));
      announceSetUp(config);
      await runService({
        service: "demo",
        config,
        migrates: true,
        // A log line per request would bury the lines that the demo is about.
        logLevel: findText("logLevel") === undefined ? "warn" : config.logLevel,
        examine: assertNoRealOrders,
        start: startDemo,
      });
    });
}

/** The sandbox creates its own schema, so it connects as the owner; the product connects with its process login. */
async function startDemo(service: Service): Promise<void> {
  const { config, logger, shutdown } = service;
  const mirror = localUrl(config.host, config.port);
  const base = localUrl(config.host, config.webhookPort ?? config.port);
  // New at each start: the sandbox signs each attempt with its endpoint's secret of that time.
  const secrets = { live: makeSecret(), test: makeSecret() };
  const sandbox = await startSandbox({
    databaseUrl: service.ownerUrl,
    port: config.sandboxPort,
    seed: config.sandboxSeed,
    speed: FLEET_SPEED,
    trafficPerMinute: TRAFFIC_PER_MINUTE,
    webhooks: {
      live: { url: `${base}/webhooks/live`, secret: secrets.live },
      test: { url: `${base}/webhooks/test`, secret: secrets.test },
    },
    faults: { loseShare: LOST_SHARE },
    mirrorPageOf: ({ mode, reference }) => mirror + orderAddress({ sourceId: mode, reference }),
    logger: logger.child({ role: "sandbox" }),
  });
  shutdown.onShutdown("sandbox", () => sandbox.close());
  await giveAPast(sandbox.url, shutdown.signal);
  const sources = MODES.map((mode) => makeDemoSource({ mode, baseUrl: sandbox.url, secret: secrets[mode] }));
  const paint = makePaint(process.stdout);
  // The addresses come first, however early the first events are decided.
  const early: string[] = [];
  let show: (line: string) => unknown = (line) => early.push(line);
  const onDecisions = (decisions: readonly Decision[]) => {
    for (const line of formatDecisions(decisions, { now: systemClock.now(), paint })) show(line);
  };
  const started = {
    ...service,
    config: { ...config, sources },
    eventGraceSeconds: EVENT_GRACE_SECONDS,
    onDecisions,
  };
  const web = await startMirror(started, { worker: true, poller: true });
  if (web === undefined) return;
  const { dataDir, port, webhookPort, sandboxPort } = config;
  const addresses = { port, webhookPort, sandboxPort, ops: `${web.url}/ops` };
  shutdown.onShutdown("demo folder", await announceDemo(dataDir, addresses));
  printAddresses({ config, web, sandboxUrl: sandbox.url });
  for (const line of early) printLine(line);
  show = printLine;
}

const makeSecret = () => `whsec_${randomBytes(SECRET_BYTES).toString("base64")}`;

/** Gives a new world a past, so that there is history to read and there are orders under way. */
async function giveAPast(sandboxUrl: string, signal: AbortSignal): Promise<void> {
  const world = await fetch(`${sandboxUrl}/_sandbox/orders?limit=1`, { signal });
  const { orders } = (await world.json()) as { orders: readonly unknown[] };
  if (orders.length > 0) return;
  const since = new Date(Date.now() - PAST_HOURS * 3_600_000);
  const made = await fetch(`${sandboxUrl}/_sandbox/seed`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ orders: PAST_ORDERS, since: since.toISOString() }),
    signal,
  });
  if (!made.ok) throw new Error(`the sandbox did not create past orders: status ${made.status}`);
}

function makeDemoSource(options: { mode: Mode; baseUrl: string; secret: string }): SourceConfig {
  const { mode, baseUrl, secret } = options;
  return {
    sourceId: mode,
    mode,
    organization: "sandbox",
    baseUrl,
    provider: DEMO_PROVIDER,
    apiKey: `dos_${mode}_sandbox`,
    webhookSecrets: [secret],
    webhookScheme: "standard-webhooks",
  };
}

function printAddresses(options: { config: Config; web: WebAddress; sandboxUrl: string }): void {
  const { config, web, sandboxUrl } = options;
  const paint = makePaint(process.stdout);
  const postgres = config.databaseUrl === null ? `embedded, in ${config.dataDir}` : "DATABASE_URL";
  const rows = [
    ["Postgres", postgres],
    ["Queue", config.redisUrls.length === 0 ? "in Postgres" : "Redis"],
    ["Provider", `${sandboxUrl}/_sandbox  (a sandbox; drops one event in ten on purpose)`],
    ["Webhooks", `${web.webhooksUrl}/webhooks/live`],
    ["Read API", `${web.url}/v1/orders`],
    ["Ops", `${web.url}/ops`],
    ["Access", isOpen(config) ? TRUSTING : "with tokens and passwords"],
  ];
  printLine(`${paint("bold", `order-mirror ${VERSION}`)} · demo, no account needed · Ctrl-C stops`);
  printLine();
  for (const [name = "", value = ""] of rows) printLine(`  ${name.padEnd(9)} ${value}`);
  printLine();
  printLine("  In another terminal: npx order-mirror status · tail · order REFERENCE · doctor · psql");
  printLine("  Make it misbehave:   npx order-mirror trigger lost-webhook · trigger lists the rest");
  printLine("  Each applied change is printed below; the next poll repairs lost events.");
  printLine();
}

/** A configured token or password is asked for in spite of LOCAL_TRUST. */
function isOpen({ localTrust, apiTokens, opsPassword, opsViewerPassword }: Config): boolean {
  return localTrust && apiTokens.length === 0 && opsPassword === null && opsViewerPassword === null;
}

const EXAMINE_TIMEOUT_MS = 10_000;

/** The demo's own folder and free ports, so that it does not touch a real mirror in this folder. */
async function makeDemoConfig(loaded: Config, dataDir: string): Promise<Config> {
  const { host } = loaded;
  const port = await choosePort("PORT", host, loaded.port);
  const webhookPort =
    loaded.webhookPort === null ? null : await choosePort("WEBHOOK_PORT", host, loaded.webhookPort, [port]);
  const taken = [port, webhookPort];
  const sandboxPort = await choosePort("SANDBOX_PORT", SANDBOX_HOST, loaded.sandboxPort, taken);
  // All of the demo's content is invented, so every user of this machine may see and do everything, unless LOCAL_TRUST
  // says otherwise.
  const localTrust = findText("localTrust") === undefined || loaded.localTrust;
  const config = { ...loaded, dataDir, port, webhookPort, sandboxPort, localTrust };
  if (loaded.sources.length === 0) return config;
  return { ...config, redisUrls: [], outgoingWebhooks: [], alertWebhook: null };
}

async function choosePort(
  name: string,
  host: string,
  wanted: number,
  besides: readonly (number | null)[] = [],
): Promise<number> {
  const port = await chooseFreePort(host, wanted, besides);
  if (wanted !== 0 && port !== wanted) printNotice(`Port ${wanted} is taken; ${name} is ${port} this time.`);
  return port;
}

/** Throws ConfigurationError if the database holds a source that no demo created. */
async function assertNoRealOrders(databaseUrl: string): Promise<void> {
  const options = { url: databaseUrl, purpose: "demo", max: 1, statementTimeoutMs: EXAMINE_TIMEOUT_MS };
  const [other] = await withPool(options, (pool) => findSourcesOfOthers(pool, DEMO_PROVIDER));
  if (other === undefined) return;
  const { sourceId, provider } = other;
  const name = `source ${sourceId}${provider === null ? "" : ` of ${provider}`}`;
  throw new ConfigurationError(
    `DATABASE_URL points to a mirror that the demo did not create (${name}), so the demo does not touch it.`,
    {
      fix: "For that mirror, run `order-mirror up`. For the demo, unset DATABASE_URL (also in .env) or set it to an empty database.",
    },
  );
}
