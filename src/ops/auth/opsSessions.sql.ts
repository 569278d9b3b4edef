import type { Pool } from "../../database/database.ts";
import type { OpsRole } from "../lists/opsActions.sql.ts";

/** A session that a browser may have, as its cookie would hash under the role's password. */
export interface SessionKey {
  readonly role: OpsRole;
  readonly tokenHash: Buffer;
}

/** Begins a session and writes that into the audit log: both or neither. Sessions that are over are swept out. */
export async function insertSession(
  pool: Pool,
  { role, tokenHash, lifeSeconds }: SessionKey & { lifeSeconds: number },
): Promise<void> {
  await pool.query(
    `with swept as (
       delete from mirror.ops_sessions where expires_at < clock_timestamp()
     ), noted as (
       insert into mirror.ops_actions (role, action) values ($1, 'log_in')
     )
     insert into mirror.ops_sessions (role, token_hash, expires_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [role, tokenHash, lifeSeconds],
  );
}

/**
 * The role of the session that one of the keys opens; undefined when none does, it is over, or nobody used it for
 * `idleSeconds`. That it was used is noted once a minute, so that reading a page is not a write each time.
 */
export async function findSession(
  pool: Pool,
  { keys, idleSeconds }: { keys: readonly SessionKey[]; idleSeconds: number },
): Promise<OpsRole | undefined> {
  const { rows } = await pool.query<{ role: OpsRole }>(
    `with found as (
       select s.token_hash, s.role, s.last_seen_at
       from mirror.ops_sessions s join unnest($1::text[], $2::bytea[]) as k (role, token_hash)
         on s.token_hash = k.token_hash and s.role = k.role
       where s.expires_at > clock_timestamp()
         and s.last_seen_at > clock_timestamp() - make_interval(secs => $3)
     ), noted as (
       update mirror.ops_sessions s set last_seen_at = clock_timestamp()
       from found where s.token_hash = found.token_hash
         and found.last_seen_at < clock_timestamp() - interval '1 minute'
     )
     select role from found`,
    [keys.map(({ role }) => role), keys.map(({ tokenHash }) => tokenHash), idleSeconds],
  );
  return rows[0]?.role;
}

/** Ends the session that one of the keys opens, and writes that into the audit log; no such session: does nothing. */
export async function deleteSession(pool: Pool, keys: readonly SessionKey[]): Promise<void> {
  await pool.query(
    `with ended as (
       delete from mirror.ops_sessions s using unnest($1::text[], $2::bytea[]) as k (role, token_hash)
       where s.token_hash = k.token_hash and s.role = k.role
       returning s.role
     )
     insert into mirror.ops_actions (role, action) select role, 'log_out' from ended`,
    [keys.map(({ role }) => role), keys.map(({ tokenHash }) => tokenHash)],
  );
}
