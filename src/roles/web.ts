import type { RequestListener } from "node:http";
import express from "express";
import { takeShare } from "../domain/window/rate.ts";
import { insertEvents } from "../receive/inbox.sql.ts";
import type { Pool } from "../database/database.ts";
import type { HealthReader } from "../health/health.ts";
import { makeHealthRouter } from "../ops/health/healthRouter.ts";
import { makeDocsRouter } from "../ops/docs/docsRouter.ts";
import { makeMetricsRouter } from "../ops/health/metricsRouter.ts";
import { makeOpsRouter } from "../ops/opsRouter.ts";
import { SPEC_LIMITS } from "../provider/budget.ts";
import { makeGroupCommit } from "../receive/groupCommit.ts";
import { makeReceiver } from "../receive/receiver.ts";
import type { Receiver } from "../receive/receiver.ts";
import { listenForAnnouncements } from "../changes/announcements.ts";
import { makeChangeHub } from "../changes/changeHub.ts";
import type { ChangeHub } from "../changes/changeHub.ts";
import { describeApi } from "../api/openapi.ts";
import { makeErrorAnswer, refuseAnyAddress, stampAnswer } from "../http/respond.ts";
import { makeOrderWait } from "../orders/orderWait.ts";
import type { OrderWait } from "../orders/orderWait.ts";
import { makeReportRouter } from "../api/router.ts";
import type { Config, SourceConfig } from "../runtime/config/config.ts";
import { webhookUrl } from "../runtime/config/sources.ts";
import { checkAddress } from "../runtime/http/checkAddress.ts";
import { listen } from "../runtime/http/httpServer.ts";
import type { ListeningServer } from "../runtime/http/httpServer.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { loadScheme } from "../signature/scheme.ts";
import { loadVerifier } from "../signature/verifier.ts";
import type { Verifier } from "../signature/verifier.ts";
import { setAnswerHeaders } from "./serving/answerHeaders.ts";
import { openHealth } from "./serving/health.ts";
import { meterHealth, meterQueue, meterReceiver, traceReceiver } from "./background/metering.ts";
import type { Queues } from "./queues.ts";
import { recordConfiguredSources } from "./start/recordSources.ts";
import { openPool, openReplicaPool } from "./role.ts";
import type { RoleDeps } from "./role.ts";
import { captureRefused } from "./background/captureRefused.ts";
import { makeCallCounter } from "./background/webhookCalls.ts";
import { composeWrites } from "./writes.ts";
import { deliveryEvents } from "../wire/events.ts";

const RECEIVE_CONNECTIONS = 2;
/** Below the receiver's own deadline of 2 s, so that a slow commit ends as an error and not as a wait. */
const RECEIVE_TIMEOUT_MS = 1_500;
const READ_POOL = { purpose: "read", max: 8, statementTimeoutMs: 10_000, keepsPlans: true };
/** The time is also how long a transaction may idle: an export waits that long for its client. */
const EXPORT_POOL = { purpose: "export", max: 2, statementTimeoutMs: 60_000 };
/** Separate connections, so that a slow count never takes one from a reader. */
const OPS_POOL = { purpose: "ops", max: 3, statementTimeoutMs: 5_000 };
const CALLS_POOL = { purpose: "webhook calls", max: 1, statementTimeoutMs: 3_000 };
const WEBHOOK_PATH = "/webhooks/";

/** Where a web process answers; the two are the same unless WEBHOOK_PORT is set. */
export interface WebAddress {
  readonly url: string;
  readonly webhooksUrl: string;
}

/** Starts the web process: webhooks, read API, health and ops pages. Returns its address. */
export async function startWeb(
  deps: RoleDeps & Queues & { readonly health?: HealthReader },
): Promise<WebAddress> {
  const { config, clock, logger, shutdown, metrics } = deps;
  const receivePool = openPool(deps, {
    purpose: "receive",
    max: RECEIVE_CONNECTIONS,
    statementTimeoutMs: RECEIVE_TIMEOUT_MS,
    connectTimeoutMs: RECEIVE_TIMEOUT_MS,
  });
  const readPool = openPool(deps, READ_POOL);
  const exportPool = openReplicaPool(deps, EXPORT_POOL) ?? openPool(deps, EXPORT_POOL);
  await recordConfiguredSources(readPool, config);
  const receiver = await composeReceiver(deps, receivePool);
  const hub = makeChangeHub({ pool: readPool, clock, logger });
  const replicaPool = openReplicaPool(deps, READ_POOL) ?? readPool;
  // The order is then read from here: on another server it may not have arrived.
  const orderWait = makeOrderWait({ pool: replicaPool, clock });
  const announcements = listenForAnnouncements({
    databaseUrl: deps.databaseUrl,
    onChanges() {
      hub.look();
      orderWait.look();
    },
    clock,
    logger,
  });
  shutdown.onShutdown("change announcements", () => announcements.close());
  const receive = traceReceiver(meterReceiver(metrics, clock, receiver));
  meterQueue(metrics, deps.queue);
  const { health = openHealth(deps) } = deps;
  meterHealth(metrics, health);
  const opsPool = openPool(deps, OPS_POOL);
  const readers = { receivePool, readPool, replicaPool, exportPool, opsPool };
  const app = composeApp(deps, { ...readers, hub, orderWait, health });
  const { host, publicUrls } = config;
  const answer = checkAddress(app, { host, publicUrls });
  const listeners = await openListeners(deps, { receive, answer });
  shutdown.onShutdown("web server", async () => {
    await receiver.drain();
    await listeners.close();
  });
  // Before the server, which waits for its requests to end: a stream of changes never ends on its own.
  shutdown.onShutdown("change streams", async () => {
    orderWait.close();
    await hub.close();
  });
  const { url, webhooksUrl } = listeners;
  logger.info({ url, webhooks: webhooksUrl }, "web is ready");
  return { url, webhooksUrl };
}

