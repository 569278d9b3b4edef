import { createHmac, randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import { Router, type CookieOptions, type Request, type RequestHandler, type Response } from "express";
import type { Pool } from "../database/database.ts";
import type { SignOn } from "../config/config.ts";
import { makeFailureThrottle } from "../process/failureThrottle.ts";
import { html } from "../html/html.ts";
import { isLocalRequest, isSameOrigin } from "../process/loopback.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/telemetry/logger.ts";
import { digestSecret, matchesDigest } from "../process/secretDigest.ts";
import {
  enter,
  mayAct,
  parseForm,
  readField,
  readFormField,
  refuse,
  sendPage,
  viewerOf,
  type Role,
  type Viewer,
} from "./page.ts";

/** Each role's password; null: the role does not exist. */
type PasswordByRole = Readonly<Record<Role, string | null>>;

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
 * password does not exist. If nothing is configured, nobody is admitted (403), except that with `localTrust` programs on
 * this machine are the operator. Otherwise browsers are redirected to the login, and programs get 401.
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
        return enter(response, { role: "operator", person: null }, next);
      const who = localTrust ? "Only from this machine" : "Nobody can log in";
      return refuse(response, 403, `${who}, because neither OPS_PASSWORD nor single sign-on is set.`);
    });

  const sessions = makeSessions(pool, passwords);
  if (hasPasswords) router.use(makeLoginRoutes(sessions, deps));
  const letInBySession: RequestHandler = async (request, response, next) => {
    const viewer = await sessions.find(request);
    return viewer === undefined ? askToLogIn(request, response, hasPasswords) : enter(response, viewer, next);
  };
  return router.use(
    signOn === null ? letInBySession : makeProxyEntrance({ ...deps, signOn }, letInBySession),
  );
}

/** Refuses (403) what another site's page made a browser send. */
const refuseOtherSites: RequestHandler = (request, response, next) => {
  if (isSameOrigin(request)) return next();
  refuse(response, 403, "This request came from another site.");
};

/**
 * A change needs the operator (405 for a viewer) and must not come from another site's page (403): browsers attach the
 * session to any request.
 */
export const guardWrites: RequestHandler = (request, response, next) => {
  if (request.method === "GET" || request.method === "HEAD") return next();
  if (!mayAct(viewerOf(response))) {
    return refuse(response.set("Allow", "GET, HEAD"), 405, "A viewer cannot change anything.");
  }
  return refuseOtherSites(request, response, next);
};

/** Finds the role of a password; none if it is wrong. All passwords are compared, with a placeholder for absent ones, so
 * that the time does not reveal which roles exist. */
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
    showLogin(response, readTarget(readField(request.query["next"])));
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
    response.redirect(303, next);
  });
  router.post("/logout", refuseOtherSites, async (request, response) => {
    await sessions.end(request, response);
    response.redirect(303, "/ops/login");
  });
  return router;
}

