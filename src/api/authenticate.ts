import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isLocalRequest } from "../process/loopback.ts";
import { digestSecret } from "../process/secretDigest.ts";
import type { Clock } from "../process/clock.ts";
import { makeLogSampler } from "../process/telemetry/logSampler.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { INVALID_API_KEY, RefusedRequestError } from "../wire/refusal.ts";

/** Who sent a request. */
export interface Caller {
  /** The source that the caller may read, or write to. */
  readonly sourceId: string;
  /** Tells callers apart by their tokens, without revealing these: see makeShares. */
  readonly client: string;
}

/** Returns who may read a source, or with `writes` write to it; throws RefusedRequestError for everybody else. */
export type Authenticate = (request: IncomingMessage, need?: { readonly writes: boolean }) => Caller;

const BEARER = /^Bearer +(\S+) *$/i;
const SOURCE_HEADER = "x-source";
const DEFAULT_SOURCE = "live";
const LOG_INTERVAL_MS = 10_000;
const NO_WRITE = { status: 403, code: "write_not_allowed", message: "This token has no write access." };
const STRANGER =
  "No API token is configured, so only direct requests from this machine with LOCAL_TRUST are answered.";

interface AuthenticateDeps {
  readonly apiTokens: readonly { token: string; sourceId: string; mayWrite?: boolean }[];
  readonly sources: readonly { sourceId: string }[];
  readonly localTrust: boolean;
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly logger: Logger;
}

/**
 * Decides who may read and write what (spec, "Authentication").
 *
 * Each token is bound to one source. With `localTrust` and without tokens, programs on this machine may read the source
 * `live` or the one in the header `X-Source`. 401 invalid_api_key for a missing or unknown token; 422 unknown_source
 * for an `X-Source` that does not exist or is not the token's: answering from another mode than the requested one would
 * mix them unnoticed. 403 write_not_allowed for a write by anybody but the holder of a token with write access: a web
 * page in a browser on this machine could order couriers otherwise.
 */
export function makeAuthenticate(deps: AuthenticateDeps): Authenticate {
  const keys = deps.apiTokens.map(({ token, ...key }, index) => ({
    digest: digestSecret(token),
    client: `token ${index}`,
    ...key,
  }));
  const isSource = (id: string) => deps.sources.some(({ sourceId }) => sourceId === id);
  const refuseToken = makeRefuseToken(deps);

  return (request, { writes } = { writes: false }) => {
    const asked = request.headers[SOURCE_HEADER]?.toString();
    if (keys.length === 0) {
      if (!deps.localTrust || !isLocalRequest(request))
        throw new RefusedRequestError({ ...INVALID_API_KEY, message: STRANGER });
      const sourceId = asked ?? DEFAULT_SOURCE;
      if (!isSource(sourceId)) throw refuseSource("The source does not exist: name one in X-Source.");
      if (writes) throw new RefusedRequestError(NO_WRITE);
      return { sourceId, client: "this machine" };
    }
    const presented = digestSecret(readToken(request) ?? "");
    // With every key, so that the time does not reveal which one matched.
    const [key] = keys.filter(({ digest }) => timingSafeEqual(presented, digest));
    if (key === undefined) throw refuseToken(request);
    if (asked !== undefined && asked !== key.sourceId)
      throw refuseSource("X-Source is not the source of this token.");
    if (writes && key.mayWrite !== true) throw new RefusedRequestError(NO_WRITE);
    return key;
  };
}

/**
 * Refuses a missing or unknown token. It is logged with its address, at most once in 10 s. Who guesses is not slowed
 * down: a token has at least 16 characters, and behind a proxy all clients share one address.
 */
function makeRefuseToken({ clock, logger }: Pick<AuthenticateDeps, "clock" | "logger">) {
  const sample = makeLogSampler({ clock, intervalMs: LOG_INTERVAL_MS });
  return (request: IncomingMessage): RefusedRequestError => {
    const outcome = readToken(request) === undefined ? "missing" : "unknown";
    const suppressed = sample(outcome);
    const address = request.socket.remoteAddress;
    if (suppressed !== undefined)
      logger.warn({ outcome, remote_ip: address, suppressed }, "an API token was refused");
    return new RefusedRequestError(INVALID_API_KEY);
  };
}

function readToken(request: IncomingMessage): string | undefined {
  return BEARER.exec(request.headers.authorization ?? "")?.[1];
}

function refuseSource(message: string): RefusedRequestError {
  return new RefusedRequestError({ status: 422, code: "unknown_source", message });
}
