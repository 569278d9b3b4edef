import compression from "compression";
import type { Queue } from "bullmq";
import { Router, type ErrorRequestHandler, type RequestHandler } from "express";
import type { Config } from "../config/config.ts";
import type { Pool } from "../database/database.ts";
import { classifyDatabaseError } from "../database/databaseErrors.ts";
import { UnavailableError } from "../domain/errors.ts";
import type { RateRule } from "../domain/window/rate.ts";
import type { HealthReader } from "../health/health.ts";
import { PAGE_POLICY } from "../html/policy.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { refusedFolder } from "../receive/refusedRequests.ts";
import { ACTION_LIST } from "./auditLog.ts";
import { makeEventRoutes } from "./event/eventPage.ts";
import { serveList } from "./lists/list.ts";
import { OPS_LISTS } from "./lists/opsLists.ts";
import { makeOutgoingRoutes } from "./lists/outgoing.ts";
import { makeQuarantineRoutes } from "./lists/quarantine.ts";
import { guardWrites, makeLogin } from "./login/login.ts";
import { makeOrderListRoutes } from "./orders/orderListPage.ts";
import { makeOrderRoutes } from "./orders/orderPage.ts";
import { makeOverviewRoutes } from "./overview.ts";
import {
  basePathOf,
  makeAssetRouter,
  pressedOn,
  redirect,
  sendRefusal,
  setBasePath,
  setViewer,
  viewerOf,
} from "./page.ts";
import { makeQueueDashboard } from "./queues/queueBoard.ts";
import { makeQueueHealth } from "./queues/queueHealth.ts";
import { makeRemedyRoutes, sayDone } from "./remedies.ts";
import { makeSourceRoutes } from "./source/sourcePage.ts";

// The pages for merchants and for the person on call. They promise a state that is true at a glance: each fact is from
// one place, `health` for what is wrong and since when, and `mirror` for the rest; everything works without JavaScript;
// what may be personal data is hidden; each change needs the operator and is in the audit log. A page is a function
// from what was read to `Page`, which `page.ts` puts into the frame; a list is data for `lists/list.ts`. Start at
// `makeOpsRouter`, which has all addresses, then read `overview.ts`.

export interface OpsDeps {
  readonly pool: Pool;
  readonly queue: Queue;
  readonly config: Pick<Config, "opsPassword" | "opsViewerPassword" | "localTrust" | "signOn" | "dataDir">;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
  /** Wakes the workers for these positions. */
  readonly notify: (seqs: readonly number[]) => void;
  /** The process's health reader. */
  readonly health: HealthReader;
}

/** The pages under `/ops`, behind the login. */
export function makeOpsRouter(deps: OpsDeps): Router {
  const { pool, queue, config, logger, clock, listRate, notify, health } = deps;
  const { opsPassword, opsViewerPassword, localTrust, signOn, dataDir } = config;
  const ops = Router();
  const passwords = { operator: opsPassword, viewer: opsViewerPassword };
  ops.use(setHeaders, makeLogin({ pool, passwords, signOn, localTrust, clock, logger }), guardWrites);
  ops.use(countWaiting(health));
  ops.use(sayDone);
  ops.use(makeOverviewRoutes({ pool, clock, health, listRate }));
  ops.use(makeRemedyRoutes(pool));
  ops.use(makeOrderListRoutes({ pool, clock, health }), makeOrderRoutes({ pool, health }));
  ops.use("/quarantine", makeQuarantineRoutes({ pool, notify }));
  ops.use(makeSourceRoutes(pool));
  for (const [path, list] of Object.entries({ ...OPS_LISTS, "/actions": ACTION_LIST }))
    ops.get(path, serveList(pool, `/ops${path}`, list));
  // People of the business look for orders, people on call for trouble.
  ops.get("/start", (_request, response) => {
    redirect(response, viewerOf(response).role === "viewer" ? "/ops/orders" : "/ops");
  });
  ops.use("/queues", makeQueueDashboard({ pool, queue }));
  ops.use("/queue-health", makeQueueHealth({ pool, queue }));
  ops.use("/events", makeEventRoutes(pool, refusedFolder(dataDir)));
  ops.use("/outgoing", makeOutgoingRoutes(pool));
  ops.use((_request, response) => sendRefusal(response, 404, "There is nothing at this address."));
  ops.use(makeErrorPage(logger));
  const router = Router();
  router.use("/ops", compression());
  router.use(makeAssetRouter());
  router.use("/ops", ops);
  return router;
}

/** The badges of the navigation; a page that cannot be counted has none. */
function countWaiting(health: HealthReader): RequestHandler {
  return async (request, response, next) => {
    const read = request.method === "GET" ? await health.read().catch(() => undefined) : undefined;
    if (read !== undefined) {
      const quarantine = read.facts.sources.reduce((sum, { quarantined }) => sum + quarantined, 0);
      const queues = read.holding.filter(({ condition }) => condition.area === "queue").length;
      setViewer(response, { ...viewerOf(response), waiting: { quarantine, queues } }, next);
    } else next();
  };
}

const setHeaders: RequestHandler = (request, response, next) => {
  setBasePath(response, request.baseUrl.slice(0, -"/ops".length));
  response.set({
    "Content-Security-Policy": PAGE_POLICY,
    "Cache-Control": "no-store",
    // With "no-referrer", browsers send "Origin: null" with our own forms, and guardWrites would refuse them.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
  });
  next();
};

/** What is said to somebody who pressed a button. */
const PRESSED = "Whether what you pressed was done is not known: look once the page answers again.";
const NO_DATABASE =
  "On our side: bring Postgres back; `order-mirror doctor` says what is wrong with it. Events are refused meanwhile, so the provider sends them again or polling repairs them. This page tries again every few seconds.";
/** A page that nobody has asked for again for so long is about another outage. */
const SAME_OUTAGE_MS = 60_000;

function makeErrorPage(logger: Logger): ErrorRequestHandler {
  const away = { since: 0, last: 0 };
  const describeAway = () => {
    const now = Date.now();
    if (now - away.last > SAME_OUTAGE_MS) away.since = now;
    away.last = now;
    const since = `${new Date(away.since).toISOString().slice(0, 19)}Z`;
    return `The database does not answer (seen since ${since}), so the state of the mirror is unknown. ${NO_DATABASE}`;
  };
  return (error: unknown, { method }, response, next) => {
    const status = statusOfBadForm(error);
    if (status !== undefined && !response.headersSent)
      return sendRefusal(response, status, "The form could not be read.");
    logger.error({ err: error }, "ops page failed");
    if (response.headersSent) return next(error);
    const isAway = classifyDatabaseError(error) === "transient";
    const sentence = error instanceof UnavailableError ? error.message : isAway && describeAway();
    if (sentence !== false) {
      const isRead = method === "GET" || method === "HEAD";
      const back = basePathOf(response) + (pressedOn(response) ?? "/ops");
      response.set({ "Retry-After": "5", Refresh: isRead ? "5" : `5; url=${back}` });
      return sendRefusal(response, 503, isRead ? sentence : `${sentence} ${PRESSED}`);
    }
    sendRefusal(response, 500, "Something went wrong; the log has the details.");
  };
}

/** A body that is too long or malformed is the sender's fault, so it is not logged as an error. */
function statusOfBadForm(error: unknown): number | undefined {
  const status = (error as { status?: unknown } | null)?.status;
  return typeof status === "number" && status >= 400 && status < 500 ? status : undefined;
}
