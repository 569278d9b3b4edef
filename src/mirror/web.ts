import express, { type Express } from "express";
import { takeShare } from "../domain/window/rate.ts";
import { insertEvents } from "../receive/inbox.sql.ts";
import type { Pool } from "../database/database.ts";
import type { HealthReader } from "../health/health.ts";
import { makeDocsRouter } from "../api/openapi/docsRouter.ts";
import { makeHealthRouter, makeMetricsRouter, type HealthRouterDeps } from "../health/healthRouter.ts";
import { makeOpsRouter } from "../ops/opsRouter.ts";
import { SPEC_LIMITS } from "../provider/budget.ts";
import { makeForward, type Forward } from "../api/forward.ts";
import { makeGroupCommit } from "../receive/groupCommit.ts";
import { makeReceiver, type Receiver } from "../receive/receiver.ts";
import { captureRefused } from "../receive/refusedRequests.ts";
import { listenForAnnouncements } from "../changes/announcements.ts";
import { describeApi } from "../api/openapi/openapi.ts";
import { makeNews, type News } from "../api/news.ts";
import { EXPORTS_MAX } from "../api/shares.ts";
import {
  makeErrorAnswer,
  refuseAnyAddress,
  stampAnswer,
  whenClosed,
  type Middleware,
} from "../api/respond.ts";
import { makeApiRouter, type ApiDeps } from "../api/router.ts";
import type { Config } from "../config/config.ts";
import { webhookUrl } from "../config/sources.ts";
import { withTimeout } from "../process/abort.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { loadScheme } from "../signature/scheme.ts";
import { isForeignSecret, loadVerifier, REFUSING_VERIFIER, type Verifier } from "../signature/verifier.ts";
import { openCallCounts, type CountCall } from "../health/calls.sql.ts";
import { meterAnswers, meterHealth, meterWebhooks } from "../health/metering.ts";
import { recordReceiving } from "../sources/sources.sql.ts";
import { composeApply, makeBudgets, openPool, type QueueDeps, type RoleDeps } from "./role.ts";
import { assertOwnKey, recordConfiguredSources } from "../sources/configuredSources.ts";
import { setAnswerHeaders } from "./answerHeaders.ts";

/** Below the receiver's own deadline of 2 s, so that a slow commit ends as an error and not as a wait. */
const RECEIVE_POOL = { purpose: "receive", max: 2, statementTimeoutMs: 1_500, connectTimeoutMs: 1_500 };
const READ_POOL = { purpose: "read", max: 8, statementTimeoutMs: 10_000, keepsPlans: true };
/** The time is also how long a transaction may idle: an export waits that long for its client. */
const EXPORT_POOL = { purpose: "export", max: EXPORTS_MAX, statementTimeoutMs: 60_000 };
/** Separate connections, so that a slow count never takes one from a reader. */
const OPS_POOL = { purpose: "ops", max: 3, statementTimeoutMs: 5_000 };
const WRITE_POOL = { purpose: "write", max: 2, statementTimeoutMs: 5_000 };
const PROBE_POOL = { purpose: "health", max: 1, statementTimeoutMs: 2_000 };

/** The time that requests under way may still take when the process closes. */
const END_DEADLINE_MS = 3_000;

/**
 * The handlers of a process, each for every address below its own prefix: who mounts it decides which are the mirror's.
 */
export interface WebHandlers {
  readonly webhooks: Middleware;
  readonly receive: Receiver["receive"];
  readonly api: Middleware;
  readonly ops: Middleware;
  /** Health, metrics and the description of the API. */
  readonly probes: Middleware;
}

/** Opens what answers: webhooks, read API, health and ops pages. It closes with the process. */
export async function openWeb(deps: QueueDeps & { readonly health: HealthReader }): Promise<WebHandlers> {
  const { config, clock, logger, shutdown, metrics, health } = deps;
  const receivePool = openPool(deps, RECEIVE_POOL);
  const readPool = openPool(deps, READ_POOL);
  const exportPool = openPool(deps, EXPORT_POOL);
  await recordConfiguredSources(readPool, config);
  const receives = config.sources.map(
    (source) => [source.sourceId, source.webhookSecrets.length > 0] as const,
  );
  await recordReceiving(readPool, new Map(receives));
  const opsPool = openPool(deps, OPS_POOL);
  const countCall = openCallCounts(deps, opsPool);
  const receiver = await composeReceiver(deps, { pool: receivePool, countCall });
  const news = makeNews(clock);
  const announcements = listenForAnnouncements({
    databaseUrl: deps.databaseUrl,
    onChanges: () => news.announce(),
    clock,
    logger,
  });
  shutdown.onShutdown("change announcements", () => announcements.close());
  meterHealth(metrics, health);
  const running = makeRunning();
  shutdown.onShutdown("requests", () => running.end());
  shutdown.onShutdown("webhooks", () => receiver.drain());
  // Before the requests, as a stream of changes never ends on its own.
  shutdown.onShutdown("change streams", () => news.close());
  const probes = composeProbes(deps, { pool: receivePool, health });
  return {
    webhooks: receiver,
    receive: receiver.receive,
    api: running.note(composeApi(deps, { pool: readPool, exportPool, news }, countCall)),
    ops: running.note(composeOps(deps, opsPool)),
    probes: running.note(probes.use(makeDocsRouter(describeApi()))),
  };
}

