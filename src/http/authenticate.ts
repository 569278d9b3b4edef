import type { IncomingMessage } from "node:http";
import { isLocalRequest } from "../runtime/config/loopback.ts";
import { digestSecret, matchesDigest } from "../runtime/config/secretDigest.ts";
import { RefusedRequestError } from "./errors.ts";

/** Returns the id of the source that the request may read, or throws RefusedRequestError. */
export type Authenticate = (request: IncomingMessage) => string;

const BEARER = /^Bearer +(\S+) *$/i;
const SOURCE_HEADER = "x-source";
const DEFAULT_SOURCE = "live";

/**
 * Who may read what (spec, "Authentication").
 *
 * Each token is bound to one source. With `localTrust` and without tokens, programs on this machine may read, the source
 * `live` or the one that the header `X-Source` names. 401 invalid_api_key for a missing or unknown token; 422
 * unknown_source for an `X-Source` that does not exist, or that is not the token's: answering from another mode
 * than the one asked for would mix them unnoticed.
 */
export function makeAuthenticate(deps: {
  apiTokens: readonly { token: string; sourceId: string }[];
  /** Read at each request: sources come and go. */
  sources: readonly { sourceId: string }[];
  localTrust: boolean;
}): Authenticate {
  const keys = deps.apiTokens.map(({ token, sourceId }) => ({ digest: digestSecret(token), sourceId }));
  const isSource = (id: string) => deps.sources.some(({ sourceId }) => sourceId === id);

  return (request) => {
    const asked = readSourceHeader(request);
    if (keys.length === 0) {
      if (!deps.localTrust || !isLocalRequest(request)) throw refuseStranger();
      const sourceId = asked ?? DEFAULT_SOURCE;
      if (!isSource(sourceId)) throw refuseSource("There is no such source: name one in X-Source.");
      return sourceId;
    }
    const sourceId = findSource(keys, readToken(request));
    if (sourceId === undefined) throw refuseKey("The API token is missing or unknown.");
    if (asked !== undefined && asked !== sourceId)
      throw refuseSource("X-Source is not the source of this token.");
    return sourceId;
  };
}

/**
 * Who may write: the holder of a token that may, never anybody for being on this machine; a page in a browser there
 * could otherwise order couriers. As `authenticate`, and 403 write_not_allowed.
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
    const message = "This token may only read.";
    throw new RefusedRequestError({ status: 403, code: "write_not_allowed", message });
  };
}

/** Compares with every key, so that the time does not tell which one matched. */
function findSource(keys: readonly { digest: Buffer; sourceId: string }[], token = ""): string | undefined {
  return keys.filter((key) => matchesDigest(token, key.digest))[0]?.sourceId;
}

function readToken(request: IncomingMessage): string | undefined {
  return BEARER.exec(request.headers.authorization ?? "")?.[1];
}

function readSourceHeader(request: IncomingMessage): string | undefined {
  const value = request.headers[SOURCE_HEADER];
  return Array.isArray(value) ? value.join(",") : value;
}

function refuseKey(message: string): RefusedRequestError {
  const headers = { "WWW-Authenticate": 'Bearer realm="order-mirror"' };
  return new RefusedRequestError({ status: 401, code: "invalid_api_key", message, headers });
}

function refuseStranger(): RefusedRequestError {
  return refuseKey(
    "No API token is configured, so nobody is answered but direct requests from this machine with LOCAL_TRUST.",
  );
}

function refuseSource(message: string): RefusedRequestError {
  return new RefusedRequestError({ status: 422, code: "unknown_source", message });
}