/** One listener for everything; or, with WEBHOOK_PORT, one for webhooks and one for everything else. */
async function openListeners(
  { config, clock, logger }: RoleDeps,
  { receive, answer }: { receive: RequestListener; answer: RequestListener },
): Promise<WebAddress & Pick<ListeningServer, "close">> {
  const open = (listener: RequestListener, port: number, portVariable: string) =>
    listen(listener, { host, port, portVariable, connectionsMax, clock, logger });
  const { host, port, webhookPort, connectionsMax } = config;
  if (webhookPort === null) {
    // The receiver comes before Express: its stack costs more than verification and commit together.
    const answerAll: RequestListener = (req, res) =>
      req.url?.startsWith(WEBHOOK_PATH) ? receive(req, res) : answer(req, res);
    const { url, close } = await open(answerAll, port, "PORT");
    return { url, webhooksUrl: url, close };
  }
  const webhooks = await open(receive, webhookPort, "WEBHOOK_PORT");
  const others = await open(answer, port, "PORT").catch(async (error: unknown) => {
    await webhooks.close();
    throw error;
  });
  const close = async () => void (await Promise.all([webhooks.close(), others.close()]));
  return { url: others.url, webhooksUrl: webhooks.url, close };
}

async function composeReceiver(deps: RoleDeps & Queues, pool: Pool): Promise<Receiver> {
  const { config, clock, logger, queue } = deps;
  const commit = makeGroupCommit({ insert: (events) => insertEvents(pool, events) });
  const sources = new Map(loadVerifiers(config.sources, config, logger));
  deps.reloadableConfig?.follow(async ({ sources: changed }) => {
    await recordConfiguredSources(pool, { sources: changed });
    const verifiers = loadVerifiers(changed, config, logger);
    sources.clear();
    for (const [sourceId, receiving] of verifiers) sources.set(sourceId, receiving);
  });
  return makeReceiver({
    events: deliveryEvents,
    sources,
    store: commit.store,
    notify: queue.notify,
    onEnd: makeCallCounter(deps, openPool(deps, CALLS_POOL)),
    onRefused: await captureRefused(deps),
    clock,
    logger,
  });
}

/** A source without secrets is polled only: calls to it are counted, and answered as those to no source. */
function loadVerifiers(sources: readonly SourceConfig[], { publicUrls }: Config, logger: Logger) {
  type Receiving = readonly [sourceId: string, { readonly verifier: Verifier | null }];
  return sources.map(({ sourceId, webhookScheme, webhookSecrets: secrets }): Receiving => {
    if (secrets.length === 0) return [sourceId, { verifier: null }];
    const url = webhookUrl(publicUrls, sourceId);
    const verifier = loadVerifier({ scheme: loadScheme(webhookScheme), secrets, url });
    for (const warning of verifier.warnings) logger.warn({ source: sourceId }, warning);
    return [sourceId, { verifier }];
  });
}

function composeApp(
  deps: RoleDeps & Queues,
  readers: {
    receivePool: Pool;
    readPool: Pool;
    replicaPool: Pool;
    exportPool: Pool;
    opsPool: Pool;
    hub: ChangeHub;
    orderWait: OrderWait;
    health: HealthReader;
  },
): RequestListener {
  const { receivePool, readPool, replicaPool, exportPool, opsPool, hub, orderWait, health } = readers;
  const { config, databaseUrl, clock, logger, queue, shutdown } = deps;
  const { apiTokens, localTrust } = config;
  const sources = [...config.sources];
  deps.reloadableConfig?.follow(({ sources: changed }) => void sources.splice(0, sources.length, ...changed));
  const writes = composeWrites(deps);
  const reads = { pool: replicaPool, feedPool: readPool, exportPool, hub, orderWait };
  const report = makeReportRouter({ ...reads, writes, sources, apiTokens, localTrust, clock, logger });
  const app = express().disable("x-powered-by");
  app.use(makeHealthRouter({ pool: receivePool, databaseUrl, signal: shutdown.signal, logger, health }));
  app.use(makeMetricsRouter({ ...config, metrics: deps.metrics, logger }));
  app.use(makeDocsRouter(describeApi()));
  const { notify } = queue;
  const listRate = takeShare(SPEC_LIMITS["order-list"], config.rateShare);
  const queues = { queues: () => [queue.bull], notify };
  app.use(makeOpsRouter({ pool: opsPool, config, ...queues, listRate, logger, clock, health }));
  app.use(stampAnswer, refuseAnyAddress, makeErrorAnswer(logger));
  // The read API comes before Express's application, which costs more than reading an order: it gives every request and
  // response another prototype.
  return (request, response) => {
    setAnswerHeaders(request, response, () => undefined);
    report(request, response, (error) => {
      if (error === undefined || error === null) return app(request, response);
      // The answer has begun, so it cannot show the error.
      logger.error({ err: error }, "read API failed");
      response.destroy();
    });
  };
}