/** A person's browser is redirected to the form; a program, or a page's script, gets a 401. */
function askToLogIn(request: Request, response: Response, hasPasswords: boolean): void {
  if (!hasPasswords)
    return refuse(response, 401, "Use the address of the sign-on proxy; this address has no login.");
  if (!(request.headers.accept ?? "").includes("text/html"))
    return refuse(response, 401, "Log in as operator or viewer.");
  const isPage = request.method === "GET" || request.method === "HEAD";
  const target = isPage ? `?next=${encodeURIComponent(request.originalUrl)}` : "";
  response.redirect(303, `/ops/login${target}`);
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

/** One shift: people on call log in once. */
const LIFE_SECONDS = 12 * 3_600;
/** A session without a use for this long ends. */
const IDLE_SECONDS = 2 * 3_600;
const TOKEN = /^[\w-]{43}$/;

/**
 * The `__Host-` prefix makes browsers ensure that no other host and no plain-http page can set or read it over https.
 */
const SECURE_COOKIE = "__Host-order_mirror";
/** For plain http, on this machine or in a network without TLS, where browsers refuse the other cookie. */
const PLAIN_COOKIE = "order_mirror";

/**
 * Lax, not Strict: a link in a chat or an alert opens the page instead of the login. This does not let other sites act:
 * all actions are POST, and guardWrites checks their origin.
 */
const COOKIE: CookieOptions = { httpOnly: true, sameSite: "lax", path: "/" };

const IS_OPEN = `(expires_at > clock_timestamp()
  and last_seen_at > clock_timestamp() - interval '${IDLE_SECONDS} seconds')`;

type Sessions = ReturnType<typeof makeSessions>;

/**
 * Sessions stored in Postgres, shared by all web processes, and identified by a cookie that only this browser and this
 * host know. The table holds an HMAC of its token under the passwords: the table alone opens nothing, and a new password
 * ends all sessions.
 *
 * express-session was tried and rejected: it has one cookie name, so none with `__Host-` over https and another over http; it
 * counts a page that updates itself as use; it judges expiry by each process's clock; and its store writes no audit log
 * in the statement of the login.
 */
function makeSessions(pool: Pool, passwords: PasswordByRole) {
  const secret = JSON.stringify([passwords.operator, passwords.viewer]);
  const hash = (token: string) => createHmac("sha256", secret).update(token).digest();

  /** Ends the browser's sessions, which the audit log then names; without one it does nothing. */
  async function endAll(request: Request): Promise<void> {
    await pool.query(
      `with ended as (delete from mirror.ops_sessions where token_hash = any($1::bytea[]) returning role)
       insert into mirror.ops_actions (role, action) select role, 'log_out' from ended`,
      [readTokens(request).map(hash)],
    );
  }

  return {
    /**
     * Starts a session and records that in the audit log, both or neither; deletes sessions that are over. It has a new
     * token and the browser's previous one ends: a token planted beforehand is useless.
     */
    async begin(request: Request, response: Response, role: Role): Promise<void> {
      const token = randomBytes(32).toString("base64url");
      await endAll(request);
      await pool.query(
        `with swept as (
           delete from mirror.ops_sessions where not ${IS_OPEN}
         ), noted as (
           insert into mirror.ops_actions (role, action) values ($1, 'log_in')
         )
         insert into mirror.ops_sessions (role, token_hash, expires_at)
         values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
        [role, hash(token), LIFE_SECONDS],
      );
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },

    /** Whose session it is, if it is open. Its use is recorded once a minute, so that not every page view is a write. */
    async find(request: Request): Promise<Viewer | undefined> {
      // Another host can plant the cookie for plain http, but not the other one.
      const [token] = readTokens(request);
      if (token === undefined) return undefined;
      // A page that keeps itself up to date is not a person's use.
      const isUse = request.headers["sec-fetch-dest"] !== "empty";
      const { rows } = await pool.query<{ role: Role }>(
        `with found as (
           select token_hash, role, last_seen_at from mirror.ops_sessions where token_hash = $1 and ${IS_OPEN}
         ), noted as (
           update mirror.ops_sessions s set last_seen_at = clock_timestamp()
           from found where s.token_hash = found.token_hash and $2
             and found.last_seen_at < clock_timestamp() - interval '1 minute'
         )
         select role from found`,
        [hash(token), isUse],
      );
      return rows[0] && { role: rows[0].role, person: null, hasSession: true };
    },

    async end(request: Request, response: Response): Promise<void> {
      await endAll(request);
      response.clearCookie(SECURE_COOKIE, { ...COOKIE, secure: true }).clearCookie(PLAIN_COOKIE, COOKIE);
    },
  };
}

/**
 * Decides from the browser's point of view: it sends its page's origin with every form, whatever is in between. With a
 * link it sends none; then the proxy's header decides, because a wrong one at worst makes the browser refuse the
 * cookie.
 */
function isHttps({ headers }: Request): boolean {
  return headers.origin?.startsWith("https://") ?? headers["x-forwarded-proto"] === "https";
}

/** The cookie over https first. */
function readTokens({ headers }: Request): string[] {
  const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim().split("=", 2));
  return [SECURE_COOKIE, PLAIN_COOKIE]
    .map((name) => cookies.find(([each]) => each === name)?.[1] ?? "")
    .filter((token) => TOKEN.test(token));
}

/** A person as named by the proxy. */
interface Person {
  /** For the audit log and for granting roles. */
  readonly name: string;
  readonly groups: readonly string[];
}

const NO_ROLE = "You are signed on, but neither you nor one of your groups has a role here.";
const EVERYBODY = "*";
const NAME_LENGTH_MAX = 255;
/** Several headers of one name may arrive joined by commas. */
const NAME = /^[^\p{Cc},]+$/u;

/**
 * Admits a person named by the proxy, with the granted role (403: none was granted); leaves other requests to
 * `otherwise`.
 */
function makeProxyEntrance(
  { signOn, logger }: { readonly signOn: SignOn; readonly logger: Logger },
  otherwise: RequestHandler,
): RequestHandler {
  const findPerson = makePersonReader(signOn);
  return (request, response, next) => {
    const person = findPerson(request);
    if (person === undefined) return otherwise(request, response, next);
    const viewer = findAccess(signOn, person);
    if (viewer !== undefined) return enter(response, viewer, next);
    logger.warn({ outcome: "no_role", remote_ip: request.socket.remoteAddress ?? "" }, "ops login refused");
    return refuse(response, 403, NO_ROLE);
  };
}

/** The access of a person: the highest role granted to the name or to a group. Undefined: no role was granted. */
function findAccess({ operators, viewers }: SignOn, { name, groups }: Person): Viewer | undefined {
  const isTheirs = (grant: string) => grant === EVERYBODY || grant === name || groups.includes(grant);
  if (operators.some(isTheirs)) return { role: "operator", person: name };
  return viewers.some(isTheirs) ? { role: "viewer", person: name } : undefined;
}

/**
 * The person named in the proxy's headers; undefined if the request does not come from the proxy or names nobody. A
 * repeated header names nobody: one of the two could be the client's.
 */
function makePersonReader({ addresses, userHeader, groupsHeader }: SignOn) {
  const isProxy = makeAddressCheck(addresses);
  return ({ socket, rawHeaders }: IncomingMessage): Person | undefined => {
    if (!isProxy(socket.remoteAddress)) return undefined;
    const [name = "", ...otherNames] = valuesOf(rawHeaders, userHeader);
    const [list = "", ...otherLists] = valuesOf(rawHeaders, groupsHeader);
    if (otherNames.length > 0 || otherLists.length > 0) return undefined;
    if (name.length > NAME_LENGTH_MAX || !NAME.test(name)) return undefined;
    const groups = list
      .split(",")
      .map((group) => group.trim())
      .filter((group) => group !== "");
    return { name, groups };
  };
}

/** Every value of a header, as UTF-8. */
function valuesOf(rawHeaders: readonly string[], wanted: string): string[] {
  return rawHeaders
    .filter((_, place) => place % 2 === 1 && rawHeaders[place - 1]?.toLowerCase() === wanted)
    .map((value) => Buffer.from(value, "latin1").toString("utf8").trim());
}

/** Whether an address is one of `addresses` or in one of their networks. */
function makeAddressCheck(addresses: readonly string[]): (address: string | undefined) => boolean {
  const known = new BlockList();
  for (const each of addresses) {
    const [address = "", prefix] = each.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) known.addAddress(address, family);
    else known.addSubnet(address, Number(prefix), family);
  }
  return (address = "") => {
    const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
    const family = isIP(plain);
    return family !== 0 && known.check(plain, family === 6 ? "ipv6" : "ipv4");
  };
}
