/**
 * The API put together: the provider's reads from the mirror, the change feed, exports, and writes that it forwards.
 *
 * A client of the provider needs another address and key, and nothing else. `writeThrough.ts` forwards writes, and
 * `openapi.ts` describes every address. Start at `makeApiRouter`.
 */
import { Router, type NextFunction, type Request, type Response } from "express";
import type { Pool } from "../database/database.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { makeAuthenticate, type Authenticate } from "./authenticate.ts";
import { makeExportOrders, makeListBranches, makeGetOrder, makeListOrders } from "./orderRoutes.ts";
import { makeListChanges, makeStreamChanges, type StreamDeps } from "./changeRoutes.ts";
import { NO_SUCH_ADDRESS, refuseMethod, RefusedRequestError } from "../wire/refusal.ts";
import { makeOrderWait } from "./orderWait.ts";
import type { News } from "./news.ts";
import { makeErrorAnswer, stampAnswer, type Middleware, type Route, type RoutedRequest } from "./respond.ts";
import { API_ENDPOINTS, matchAddress, type ReadName } from "./endpoints.ts";
import { makeShares } from "./shares.ts";
import { makeWriteThrough, WRITE_METHODS, type WriteThroughDeps } from "./writeThrough.ts";

export interface ApiDeps {
  readonly pool: Pool;
  /** EXPORTS_MAX connections, whose transactions may idle for a minute. */
  readonly exportPool: Pool;
  readonly sources: readonly { sourceId: string }[];
  /** Empty: nobody may read, except that with `localTrust` programs on this machine may. */
  readonly apiTokens: readonly { token: string; sourceId: string; mayWrite?: boolean }[];
  readonly localTrust: boolean;
  /** Undefined: writes are refused. */
  readonly writes?: Omit<WriteThroughDeps, "authenticate" | "logger"> | undefined;
  /** Wakes streams of changes and requests that wait; its maker closes it, which ends them. */
  readonly news: News;
  readonly clock: Clock;
  readonly logger: Logger;
  /** For tests, which do not wait for the product's spans. */
  readonly limits?: StreamDeps["limits"];
}

/**
 * The read API under `/v1`: the provider's own paths, parameters, bodies and errors, answered from the mirror; the
 * change feed; and exports.
 *
 * Every answer with orders has `X-Safe-Through`: the answer contains each change with an earlier `updatedAt`. It is
 * absent while that is unknown.
 */
export function makeApiRouter(deps: ApiDeps): Middleware {
  const { writes, logger } = deps;
  const authenticate = makeAuthenticate(deps);
  const shares = { unread: makeShares("unread"), exports: makeShares("exports") };
  const routeDeps = { ...deps, ...shares, authenticate, orderWait: makeOrderWait(deps) };
  const refuseAddress = makeRefuseAddress(authenticate);
  const v1 = Router({ caseSensitive: true, strict: true });
  v1.use(stampAnswer);
  const reads: Readonly<Record<ReadName, Route>> = {
    listOrders: makeListOrders(routeDeps),
    getOrder: makeGetOrder(routeDeps),
    listBranches: makeListBranches(routeDeps),
    exportOrdersAsCsv: makeExportOrders("csv", routeDeps),
    exportOrdersAsNdjson: makeExportOrders("ndjson", routeDeps),
    listChanges: makeListChanges(routeDeps),
    streamChanges: makeStreamChanges(routeDeps),
  };
  for (const { name, method, path } of API_ENDPOINTS)
    if (method === "GET") v1.get(path.slice("/v1".length), reads[name]);
  v1.use(refuseAddress, refuseUndecodable(refuseAddress));
  if (writes === undefined)
    v1.use(() => {
      throw new RefusedRequestError(READ_ONLY);
    });
  else v1.use(makeWriteThrough({ ...writes, authenticate, logger }));
  v1.use(makeErrorAnswer(logger));
  const router = Router({ caseSensitive: true });
  router.use("/v1", v1);
  // Other versions, and /V1: unknown at the provider, too.
  router.use(/^\/v\d+(?=\/|$)/i, stampAnswer, (request) => {
    authenticate(request);
    throw new RefusedRequestError(NO_SUCH_ADDRESS);
  });
  router.use(makeErrorAnswer(logger));
  // None of its routes needs what an application would add to them.
  return (request, response, next) => router(request as Request, response as Response, next);
}

const READ_ONLY = {
  status: 405,
  code: "method_not_allowed",
  message: "The mirror is read-only: send this request to the provider.",
  headers: { Allow: "GET, HEAD" },
};

/**
 * Refuses what no route has answered as the provider does: 401 without a token, 404 for an unknown path, 405 for
 * another method. Lets the writes of the contract through.
 */
function makeRefuseAddress(authenticate: Authenticate): Middleware<RoutedRequest> {
  return (request, _response, next) => {
    authenticate(request);
    const { method = "" } = request;
    const { endpoint, methods } = matchAddress(method, `/v1${request.url}`);
    if (endpoint !== undefined && WRITE_METHODS.includes(method)) next();
    else throw methods.length > 0 ? refuseMethod(methods) : new RefusedRequestError(NO_SUCH_ADDRESS);
  };
}

/** An address that cannot be decoded names nothing: Express would answer 400, before it asks for a token. */
function refuseUndecodable(refuseAddress: Middleware<RoutedRequest>) {
  return (error: unknown, request: Request, response: Response, next: NextFunction): unknown =>
    error instanceof URIError ? refuseAddress(request, response, next) : next(error);
}
