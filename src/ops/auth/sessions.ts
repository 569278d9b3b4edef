import { createHmac, randomBytes } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { deleteSession, findOpenSessions, findSession, insertSession } from "./opsSessions.sql.ts";
import type { SessionKey, SessionOwner } from "./opsSessions.sql.ts";
import { OPS_ROLES } from "./passwords.ts";
import type { PasswordByRole, Role } from "./passwords.ts";
import type { Viewer } from "./viewer.ts";

/** Who logged in with a browser, by a cookie that only this browser and this host know. */
export interface Sessions {
  /** Begins one under a new token and ends the one that the browser had: a token planted beforehand opens nothing. */
  begin(request: Request, response: Response, owner: SessionOwner): Promise<void>;
  find(request: Request): Promise<Viewer | undefined>;
  /** Those of the sessions of viewers that go on. */
  findOpen(sessions: readonly string[]): Promise<ReadonlySet<string>>;
  end(request: Request, response: Response): Promise<void>;
}

interface SessionsDeps {
  readonly pool: Pool;
  readonly passwords: PasswordByRole;
  /** Of OpenID Connect; null: nobody logs in by it. */
  readonly clientSecret: string | null;
}

/** A shift: whoever is on call logs in once. */
const LIFE_SECONDS = 12 * 3_600;
const IDLE_SECONDS = 2 * 3_600;
const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43}$/;

/** Over https no other host and no plain-http page can set or read it; the prefix makes browsers see to that. */
const SECURE_COOKIE = "__Host-order_mirror";
/** Over plain http, on this machine or in a network without TLS, where browsers refuse the other one. */
const PLAIN_COOKIE = "order_mirror";

/**
 * Lax and not Strict: a link to an order in a chat or an alert opens the page instead of the login. It is not what
 * keeps other sites from acting: all actions are POST, and guardWrites looks where they come from.
 */
const COOKIE: CookieOptions = { httpOnly: true, sameSite: "lax", path: "/" };

/**
 * Sessions kept in Postgres, for all web processes. What is stored is an HMAC of the token under the role's password, or under
 * the secret that OpenID Connect knows us by: the table alone opens nothing, and with a new secret the old sessions are over.
 */
export function makeSessions({ pool, passwords, clientSecret }: SessionsDeps): Sessions {
  const makeKey = (role: Role, secret: string | null, token: string): SessionKey[] =>
    secret === null ? [] : [{ role, tokenHash: createHmac("sha256", secret).update(token).digest() }];
  const makeKeys = (token: string): SessionKey[] =>
    OPS_ROLES.flatMap((role) =>
      [passwords[role], clientSecret].flatMap((secret) => makeKey(role, secret, token)),
    );
  const readKeys = (request: Request) => readTokens(request).flatMap(makeKeys);

  return {
    async begin(request, response, owner) {
      const token = randomBytes(TOKEN_BYTES).toString("base64url");
      const secret = owner.person === null ? passwords[owner.role] : clientSecret;
      const [key] = makeKey(owner.role, secret, token);
      if (key === undefined) return;
      await deleteSession(pool, readKeys(request));
      await insertSession(pool, { ...owner, ...key, lifeSeconds: LIFE_SECONDS });
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },
    async find(request) {
      const keys = readKeys(request);
      if (keys.length === 0) return undefined;
      const found = await findSession(pool, { keys, idleSeconds: IDLE_SECONDS });
      if (found === undefined) return undefined;
      const { role, person, sources, tokenHash } = found;
      return { role, person, sources, session: tokenHash.toString("hex") };
    },
    findOpen: (hashes) => findOpenSessions(pool, { hashes, idleSeconds: IDLE_SECONDS }),
    async end(request, response) {
      await deleteSession(pool, readKeys(request));
      response.clearCookie(SECURE_COOKIE, { ...COOKIE, secure: true }).clearCookie(PLAIN_COOKIE, COOKIE);
    },
  };
}

/**
 * As the browser sees it, whatever stands between: it sends its page's origin with every form. With a link it sends none;
 * then a proxy's word is taken, as the worst that a false one does is a cookie that the browser refuses.
 */
function isHttps({ headers }: Request): boolean {
  return headers.origin?.startsWith("https://") ?? headers["x-forwarded-proto"] === "https";
}

function readTokens({ headers }: Request): string[] {
  const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim().split("=", 2));
  return [SECURE_COOKIE, PLAIN_COOKIE].flatMap((name) => {
    const token = cookies.find(([each]) => each === name)?.[1] ?? "";
    return TOKEN.test(token) ? [token] : [];
  });
}
