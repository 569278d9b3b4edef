import type { IncomingMessage } from "node:http";
import { Router } from "express";
import type { Request, RequestHandler, Response } from "express";
import type { Pool } from "../../database/database.ts";
import type { SignOn } from "../../runtime/config/config.ts";
import { makeFailureThrottle } from "../../runtime/http/failureThrottle.ts";
import { html } from "../../runtime/http/html.ts";
import { isLocalRequest } from "../../runtime/http/loopback.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import type { Logger } from "../../runtime/telemetry/logger.ts";
import { renderPage } from "../html/page.ts";
import { parseForm, readForm, refuse } from "../html/requests.ts";
import { makeProxyEntrance } from "./proxySignOn.ts";
import { makeSessions } from "./sessions.sql.ts";
import type { Sessions } from "./sessions.sql.ts";
import { enter, makePasswordCheck, refuseOtherSites } from "./viewer.ts";
import type { PasswordByRole, Role, Viewer } from "./viewer.ts";

export interface LoginDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  /** The proxy that signs people on; null: passwords only. */
  readonly signOn: SignOn | null;
  /** Without any password or sign-on, programs on this machine are the operator. */
  readonly localTrust: boolean;
  /** Logs the first operator in; undefined: passwords only. */
  readonly clock: Clock;
  readonly logger: Logger;
}

const BASIC = /^Basic +([A-Za-z0-9+/=]+) *$/i;
const WRONG = "Wrong password.";
const BLOCKED = "Too many wrong passwords. Try again in a minute.";
const OVERVIEW = "/ops";

/**
 * Admits people named by the sign-on proxy, people with a session, and programs with HTTP Basic as `operator` or
 * `viewer`. A role without a password does not exist. If nothing is configured, nobody is admitted (403), except that
 * with `localTrust` programs on this machine are the operator. Otherwise browsers are redirected to the login; programs
 * get 401, and 429 after too many wrong passwords.
 *
 * Basic stays because `curl --user` is convenient in an emergency. Browsers are never asked for it: they cannot log out
 * of it, and they would attach it to requests that other sites trigger.
 */
export function makeLogin(deps: LoginDeps): Router {
  const { pool, passwords, signOn, localTrust } = deps;
  const router = Router();
  const hasPasswords = passwords.operator !== null || passwords.viewer !== null;
  if (!hasPasswords && signOn === null) return router.use(localTrust ? letInThisMachine : refuseAll);

  const sessions = makeSessions(pool, passwords);
  const tryPassword = makePasswordTrial(deps);
  router.use(makeLoginRoutes({ sessions, tryPassword, hasPasswords }));
  const letInByOwn = makeOwnEntrance({ sessions, tryPassword });
  return router.use(signOn === null ? letInByOwn : makeProxyEntrance({ ...deps, signOn }, letInByOwn));
}

/** Everybody who knows a role's password. */
const anybody = (role: Role): Viewer => ({ role, person: null });

/** Admits anybody with a session or a correct password. */
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
    if (role !== undefined) return enter(response, anybody(role), next);
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

/** The role of the password; none if it is wrong, or while the address must wait after too many wrong ones. */
type TryPassword = (
  request: Request,
  password: string,
  user?: string,
) => { readonly role?: Role | undefined; readonly waitSeconds: number };

interface RouteDeps {
  readonly sessions: Sessions;
  readonly tryPassword: TryPassword;
  readonly hasPasswords: boolean;
}

/** The login form, its target, and the logout. A wrong password shows the form again, with status 401. */
function makeLoginRoutes({ sessions, tryPassword, hasPasswords }: RouteDeps): Router {
  const router = Router();
  router.get("/login", (request, response) => {
    showLogin(response, 200, { next: readTarget(request.query["next"]), hasPasswords });
  });
  router.post("/login", refuseOtherSites, parseForm, async (request, response) => {
    const fields = readForm(request);
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
    showLogin(response, blocked ? 429 : 401, { next, trouble: blocked ? BLOCKED : WRONG, hasPasswords });
  });
  router.post("/logout", refuseOtherSites, async (request, response) => {
    await sessions.end(request, response);
    response.redirect(303, "/ops/login");
  });
  return router;
}

const letInThisMachine: RequestHandler = (request, response, next) => {
  if (isLocalRequest(request)) return enter(response, anybody("operator"), next);
  return refuse(
    response,
    403,
    "Only from this machine, because neither OPS_PASSWORD nor single sign-on is set.",
  );
};

const refuseAll: RequestHandler = (_request, response) =>
  refuse(response, 403, "Nobody can log in, because neither OPS_PASSWORD nor single sign-on is set.");

/**
 * A person's browser is redirected to the form; a page's script gets a bare 401, because a challenge would open a
 * dialog.
 */
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

/** The target after the login: always an address of the ops pages, never of another host. */
function readTarget(value: unknown): string {
  return typeof value === "string" && /^\/ops(?:[/?]|$)/.test(value) ? value : OVERVIEW;
}

const rolesNamed = (user: string): Role[] => (user === "operator" || user === "viewer" ? [user] : []);

function readCredentials(request: IncomingMessage): Credentials | undefined {
  const encoded = BASIC.exec(request.headers.authorization ?? "")?.[1];
  if (encoded === undefined) return undefined;
  const text = Buffer.from(encoded, "base64").toString();
  const colon = text.indexOf(":");
  return colon === -1 ? undefined : { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

function showLogin(
  response: Response,
  status: number,
  { next, trouble, hasPasswords }: { next: string; trouble?: string; hasPasswords: boolean },
): void {
  const form = html`<form class="stack" method="post" action="/ops/login">
      <input type="hidden" name="next" value="${next}" />
      <label
        >Password
        <input
          type="password"
          name="password"
          required
          maxlength="1000"
          autocomplete="current-password"
          autofocus
      /></label>
      <button class="main">Log in</button>
    </form>
    <p class="dim">
      With the operator's password (OPS_PASSWORD) you can make changes; with the viewer's
      (OPS_VIEWER_PASSWORD) you can only look.
    </p>`;
  const body = html`<h1>Log in</h1>
    ${trouble !== undefined && html`<p class="alert" role="alert">${trouble}</p>`}
    ${hasPasswords ? form : html`<p>Use the address of the sign-on proxy; this address has no login.</p>`}`;
  response
    .status(status)
    .type("html")
    .send(renderPage({ title: "Log in", body }));
}
