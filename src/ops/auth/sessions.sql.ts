import { createHmac, randomBytes } from "node:crypto";
import type { CookieOptions, Request, Response } from "express";
import type { Pool } from "../../database/database.ts";
import { readCookie } from "../html/requests.ts";
import { OPS_ROLES } from "./viewer.ts";
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
 * Sessions stored in Postgres, shared by all web processes. The table holds an HMAC of the token under the role's
 * password: the table alone opens nothing, and a new password ends the sessions of the former one.
 */
export function makeSessions(pool: Pool, passwords: PasswordByRole): Sessions {
  const hash = (password: string, token: string) => createHmac("sha256", password).update(token).digest();
  const makeKeys = (token: string): SessionKey[] =>
    OPS_ROLES.flatMap((role) => {
      const password = passwords[role];
      return password === null ? [] : [{ role, tokenHash: hash(password, token) }];
    });

  return {
    async begin(request, response, role) {
      const token = randomBytes(TOKEN_BYTES).toString("base64url");
      const key = makeKeys(token).find((each) => each.role === role);
      if (key === undefined) return;
      await deleteSession(pool, readTokens(request).flatMap(makeKeys));
      await insertSession(pool, key);
      const secure = isHttps(request);
      response.cookie(secure ? SECURE_COOKIE : PLAIN_COOKIE, token, { ...COOKIE, secure });
    },
    async find(request) {
      // Another host can plant the cookie for plain http, but not the other one.
      const keys = readTokens(request).slice(0, 1).flatMap(makeKeys);
      if (keys.length === 0) return undefined;
      // A page that keeps itself up to date is not a person's use.
      const isUse = request.headers["sec-fetch-dest"] !== "empty";
      const role = await findSession(pool, { keys, isUse });
      return role === undefined ? undefined : { role, person: null, hasSession: true };
    },
    async end(request, response) {
      await deleteSession(pool, readTokens(request).flatMap(makeKeys));
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

/** A possible session of a browser: the hash of its cookie under the role's password. */
interface SessionKey {
  readonly role: Role;
  readonly tokenHash: Buffer;
}

const listKeys = (keys: readonly SessionKey[]) => [
  keys.map(({ role }) => role),
  keys.map(({ tokenHash }) => tokenHash),
];

/**
 * Whether a session is open. One whose last use is ahead of the clock is over: the clock was set back since, and the
 * session would last longer than it may, by as much. Small corrections of a clock end no session.
 */
const IS_OPEN = `(expires_at > clock_timestamp()
  and last_seen_at > clock_timestamp() - interval '${IDLE_SECONDS} seconds'
  and last_seen_at < clock_timestamp() + interval '1 minute')`;

/** Starts a session and records that in the audit log: both or neither. Deletes sessions that are over. */
async function insertSession(pool: Pool, { role, tokenHash }: SessionKey): Promise<void> {
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
 * The role of the session that one of the keys opens; undefined if none does, or if it is over.
 * With `isUse` its use is recorded once a minute, so that not every page view is a write.
 */
async function findSession(
  pool: Pool,
  { keys, isUse }: { keys: readonly SessionKey[]; isUse: boolean },
): Promise<Role | undefined> {
  const { rows } = await pool.query<{ role: Role }>(
    `with found as (
       select s.token_hash, s.role, s.last_seen_at
       from mirror.ops_sessions s join unnest($1::text[], $2::bytea[]) as k (role, token_hash)
         on s.token_hash = k.token_hash and s.role = k.role
       where ${IS_OPEN}
     ), noted as (
       update mirror.ops_sessions s set last_seen_at = clock_timestamp()
       from found where s.token_hash = found.token_hash and $3
         and found.last_seen_at < clock_timestamp() - interval '1 minute'
     )
     select role from found`,
    [...listKeys(keys), isUse],
  );
  return rows[0]?.role;
}

/** Ends the sessions that the keys open and records that in the audit log; without such a session it does nothing. */
async function deleteSession(pool: Pool, keys: readonly SessionKey[]): Promise<void> {
  await pool.query(
    `with ended as (
       delete from mirror.ops_sessions s using unnest($1::text[], $2::bytea[]) as k (role, token_hash)
       where s.token_hash = k.token_hash and s.role = k.role
       returning s.role
     )
     insert into mirror.ops_actions (role, action) select role, 'log_out' from ended`,
    listKeys(keys),
  );
}
