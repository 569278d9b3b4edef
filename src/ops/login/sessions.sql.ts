import type { Role } from "../../database/auditLog.sql.ts";
import type { Pool } from "../../database/database.ts";

/** A session without a use for this long ends. */
const IDLE_SECONDS = 2 * 3_600;

const IS_OPEN = `(expires_at > clock_timestamp()
  and last_seen_at > clock_timestamp() - interval '${IDLE_SECONDS} seconds')`;

/** Ends sessions by the hashes of their tokens, and names each in the audit log. */
export async function endSessions(pool: Pool, hashes: readonly Buffer[]): Promise<void> {
  await pool.query(
    `with ended as (delete from mirror.ops_sessions where token_hash = any($1::bytea[]) returning role)
     insert into mirror.ops_actions (role, action) select role, 'log_out' from ended`,
    [hashes],
  );
}

/** Starts a session and records that in the audit log, both or neither; deletes sessions that are over. */
export async function beginSession(
  pool: Pool,
  { role, hash, mark, lifeSeconds }: { role: Role; hash: Buffer; mark: Buffer; lifeSeconds: number },
): Promise<void> {
  await pool.query(
    `with swept as (
       delete from mirror.ops_sessions where not ${IS_OPEN}
     ), noted as (
       insert into mirror.ops_actions (role, action) values ($1, 'log_in')
     )
     insert into mirror.ops_sessions (role, token_hash, expires_at, password_mark)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3), $4)`,
    [role, hash, lifeSeconds, mark],
  );
}

/**
 * Finds whose session it is; undefined if it is not open. Ends the sessions of former passwords, which would otherwise
 * be open again if such a password came back. Its use is recorded once a minute, so that not every page view is a
 * write.
 */
export async function findSession(
  pool: Pool,
  { hash, mark, isUse }: { hash: Buffer; mark: Buffer; isUse: boolean },
): Promise<Role | undefined> {
  const { rows } = await pool.query<{ role: Role }>(
    `with former as (
       delete from mirror.ops_sessions where password_mark <> $3 returning role
     ), ended as (
       insert into mirror.ops_actions (role, action) select role, 'log_out' from former
     ), found as (
       select token_hash, role, last_seen_at from mirror.ops_sessions where token_hash = $1 and ${IS_OPEN}
     ), noted as (
       update mirror.ops_sessions s set last_seen_at = clock_timestamp()
       from found where s.token_hash = found.token_hash and $2
         and found.last_seen_at < clock_timestamp() - interval '1 minute'
     )
     select role from found`,
    [hash, isUse, mark],
  );
  return rows[0]?.role;
}
