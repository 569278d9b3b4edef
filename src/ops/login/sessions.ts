import type { Role } from "../../database/auditLog.sql.ts";
import { createHmac, randomBytes, scryptSync } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import type { Viewer } from "../page.ts";
import { beginSession, endSessions, findSession } from "./sessions.sql.ts";

/** Each role's password; null: the role does not exist. */
export type PasswordByRole = Readonly<Record<Role, string | null>>;

/** Length of a shift: people on call log in once. */
const LIFE_SECONDS = 12 * 3_600;

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

export type Sessions = ReturnType<typeof makeSessions>;

/**
 * Sessions stored in Postgres, shared by all web processes, and identified by a cookie that only this browser and this
 * host know. The table holds an HMAC of its token under the passwords: the table alone opens nothing, and a new
 * password ends all sessions.
 *
 * express-session was tried and rejected: it has one cookie name, so none with `__Host-` over https and another over
 * http; it counts a page that updates itself as use; it judges expiry by each process's clock; and its store writes no
 * audit log in the statement of the login.
 */
export function makeSessions(pool: Pool, passwords: PasswordByRole) {
  const secret = JSON.stringify([passwords.operator, passwords.viewer]);
  // Says under which passwords a session began. Slow, so that whoever reads the table cannot guess them.
  const mark = scryptSync(secret, "order-mirror sessions", 16);
  const hash = (token: string) => createHmac("sha256", secret).update(token).digest();

  return {
    /**
     * Starts a session and records that in the audit log, both or neither; deletes sessions that are over. It has a new
     * token and the browser's previous one ends: a token planted beforehand is useless.
     */
    async begin(request: Request, response: Response, role: Role): Promise<void> {
      const token = randomBytes(32).toString("base64url");
      await endSessions(pool, readTokens(request).map(hash));
      await beginSession(pool, { role, hash: hash(token), mark, lifeSeconds: LIFE_SECONDS });
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },

    /** Finds whose session the browser has; undefined without an open one. */
    async find(request: Request): Promise<Viewer | undefined> {
      // Another host can plant the cookie for plain http, but not the other one.
      const [token] = readTokens(request);
      if (token === undefined) return undefined;
      // A page that keeps itself up to date is not a person's use.
      const isUse = request.headers["sec-fetch-dest"] !== "empty";
      const role = await findSession(pool, { hash: hash(token), mark, isUse });
      return role && { role, person: null, hasSession: true };
    },

    async end(request: Request, response: Response): Promise<void> {
      await endSessions(pool, readTokens(request).map(hash));
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
  // Each proxy on the way adds its own protocol behind those before it.
  const forwarded = String(headers["x-forwarded-proto"]).split(",")[0]?.trim();
  return headers.origin?.startsWith("https://") ?? forwarded === "https";
}

/** The cookie over https first. */
function readTokens({ headers }: Request): string[] {
  const cookies = (headers.cookie ?? "").split(";").map((pair) => pair.trim().split("=", 2));
  return [SECURE_COOKIE, PLAIN_COOKIE]
    .map((name) => cookies.find(([each]) => each === name)?.[1] ?? "")
    .filter((token) => TOKEN.test(token));
}
