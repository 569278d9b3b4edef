import type { IncomingMessage } from "node:http";
import type { RequestHandler, Response } from "express";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/logger.ts";
import { isLocalRequest } from "../runtime/loopback.ts";
import { digestSecret, matchesDigest } from "../runtime/secretDigest.ts";
import { makeLoginThrottle } from "./loginThrottle.ts";

/** A viewer sees everything and changes nothing. */
export type Role = "operator" | "viewer";

/** Who looks at a page. */
export interface Viewer {
  readonly role: Role;
}

export interface LoginDeps {
  readonly opsPassword: string | null;
  readonly opsViewerPassword: string | null;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Credentials {
  readonly user: string;
  readonly password: string;
}

const BASIC = /^Basic +([A-Za-z0-9+/=]+) *$/i;

/**
 * Lets in, by HTTP Basic, the user `operator` with OPS_PASSWORD and `viewer` with OPS_VIEWER_PASSWORD; a role
 * without a password does not exist. With neither set, programs on this machine are the operator and nobody else
 * gets in (403). 401 without or with wrong credentials, 429 after too many wrong ones.
 */
export function makeLogin({ opsPassword, opsViewerPassword, clock, logger }: LoginDeps): RequestHandler {
  const digests = {
    operator: opsPassword === null ? undefined : digestSecret(opsPassword),
    viewer: opsViewerPassword === null ? undefined : digestSecret(opsViewerPassword),
  };
  const throttle = makeLoginThrottle(clock);
  const isOpen = opsPassword === null && opsViewerPassword === null;
  // Compared with where there is none, so that the time does not tell which roles exist.
  const nothing = digestSecret("");

  function findRole({ user, password }: Credentials): Role | undefined {
    const role = user === "operator" || user === "viewer" ? user : undefined;
    const digest = role === undefined ? undefined : digests[role];
    const matches = matchesDigest(password, digest ?? nothing);
    return matches && digest !== undefined ? role : undefined;
  }

  return (request, response, next) => {
    if (isOpen) {
      if (isLocalRequest(request)) return enter(response, "operator", next);
      return refuse(response, 403, "Only from this machine, as long as no OPS_PASSWORD is set.");
    }
    const address = request.socket.remoteAddress ?? "";
    const waitSeconds = throttle.waitSeconds(address);
    if (waitSeconds > 0) {
      response.set("Retry-After", String(waitSeconds));
      return refuse(response, 429, "Too many wrong passwords. Try again in a minute.");
    }
    const credentials = readCredentials(request);
    const role = credentials && findRole(credentials);
    if (role !== undefined) return enter(response, role, next);
    if (credentials !== undefined) {
      throttle.recordFailure(address);
      logger.warn({ outcome: "wrong_password" }, "ops login refused");
    }
    response.set("WWW-Authenticate", 'Basic realm="order-mirror", charset="UTF-8"');
    return refuse(response, 401, "Log in as operator or viewer.");
  };
}

/** The role that makeLogin gave to this request. */
export function roleOf(response: Response): Role {
  return response.locals["role"] === "operator" ? "operator" : "viewer";
}

/** Who looks at this page. */
export function viewerOf(response: Response): Viewer {
  return { role: roleOf(response) };
}

function enter(response: Response, role: Role, next: () => void): void {
  response.locals["role"] = role;
  next();
}

function refuse(response: Response, status: number, sentence: string): void {
  response.status(status).type("text/plain").send(`${sentence}\n`);
}

function readCredentials(request: IncomingMessage): Credentials | undefined {
  const encoded = BASIC.exec(request.headers.authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}
