import type { IncomingMessage } from "node:http";
import { Router, urlencoded } from "express";
import type { Request, RequestHandler, Response } from "express";
import type { Pool } from "../../database/database.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { isLocalRequest } from "../../runtime/config/loopback.ts";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import { makeFailureThrottle } from "../../runtime/http/failureThrottle.ts";
import type { LoginCode } from "./loginCode.ts";
import { renderLogin } from "./loginPage.ts";
import type { LoginWays } from "./loginPage.ts";
import { makePasswordCheck } from "./passwords.ts";
import type { PasswordByRole, Role } from "./passwords.ts";
import type { Sessions } from "./sessions.ts";
import { refuseOtherSites } from "./refuseOtherSites.ts";
import { makeSignOnRoutes, makeProxyEntrance } from "./signOn.ts";
import { enter } from "./viewer.ts";

export interface LoginDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  /** How people sign on by another program; null: by the passwords only. */
  readonly signOn: SignOn | null;
  readonly sessions: Sessions;
  /** With no password and no sign-on at all, programs on this machine are the operator. */
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
const FAILED = "Single sign-on did not succeed. Try again; the log of the web process says why.";
const OVERVIEW = "/ops";

/**
 * Lets in who logged in: people whom the proxy of the single sign-on names, people with a session, and programs by HTTP Basic
 * as `operator` or `viewer`; a role without a password does not exist. With no way in at all nobody gets in (403) but, with
 * `localTrust`, programs on this machine, which are the operator. Otherwise browsers are led to the login, programs get 401,
 * and after too many wrong passwords 429.
 *
 * Basic stays because `curl --user` is what people reach for at night; browsers are never asked for it, since they
 * cannot log out of it and send it along with what other sites make them do.
 */
export function makeLogin(deps: LoginDeps): Router {
  const { passwords, signOn, sessions, localTrust, loginCode } = deps;
  const router = Router();
  const hasPasswords = passwords.operator !== null || passwords.viewer !== null;
  if (!hasPasswords && signOn === null) return router.use(localTrust ? letInThisMachine : refuseAll);

  const ways = { hasPasswords, hasOpenIdConnect: (signOn?.openIdConnect ?? null) !== null };
  const tryPassword = makePasswordTrial(deps);
  router.use(makeLoginRoutes({ sessions, tryPassword, loginCode, ways }));
  const letInByOwn = makeOwnEntrance({ sessions, tryPassword });
  if (signOn === null) return router.use(letInByOwn);
  const fail = (response: Response) => {
    const page = renderLogin({ next: OVERVIEW, trouble: FAILED, ways });
    response.status(401).type("html").send(page);
  };
  router.use(makeSignOnRoutes({ ...deps, signOn, readTarget, fail }));
  return router.use(makeProxyEntrance({ ...deps, signOn }, letInByOwn));
}

/** Lets in who has a session or sends a right password. */
function makeOwnEntrance({
  sessions,
  tryPassword,
}: Pick<RouteDeps, "sessions" | "tryPassword">): RequestHandler {
  return async (request, response, next) => {
    const basic = readCredentials(request);
    if (basic === undefined) {
      const viewer = await sessions.find(request);
      return viewer === undefined ? askToLogIn(request, response) : enter(response, viewer, next);
    }
    const { role, waitSeconds } = tryPassword(request, basic.password, basic.user);
    if (role !== undefined) return enter(response, { role, person: null, sources: null }, next);
    if (waitSeconds === 0) return askToLogIn(request, response);
    response.set("Retry-After", String(waitSeconds));
    return refuse(response, 429, BLOCKED);
  };
}

function makePasswordTrial({ passwords, clock, logger }: LoginDeps): TryPassword {
  const findRole = makePasswordCheck(passwords);
  const throttle = makeFailureThrottle(clock);
  return (request, password, user) => {
    const address = request.socket.remoteAddress ?? "";
    const waitSeconds = throttle.waitSeconds(address);
    if (waitSeconds > 0) return { waitSeconds };
    const role = findRole(password, user === undefined ? undefined : rolesNamed(user));
    if (role === undefined) {
      throttle.recordFailure(address);
      logger.warn({ outcome: "wrong_password", remote_ip: address }, "ops login refused");
    } else throttle.recordSuccess(address);
    return { role, waitSeconds };
  };
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
  readonly ways: LoginWays;
}

/** The form, its target, and the way out. A wrong password shows the form again, with status 401. */
function makeLoginRoutes({ sessions, tryPassword, loginCode, ways }: RouteDeps): Router {
  const router = Router();
  router.get("/login", async (request, response) => {
    const next = readTarget(request.query["next"]);
    const { code } = request.query;
    if (typeof code !== "string") {
      response.type("html").send(renderLogin({ next, ways }));
    } else if (loginCode?.redeem(code) === true) {
      await sessions.begin(request, response, { role: "operator", person: null, sources: null });
      response.redirect(303, next);
    } else {
      response
        .status(401)
        .type("html")
        .send(renderLogin({ next, trouble: SPENT, ways }));
    }
  });
  const form = urlencoded({ extended: false, limit: "8kb" });
  router.post("/login", refuseOtherSites, form, async (request, response) => {
    const fields = (request.body ?? {}) as Record<string, unknown>;
    const next = readTarget(fields["next"]);
    const password = typeof fields["password"] === "string" ? fields["password"] : "";
    const { role, waitSeconds } = tryPassword(request, password);
    if (role !== undefined) {
      await sessions.begin(request, response, { role, person: null, sources: null });
      response.redirect(303, next);
      return;
    }
    const blocked = waitSeconds > 0;
    if (blocked) response.set("Retry-After", String(waitSeconds));
    response
      .status(blocked ? 429 : 401)
      .type("html")
      .send(renderLogin({ next, trouble: blocked ? BLOCKED : WRONG, ways }));
  });
  router.post("/logout", refuseOtherSites, async (request, response) => {
    await sessions.end(request, response);
    response.redirect(303, "/ops/login");
  });
  return router;
}

const letInThisMachine: RequestHandler = (request, response, next) => {
  if (isLocalRequest(request))
    return enter(response, { role: "operator", person: null, sources: null }, next);
  return refuse(
    response,
    403,
    "Only from this machine, as long as there is neither OPS_PASSWORD nor single sign-on.",
  );
};

const refuseAll: RequestHandler = (_request, response) =>
  refuse(response, 403, "Nobody can log in, as there is neither OPS_PASSWORD nor single sign-on.");

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
