import type { Pool } from "../../database/database.ts";
import type { Role } from "./passwords.ts";
import type { Viewer } from "./viewer.ts";

/** The person or role that is logged in. */
export type SessionOwner = Omit<Viewer, "session">;

/** A possible session of a browser: the hash of its cookie under the role's password. */
export interface SessionKey {
  readonly role: Role;
  readonly tokenHash: Buffer;
}

/** A session without a use for this long ends. */
const IDLE_SECONDS = 2 * 3_600;

/**
 * Whether a session is open. One whose last use is ahead of the clock is over: the clock was set back since, and the
 * session would last longer than it may, by as much. Small corrections of a clock end no session.
 */
export const IS_OPEN = `(expires_at > clock_timestamp()
  and last_seen_at > clock_timestamp() - interval '${IDLE_SECONDS} seconds'
  and last_seen_at < clock_timestamp() + interval '1 minute')`;

/** Starts a session and records that in the audit log: both or neither. Deletes sessions that are over. */
export async function insertSession(
  pool: Pool,
  { role, person, sources, tokenHash, lifeSeconds }: SessionOwner & SessionKey & { lifeSeconds: number },
): Promise<void> {
  await pool.query(
    `with swept as (
       delete from mirror.ops_sessions where not ${IS_OPEN}
     ), noted as (
       insert into mirror.ops_actions (role, person, action) values ($1, $4, 'log_in')
     )
     insert into mirror.ops_sessions (role, token_hash, expires_at, person, sources)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3), $4, $5::text[])`,
    [role, tokenHash, lifeSeconds, person, sources],
  );
}

export interface FoundSession extends SessionOwner {
  readonly tokenHash: Buffer;
}

/**
 * The session that one of the keys opens; undefined if none does, or if it is over.
 * With `isUse` its use is recorded once a minute, so that not every page view is a write.
 */
export async function findSession(
  pool: Pool,
  { keys, isUse }: { keys: readonly SessionKey[]; isUse: boolean },
): Promise<FoundSession | undefined> {
  const { rows } = await pool.query<FoundSession>(
    `with found as (
       select s.token_hash, s.role, s.person, s.sources, s.last_seen_at
       from mirror.ops_sessions s join unnest($1::text[], $2::bytea[]) as k (role, token_hash)
         on s.token_hash = k.token_hash and s.role = k.role
       where ${IS_OPEN}
     ), noted as (
       update mirror.ops_sessions s set last_seen_at = clock_timestamp()
       from found where s.token_hash = found.token_hash and $3
         and found.last_seen_at < clock_timestamp() - interval '1 minute'
     )
     select role, person, sources, token_hash as "tokenHash" from found`,
    [keys.map(({ role }) => role), keys.map(({ tokenHash }) => tokenHash), isUse],
  );
  return rows[0];
}

/**
 * Ends the session that one of the keys opens and records that in the audit log; without such a session it does
 * nothing.
 */
export async function deleteSession(pool: Pool, keys: readonly SessionKey[]): Promise<void> {
  await pool.query(
    `with ended as (
       delete from mirror.ops_sessions s using unnest($1::text[], $2::bytea[]) as k (role, token_hash)
       where s.token_hash = k.token_hash and s.role = k.role
       returning s.role, s.person
     )
     insert into mirror.ops_actions (role, person, action) select role, person, 'log_out' from ended`,
    [keys.map(({ role }) => role), keys.map(({ tokenHash }) => tokenHash)],
  );
}

/**
 * Ends somebody's session and records who did it: both or neither. Returns the number of the action; undefined if there
 * is no such session.
 */
export async function endSession(
  pool: Pool,
  { sessionId, actor }: { sessionId: string; actor: Pick<SessionOwner, "role" | "person"> },
): Promise<string | undefined> {
  const { rows } = await pool.query<{ actionId: string }>(
    `with ended as (
       delete from mirror.ops_sessions where token_hash = decode($1, 'hex') returning role, person
     )
     insert into mirror.ops_actions (role, person, action, target, affected)
     select $2, $3, 'end_session', 'session of ' || coalesce(person, ended.role), 1 from ended
     returning action_id::text as "actionId"`,
    [sessionId, actor.role, actor.person],
  );
  return rows[0]?.actionId;
}
