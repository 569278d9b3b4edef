import type { Role } from "../../database/auditLog.sql.ts";
import { Router, type Request, type RequestHandler, type Response } from "express";
import type { SignOn } from "../../config/config.ts";
import type { Pool } from "../../database/database.ts";
import { html } from "../../html/html.ts";
import {
  setViewer,
  mayAct,
  parseForm,
  readField,
  readFormField,
  sendRefusal,
  sendPage,
  viewerOf,
  pressedOn,
  basePathOf,
  redirect,
} from "../page.ts";
import type { Clock } from "../../process/clock.ts";
import { makeFailureThrottle } from "../../process/failureThrottle.ts";
import { isLocalRequest, isSameOrigin } from "../../process/loopback.ts";
import { digestSecret, matchesDigest } from "../../process/secretDigest.ts";
import type { Logger } from "../../process/telemetry/logger.ts";
import { makeSessions, type PasswordByRole, type Sessions } from "./sessions.ts";
import { makeProxyEntrance } from "./signOn.ts";

export interface LoginDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  /** The proxy that signs people on; null: passwords only. */
  readonly signOn: SignOn | null;
  /** Without any password or sign-on, programs on this machine are the operator. */
  readonly localTrust: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Admits people named by the sign-on proxy and people who have logged in with a role's password; a role without a
 * password does not exist. If nothing is configured, nobody is admitted (403), except that with `localTrust` programs
 * on this machine are the operator. Otherwise browsers are redirected to the login, and programs get 401.
 *
 * There is no HTTP Basic: browsers cannot log out of it, and they attach it to requests that other sites trigger.
 */
export function makeLogin(deps: LoginDeps): Router {
  const { pool, passwords, signOn, localTrust } = deps;
  const router = Router();
  const hasPasswords = passwords.operator !== null || passwords.viewer !== null;
  if (!hasPasswords && signOn === null)
    return router.use((request, response, next) => {
      if (localTrust && isLocalRequest(request))
        return setViewer(response, { role: "operator", person: null }, next);
      const who = localTrust ? "Only from this machine" : "Nobody can log in";
      return sendRefusal(response, 403, `${who}, because neither OPS_PASSWORD nor single sign-on is set.`);
    });

  const sessions = makeSessions(pool, passwords);
  if (hasPasswords) router.use(makeLoginRoutes(sessions, deps));
  const letInBySession: RequestHandler = async (request, response, next) => {
    const viewer = await sessions.find(request);
    return viewer === undefined
      ? askToLogIn(request, response, hasPasswords)
      : setViewer(response, viewer, next);
  };
  return router.use(
    signOn === null ? letInBySession : makeProxyEntrance({ ...deps, signOn }, letInBySession),
  );
}

/** Refuses (403) what another site's page made a browser send. */
const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  sendRefusal(response, 403, "This request came from another site.");
};

/**
 * A change needs the operator (405 for a viewer) and must not come from another site's page (403): browsers attach the
 * session to any request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (request.method === "GET" || request.method === "HEAD") return next();
  if (!mayAct(viewerOf(response))) {
    return sendRefusal(response.set("Allow", "GET, HEAD"), 405, "A viewer cannot change anything.");
  }
  return refuseOtherSites(request, response, next);
};

/**
 * Finds the role of a password; none if it is wrong. All passwords are compared, with a placeholder for absent ones, so
 * that the time does not reveal which roles exist.
 */
function makePasswordCheck(passwords: PasswordByRole): (password: string) => Role | undefined {
  const digests = (["operator", "viewer"] as const).map((role) => {
    return { role, exists: passwords[role] !== null, digest: digestSecret(passwords[role] ?? "") };
  });
  return (password) =>
    digests.filter(({ digest }) => matchesDigest(password, digest)).find(({ exists }) => exists)?.role;
}

/** The login form, its target, and the logout. After a wrong password, or too many of them, it shows the form again. */
function makeLoginRoutes(sessions: Sessions, { passwords, clock, logger }: LoginDeps): Router {
  const findRole = makePasswordCheck(passwords);
  const throttle = makeFailureThrottle(clock);
  const router = Router();
  router.get("/login", (request, response) => {
    const trouble = readField(request.query["undone"]) === "" ? undefined : NOT_DONE;
    showLogin(response, readTarget(readField(request.query["next"])), trouble);
  });
  router.post("/login", refuseOtherSites, parseForm, async (request, response) => {
    const next = readTarget(readFormField(request, "next"));
    const address = request.socket.remoteAddress ?? "";
    const waitSeconds = throttle.waitSeconds(address);
    if (waitSeconds > 0) {
      response.status(429).set("Retry-After", String(waitSeconds));
      return showLogin(response, next, "Too many wrong passwords. Try again in a minute.");
    }
    const role = findRole(readFormField(request, "password"));
    if (role === undefined) {
      throttle.recordFailure(address);
      logger.warn({ outcome: "wrong_password", remote_ip: address }, "ops login refused");
      return showLogin(response.status(401), next, "Wrong password.");
    }
    await sessions.begin(request, response, role);
    redirect(response, next);
  });
  router.post("/logout", refuseOtherSites, async (request, response) => {
    await sessions.end(request, response);
    redirect(response, "/ops/login");
  });
  return router;
}

const NOT_DONE = "Your session had ended, so what you pressed was not done. Log in, and press again.";

/** A person's browser is redirected to the form; a program, or a page's script, gets a 401. */
function askToLogIn(request: Request, response: Response, hasPasswords: boolean): void {
  if (!hasPasswords)
    return sendRefusal(response, 401, "Use the address of the sign-on proxy; this address has no login.");
  if (!(request.headers.accept ?? "").includes("text/html"))
    return sendRefusal(response, 401, "Log in as operator or viewer; nothing was done.");
  const isPage = request.method === "GET" || request.method === "HEAD";
  const next = isPage
    ? request.originalUrl.slice(basePathOf(response).length)
    : (pressedOn(response) ?? "/ops");
  const target = `?next=${encodeURIComponent(next)}${isPage ? "" : "&undone=1"}`;
  redirect(response, `/ops/login${target}`);
}

/** The target after the login: always an address of the ops pages, never of another host. */
const readTarget = (given: string) => (/^\/ops(?:[/?]|$)/.test(given) ? given : "/ops");

function showLogin(response: Response, next: string, trouble?: string): void {
  const body = html`<h1>Log in</h1>
    ${trouble !== undefined && html`<p class="alert" role="alert">${trouble}</p>`}
    <form class="stack" method="post" action="/ops/login">
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
  sendPage(response, { title: "Log in", body });
}