/** Health and metrics of a process that answers nothing else. */
export function openProbes(deps: RoleDeps): Middleware {
  return composeProbes(deps, { pool: openPool(deps, PROBE_POOL), firstWrite: "mirror.history" });
}

function composeProbes(
  { config, databaseUrl, logger, shutdown, metrics }: RoleDeps,
  probed: Pick<HealthRouterDeps, "pool" | "firstWrite" | "health">,
): Express {
  const app = express().disable("x-powered-by").use(setAnswerHeaders);
  app.use(makeHealthRouter({ ...probed, databaseUrl, signal: shutdown.signal, logger }));
  return app.use(makeMetricsRouter({ ...config, metrics, logger }));
}

/** The requests under way, which a close waits for. */
function makeRunning() {
  const running = new Set<Promise<void>>();
  return {
    note:
      (handler: Middleware): Middleware =>
      (request, response, next) => {
        const closed = new Promise<void>((resolve) => whenClosed(response, resolve));
        running.add(closed);
        void closed.then(() => running.delete(closed));
        handler(request, response, next);
      },
    end: async () => void (await withTimeout(Promise.all(running), END_DEADLINE_MS)),
  };
}

async function composeReceiver(
  deps: QueueDeps,
  { pool, countCall }: { pool: Pool; countCall: CountCall },
): Promise<Receiver> {
  const { config, clock, logger, metrics, queue } = deps;
  const commit = makeGroupCommit({ insert: (events) => insertEvents(pool, events) });
  return makeReceiver({
    sources: loadVerifiers(config, logger),
    store: commit.store,
    notify: queue.notify,
    onEnd: meterWebhooks(metrics, countCall),
    onRefused: await captureRefused(deps),
    clock,
    logger,
  });
}

/** A source without secrets is polled only: calls to it are counted, and answered as those to no source. */
function loadVerifiers({ sources, publicUrls }: Config, logger: Logger) {
  const loaded = new Map<string, { readonly verifier: Verifier | null }>();
  for (const { sourceId, webhookScheme, webhookSecrets: secrets } of sources) {
    const url = webhookUrl(publicUrls, sourceId);
    const verifier =
      secrets.length === 0
        ? null
        : isForeignSecret(webhookScheme, secrets)
          ? REFUSING_VERIFIER
          : loadVerifier({ scheme: loadScheme(webhookScheme), secrets, url });
    for (const warning of verifier?.warnings ?? []) logger.warn({ source: sourceId }, warning);
    loaded.set(sourceId, { verifier });
  }
  return loaded;
}

function composeApi(
  deps: QueueDeps,
  readers: { pool: Pool; exportPool: Pool; news: News },
  countCall: CountCall,
): Middleware {
  const { config, clock, logger } = deps;
  const { apiTokens, localTrust, sources } = config;
  const writes = composeWrites(deps, countCall);
  const v1 = makeApiRouter({ ...readers, writes, sources, apiTokens, localTrust, clock, logger });
  // Without Express's application, which costs more than reading an order: it gives every request and response another
  // prototype.
  return (request, response, next) => {
    setAnswerHeaders(request, response, () => undefined);
    v1(request, response, (error) => {
      if (error === undefined || error === null) return next();
      // The answer has begun, so it cannot show the error.
      logger.error({ err: error }, "read API failed");
      response.destroy();
    });
  };
}

function composeOps(deps: QueueDeps & { readonly health: HealthReader }, opsPool: Pool): Middleware {
  const { config, clock, logger, queue, health } = deps;
  const app = express().disable("x-powered-by").use(setAnswerHeaders);
  const { notify } = queue;
  const listRate = takeShare(SPEC_LIMITS["order-list"], config.rateSharePercent / 100);
  const queues = { queue: queue.bull, notify };
  app.use(makeOpsRouter({ pool: opsPool, config, ...queues, listRate, logger, clock, health }));
  app.use(stampAnswer, refuseAnyAddress, makeErrorAnswer(logger));
  return app;
}

/** Makes what the read API needs to forward writes; undefined if that is off. */
export function composeWrites(deps: RoleDeps, countCall: CountCall): ApiDeps["writes"] {
  const { config, clock, logger, metrics } = deps;
  if (!config.writeThrough) return undefined;
  const pool = openPool(deps, WRITE_POOL);
  const budgetOf = makeBudgets(deps);
  const onAnswerOf = meterAnswers(metrics, countCall);
  const senders = new Map<string, Forward>();
  for (const source of config.sources) {
    const { sourceId, baseUrl, apiKey } = source;
    // No token may write to it, or there would be a key.
    if (apiKey === null) continue;
    const budget = budgetOf(source);
    const onAnswer = onAnswerOf(sourceId);
    const forward = makeForward({ baseUrl, apiKey, budget, clock, logger, onAnswer });
    senders.set(sourceId, async (request) => {
      await assertOwnKey(pool, source, logger);
      return forward(request);
    });
  }
  return {
    forward: (sourceId) => senders.get(sourceId) ?? refuseUnknown(sourceId),
    applyReads: composeApply(deps, pool).applyReads,
    marginSeconds: config.pollMarginSeconds,
  };
}

/** Tokens are only for configured sources, so this is unreachable. */
function refuseUnknown(sourceId: string): never {
  throw new TypeError(`the source ${sourceId} is not configured`);
}
