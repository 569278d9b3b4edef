import type { IncomingMessage } from "node:http";
import { Router, urlencoded } from "express";
import type { Request, RequestHandler, Response } from "express";
import type { Pool } from "../../database/database.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { isLocalRequest } from "../../runtime/config/loopback.ts";
import type { LoginCode } from "./loginCode.ts";
import { renderLogin } from "./loginPage.ts";
import { makeLoginThrottle } from "./loginThrottle.ts";
import { makePasswordCheck } from "./passwords.ts";
import type { PasswordByRole, Role } from "./passwords.ts";
import { makeSessions } from "./sessions.ts";
import type { Sessions } from "./sessions.ts";
import { refuseOtherSites } from "./refuseOtherSites.ts";

/** Who looks at a page. */
export interface Viewer {
  readonly role: Role;
  /** By a session of the browser, which can be ended; a program and an open page have none. */
  readonly loggedIn?: boolean;
}

export interface LoginDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  /** With no password at all, programs on this machine are the operator. */
  readonly localTrust: boolean;
  /** Logs the first operator in; undefined: passwords only. */
  readonly loginCode?: LoginCode | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

const BASIC = /^Basic +([A-Za-z0-9+/=]+) *$/i;
const WRONG = "This is nobody's password.";
const SPENT = "This link was used before, or is too old. Log in with the password.";
const BLOCKED = "Too many wrong passwords. Try again in a minute.";
const OVERVIEW = "/ops";

/**
 * Lets in who logged in, people by a session and programs by HTTP Basic as `operator` or `viewer`; a role without a
 * password does not exist. With no password at all nobody gets in (403) but, with `localTrust`, programs on this machine,
 * which are the operator. Otherwise browsers are led to the login, programs get 401, and after too many wrong passwords 429.
 *
 * Basic stays because `curl --user` is what people reach for at night; browsers are never asked for it, since they
 * cannot log out of it and send it along with what other sites make them do.
 */
export function makeLogin(deps: LoginDeps): Router {
  const { pool, passwords, localTrust, loginCode, clock, logger } = deps;
  const router = Router();
  if (passwords.operator === null && passwords.viewer === null)
    return router.use(localTrust ? letInThisMachine : refuseAll);

  const findRole = makePasswordCheck(passwords);
  const sessions = makeSessions({ pool, passwords });
  const throttle = makeLoginThrottle(clock);

  const tryPassword: TryPassword = (request, password, user) => {
    const address = request.socket.remoteAddress ?? "";
    const waitSeconds = throttle.waitSeconds(address);
    if (waitSeconds > 0) return { waitSeconds };
    const role = findRole(password, user === undefined ? undefined : rolesNamed(user));
    if (role === undefined) {
      throttle.recordFailure(address);
      logger.warn({ outcome: "wrong_password", address }, "ops login refused");
    }
    return { role, waitSeconds };
  };

  router.use(makeLoginRoutes({ sessions, tryPassword, loginCode }));
  router.use(async (request, response, next) => {
    const basic = readCredentials(request);
    if (basic === undefined) {
      const role = await sessions.find(request);
      return role === undefined
        ? askToLogIn(request, response)
        : enter(response, { role, loggedIn: true }, next);
    }
    const { role, waitSeconds } = tryPassword(request, basic.password, basic.user);
    if (role !== undefined) return enter(response, { role }, next);
    if (waitSeconds === 0) return askToLogIn(request, response);
    response.set("Retry-After", String(waitSeconds));
    return refuse(response, 429, BLOCKED);
  });
  return router;
}

interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** The role of the password; none when it is wrong, or while the address must wait after too many wrong ones. */
type TryPassword = (
  request: Request,
  password: string,
  user?: string,
) => { readonly role?: Role | undefined; readonly waitSeconds: number };

interface RouteDeps {
  readonly sessions: Sessions;
  readonly tryPassword: TryPassword;
  readonly loginCode: LoginCode | undefined;
}

/** The form, its target, and the way out. A wrong password shows the form again, with status 401. */
function makeLoginRoutes({ sessions, tryPassword, loginCode }: RouteDeps): Router {
  const router = Router();
  router.get("/login", async (request, response) => {
    const next = readTarget(request.query["next"]);
    const { code } = request.query;
    if (typeof code !== "string") {
      response.type("html").send(renderLogin({ next }));
    } else if (loginCode?.redeem(code) === true) {
      await sessions.begin(request, response, "operator");
      response.redirect(303, next);
    } else {
      response
        .status(401)
        .type("html")
        .send(renderLogin({ next, trouble: SPENT }));
    }
  });
  const form = urlencoded({ extended: false, limit: "8kb" });
  router.post("/login", refuseOtherSites, form, async (request, response) => {
    const fields = (request.body ?? {}) as Record<string, unknown>;
    const next = readTarget(fields["next"]);
    const password = typeof fields["password"] === "string" ? fields["password"] : "";
    const { role, waitSeconds } = tryPassword(request, password);
    if (role !== undefined) {
      await sessions.begin(request, response, role);
      response.redirect(303, next);
      return;
    }
    const blocked = waitSeconds > 0;
    if (blocked) response.set("Retry-After", String(waitSeconds));
    response
      .status(blocked ? 429 : 401)
      .type("html")
      .send(renderLogin({ next, trouble: blocked ? BLOCKED : WRONG }));
  });
  router.post("/logout", refuseOtherSites, async (request, response) => {
    await sessions.end(request, response);
    response.redirect(303, "/ops/login");
  });
  return router;
}

const letInThisMachine: RequestHandler = (request, response, next) => {
  if (isLocalRequest(request)) return enter(response, { role: "operator" }, next);
  return refuse(response, 403, "Only from this machine, as long as no OPS_PASSWORD is set.");
};

const refuseAll: RequestHandler = (_request, response) =>
  refuse(response, 403, "Nobody can log in, as no OPS_PASSWORD is set.");

/** Who looks at this page. */
export function viewerOf(response: Response): Viewer {
  const viewer = response.locals["viewer"] as Viewer | undefined;
  return viewer ?? { role: "viewer" };
}

/** The role that makeLogin gave to this request. */
export function roleOf(response: Response): Role {
  return viewerOf(response).role;
}

function enter(response: Response, viewer: Viewer, next: () => void): void {
  response.locals["viewer"] = viewer;
  next();
}

/** A person's browser is led to the form; a script of a page gets a bare 401, as a challenge opens a dialog. */
function askToLogIn(request: Request, response: Response): void {
  if ((request.headers.accept ?? "").includes("text/html")) {
    const isPage = request.method === "GET" || request.method === "HEAD";
    const target = isPage ? `?next=${encodeURIComponent(request.originalUrl)}` : "";
    response.redirect(303, `/ops/login${target}`);
    return;
  }
  if (request.headers["sec-fetch-mode"] === undefined) {
    response.set("WWW-Authenticate", 'Basic realm="order-mirror", charset="UTF-8"');
  }
  refuse(response, 401, "Log in as operator or viewer.");
}

/** Where to go after the login: an address of the ops pages, never one of another host. */
function readTarget(value: unknown): string {
  return typeof value === "string" && /^\/ops(?:[/?]|$)/.test(value) ? value : OVERVIEW;
}

function refuse(response: Response, status: number, sentence: string): void {
  response.status(status).type("text/plain").send(`${sentence}\n`);
}

const rolesNamed = (user: string): Role[] => (user === "operator" || user === "viewer" ? [user] : []);

function readCredentials(request: IncomingMessage): Credentials | undefined {
  const encoded = BASIC.exec(request.headers.authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}
