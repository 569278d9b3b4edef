import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isLocalRequest } from "../runtime/http/loopback.ts";
import { digestSecret } from "../runtime/secretDigest.ts";
import { makeFailureThrottle } from "../runtime/http/failureThrottle.ts";
import type { Clock } from "../runtime/lifecycle/clock.ts";
import { makeLogSampler } from "../runtime/telemetry/logSampler.ts";
import type { Logger } from "../runtime/telemetry/logger.ts";
import { INVALID_API_KEY, RefusedRequestError } from "../wire/refusal.ts";

/** Returns the id of the source that the request may read, or throws RefusedRequestError. */
export type Authenticate = (request: IncomingMessage) => string;

const BEARER = /^Bearer +(\S+) *$/i;
const SOURCE_HEADER = "x-source";
const DEFAULT_SOURCE = "live";
const LOG_INTERVAL_MS = 10_000;

interface AuthenticateDeps {
  readonly apiTokens: readonly { token: string; sourceId: string }[];
  /** Read at each request, because sources may change. */
  readonly sources: readonly { sourceId: string }[];
  readonly localTrust: boolean;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly logger: Logger;
}

/**
 * Decides who may read what (spec, "Authentication").
 *
 * Each token is bound to one source. With `localTrust` and without tokens, programs on this machine may read the source
 * `live` or the one in the header `X-Source`. 401 invalid_api_key for a missing or unknown token; 429 too_many_attempts
 * after too many wrong ones; 422 unknown_source for an `X-Source` that does not exist or is not the token's: answering
 * from another mode than the requested one would mix them unnoticed.
 */
export function makeAuthenticate(deps: AuthenticateDeps): Authenticate {
  const keys = deps.apiTokens.map(({ token, sourceId }) => ({ digest: digestSecret(token), sourceId }));
  const isSource = (id: string) => deps.sources.some(({ sourceId }) => sourceId === id);
  const guard = makeTokenGuard(deps);

  return (request) => {
    const asked = readSourceHeader(request);
    if (keys.length === 0) {
      if (!deps.localTrust || !isLocalRequest(request)) throw refuseStranger();
      const sourceId = asked ?? DEFAULT_SOURCE;
      if (!isSource(sourceId)) throw refuseSource("The source does not exist: name one in X-Source.");
      return sourceId;
    }
    const sourceId = guard(request, findSource(keys, readToken(request)));
    if (asked !== undefined && asked !== sourceId)
      throw refuseSource("X-Source is not the source of this token.");
    return sourceId;
  };
}

/**
 * Admits the source of a valid token, whatever else came from its address: behind a proxy all clients share one, and nobody
 * guesses a token. A wrong one is logged with its address, at most once in 10 s; after too many the address gets 429 for
 * wrong ones, for up to a minute.
 */
function makeTokenGuard({ clock, logger }: Pick<AuthenticateDeps, "clock" | "logger">) {
  const throttle = makeFailureThrottle(clock);
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (request: IncomingMessage, sourceId: string | undefined): string => {
    if (sourceId !== undefined) return sourceId;
    const address = request.socket.remoteAddress ?? "";
    const token = readToken(request);
    const waitSeconds = token === undefined ? 0 : throttle.waitSeconds(address);
    if (waitSeconds > 0) throw refuseFlood(waitSeconds);
    // A request without a token is not a guess: it comes from a browser, a scanner, or a client without configuration.
    if (token !== undefined) throttle.recordFailure(address);
    const outcome = token === undefined ? "missing" : "unknown";
    const suppressed = sample(outcome);
    if (suppressed !== undefined)
      logger.warn({ outcome, remote_ip: address, suppressed }, "an API token was refused");
    throw new RefusedRequestError(INVALID_API_KEY);
  };
}

/**
 * Decides who may write: the holder of a token with write access, never a local program; otherwise a web page in a
 * browser there could order couriers. As `authenticate`, and 403 write_not_allowed.
 */
export function makeAuthorizeWrite(deps: {
  authenticate: Authenticate;
  apiTokens: readonly { token: string; sourceId: string; mayWrite?: boolean }[];
}): Authenticate {
  const writers = deps.apiTokens
    .filter(({ mayWrite }) => mayWrite === true)
    .map(({ token, sourceId }) => ({ digest: digestSecret(token), sourceId }));
  return (request) => {
    const sourceId = deps.authenticate(request);
    if (findSource(writers, readToken(request)) !== undefined) return sourceId;
    const message = "This token has no write access.";
    throw new RefusedRequestError({ status: 403, code: "write_not_allowed", message });
  };
}

/** Compares with every key, so that the time does not reveal which one matched. */
function findSource(keys: readonly { digest: Buffer; sourceId: string }[], token = ""): string | undefined {
  const presented = digestSecret(token);
  return keys.filter(({ digest }) => timingSafeEqual(presented, digest))[0]?.sourceId;
}

function readToken(request: IncomingMessage): string | undefined {
  return BEARER.exec(request.headers.authorization ?? "")?.[1];
}

function readSourceHeader(request: IncomingMessage): string | undefined {
  const value = request.headers[SOURCE_HEADER];
  return Array.isArray(value) ? value.join(",") : value;
}

function refuseFlood(waitSeconds: number): RefusedRequestError {
  const headers = { "Retry-After": String(waitSeconds) };
  const message = "Too many wrong API tokens came from this address.";
  return new RefusedRequestError({ status: 429, code: "too_many_attempts", message, headers });
}

function refuseStranger(): RefusedRequestError {
  const message =
    "No API token is configured, so only direct requests from this machine with LOCAL_TRUST are answered.";
  return new RefusedRequestError({ ...INVALID_API_KEY, message });
}

function refuseSource(message: string): RefusedRequestError {
  return new RefusedRequestError({ status: 422, code: "unknown_source", message });
}
