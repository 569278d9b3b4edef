import { createHmac, randomBytes } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { readCookie } from "../html/requests.ts";
import type { PasswordByRole, Role, Viewer } from "./viewer.ts";

/** Browser sessions, identified by a cookie that only this browser and this host know. */
export interface Sessions {
  /** Starts a session under a new token and ends the browser's previous one: a token planted beforehand is useless. */
  begin(request: Request, response: Response, role: Role): Promise<void>;
  find(request: Request): Promise<Viewer | undefined>;
  end(request: Request, response: Response): Promise<void>;
}

/** One shift: people on call log in once. */
const LIFE_SECONDS = 12 * 3_600;
/** A session without a use for this long ends. */
const IDLE_SECONDS = 2 * 3_600;
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
 * Sessions stored in Postgres, shared by all web processes. The table holds an HMAC of the token under the passwords:
 * the table alone opens nothing, and a new password ends all sessions.
 *
 * express-session was rejected: it has one cookie name, so none with `__Host-` over https and another over http; it
 * counts a page that updates itself as use; it judges expiry by each process's clock; and its store writes no audit log
 * in the statement of the login.
 */
export function makeSessions(pool: Pool, passwords: PasswordByRole): Sessions {
  const secret = JSON.stringify([passwords.operator, passwords.viewer]);
  const hash = (token: string) => createHmac("sha256", secret).update(token).digest();

  return {
    async begin(request, response, role) {
      const token = randomBytes(TOKEN_BYTES).toString("base64url");
      await deleteSession(pool, readTokens(request).map(hash));
      await insertSession(pool, { role, tokenHash: hash(token) });
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },
    async find(request) {
      // Another host can plant the cookie for plain http, but not the other one.
      const [token] = readTokens(request);
      if (token === undefined) return undefined;
      // A page that keeps itself up to date is not a person's use.
      const isUse = request.headers["sec-fetch-dest"] !== "empty";
      const role = await findSession(pool, { tokenHash: hash(token), isUse });
      return role === undefined ? undefined : { role, person: null, hasSession: true };
    },
    async end(request, response) {
      await deleteSession(pool, readTokens(request).map(hash));
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
function readTokens(request: Request): string[] {
  return [SECURE_COOKIE, PLAIN_COOKIE]
    .map((name) => readCookie(request, name))
    .filter((token) => TOKEN.test(token));
}

/**
 * Whether a session is open. One whose last use is ahead of the clock is over: the clock was set back since, and the
 * session would last longer than it may, by as much. Small corrections of a clock end no session.
 */
const IS_OPEN = `(expires_at > clock_timestamp()
  and last_seen_at > clock_timestamp() - interval '${IDLE_SECONDS} seconds'
  and last_seen_at < clock_timestamp() + interval '1 minute')`;

/** Starts a session and records that in the audit log: both or neither. Deletes sessions that are over. */
async function insertSession(
  pool: Pool,
  { role, tokenHash }: { role: Role; tokenHash: Buffer },
): Promise<void> {
  await pool.query(
    `with swept as (
       delete from mirror.ops_sessions where not ${IS_OPEN}
     ), noted as (
       insert into mirror.ops_actions (role, action) values ($1, 'log_in')
     )
     insert into mirror.ops_sessions (role, token_hash, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [role, tokenHash, LIFE_SECONDS],
  );
}

/**
 * The role of the session of that token; undefined if there is none, or if it is over.
 * With `isUse` its use is recorded once a minute, so that not every page view is a write.
 */
async function findSession(
  pool: Pool,
  { tokenHash, isUse }: { tokenHash: Buffer; isUse: boolean },
): Promise<Role | undefined> {
  const { rows } = await pool.query<{ role: Role }>(
    `with found as (
       select token_hash, role, last_seen_at from mirror.ops_sessions where token_hash = $1 and ${IS_OPEN}
     ), noted as (
       update mirror.ops_sessions s set last_seen_at = clock_timestamp()
       from found where s.token_hash = found.token_hash and $2
         and found.last_seen_at < clock_timestamp() - interval '1 minute'
     )
     select role from found`,
    [tokenHash, isUse],
  );
  return rows[0]?.role;
}

/** Ends the sessions of the tokens and records that in the audit log; without such a session it does nothing. */
async function deleteSession(pool: Pool, tokenHashes: readonly Buffer[]): Promise<void> {
  await pool.query(
    `with ended as (delete from mirror.ops_sessions where token_hash = any($1::bytea[]) returning role)
     insert into mirror.ops_actions (role, action) select role, 'log_out' from ended`,
    [tokenHashes],
  );
}
