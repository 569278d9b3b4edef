import { createHmac, randomBytes } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { deleteSession, findSession, insertSession } from "./opsSessions.sql.ts";
import type { SessionKey, SessionOwner } from "./opsSessions.sql.ts";
import { OPS_ROLES } from "./passwords.ts";
import type { PasswordByRole, Role } from "./passwords.ts";
import { readCookie } from "../html/requests.ts";
import type { SignOn } from "../../runtime/config/signOnVariables.ts";
import type { Viewer } from "./viewer.ts";

/** Browser sessions, identified by a cookie that only this browser and this host know. */
export interface Sessions {
  /** Starts a session under a new token and ends the browser's previous one: a token planted beforehand is useless. */
  begin(request: Request, response: Response, owner: SessionOwner): Promise<void>;
  find(request: Request): Promise<Viewer | undefined>;
  end(request: Request, response: Response): Promise<void>;
}

interface SessionsDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  readonly signOn: SignOn | null;
}

/** One shift: people on call log in once. */
const LIFE_SECONDS = 12 * 3_600;
const TOKEN_BYTES = 32;
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

/**
 * Sessions stored in Postgres, shared by all web processes. The table holds an HMAC of the token under the role's
 * password, or under our OpenID Connect secret and the grants: the table alone opens nothing, and changing one of them
 * ends the sessions.
 */
export function makeSessions({ pool, passwords, signOn }: SessionsDeps): Sessions {
  const signOnSecret = makeSignOnSecret(signOn);
  const makeKey = (role: Role, secret: string | null, token: string): SessionKey[] =>
    secret === null ? [] : [{ role, tokenHash: createHmac("sha256", secret).update(token).digest() }];
  const makeKeys = (token: string): SessionKey[] =>
    OPS_ROLES.flatMap((role) =>
      [passwords[role], signOnSecret].flatMap((secret) => makeKey(role, secret, token)),
    );
  const readKeys = (request: Request) => readTokens(request).flatMap(makeKeys);

  return {
    async begin(request, response, owner) {
      const token = randomBytes(TOKEN_BYTES).toString("base64url");
      const secret = owner.person === null ? passwords[owner.role] : signOnSecret;
      const [key] = makeKey(owner.role, secret, token);
      if (key === undefined) return;
      await deleteSession(pool, readKeys(request));
      await insertSession(pool, { ...owner, ...key, lifeSeconds: LIFE_SECONDS });
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },
    async find(request) {
      // Another host can plant the cookie for plain http, but not the other one.
      const keys = readTokens(request).slice(0, 1).flatMap(makeKeys);
      if (keys.length === 0) return undefined;
      // A page that keeps itself up to date is not a person's use.
      const isUse = request.headers["sec-fetch-dest"] !== "empty";
      const found = await findSession(pool, { keys, isUse });
      if (found === undefined) return undefined;
      const { role, person, sources, tokenHash } = found;
      return { role, person, sources, session: tokenHash.toString("hex") };
    },
    async end(request, response) {
      await deleteSession(pool, readKeys(request));
      response.clearCookie(SECURE_COOKIE, { ...COOKIE, secure: true }).clearCookie(PLAIN_COOKIE, COOKIE);
    },
  };
}

/** Sessions of people end with the grants that they were admitted by. Null: OpenID Connect is not used. */
function makeSignOnSecret(signOn: SignOn | null): string | null {
  if (!signOn?.openIdConnect) return null;
  return JSON.stringify([signOn.openIdConnect.clientSecret, signOn.operators, signOn.viewers]);
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
function readTokens(request: Request): string[] {
  return [SECURE_COOKIE, PLAIN_COOKIE]
    .map((name) => readCookie(request, name))
    .filter((token) => TOKEN.test(token));
}
