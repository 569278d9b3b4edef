import { OrderMirrorError } from "../domain/errors.ts";
import type { Pool, Queryable } from "./database.ts";

/** Proof of leadership: writes carry it and are refused once another holder has taken over. */
export interface Lease {
  readonly name: string;
  readonly holder: string;
  /** Incremented with each new holder. */
  readonly fence: bigint;
}

/**
 * Another process leads now, the lease expired before it was renewed, or the database was restored since it was taken,
 * so that what was written under it may be lost. Nothing was written.
 */
export class LeaseLostError extends OrderMirrorError {
  override readonly name = "LeaseLostError";
  override readonly retry = "later";
}

/** The condition on a lease that its holder, by $1 to $3, still has it; a database that was restored has lost it. */
const IS_HELD = `name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()
    and server = mirror.server_identity()`;

/**
 * CTE `held`: one row while the lease in $1 to $3 (from leaseValues) is held, by the database's clock. Its row lock
 * makes a new holder wait until the statement ends, so that the new holder's writes always come later.
 */
export const HELD = `held as (
  select fence from mirror.leases
  where ${IS_HELD}
  for share
)`;

export function leaseValues({ name, holder, fence }: Lease): readonly [string, string, bigint] {
  return [name, holder, fence];
}

export function makeLeaseLostError({ name, fence }: Lease): LeaseLostError {
  return new LeaseLostError(`the lease ${name} is no longer held under fence ${fence}`);
}

/** Runs CTEs that write only from `held`; their values begin at $4. Throws LeaseLostError. */
export async function writeUnderLease(
  database: Queryable,
  lease: Lease,
  ctes: string,
  values: readonly unknown[],
): Promise<void> {
  const { rows } = await database.query<{ held: boolean }>(
    `with ${HELD}, ${ctes} select exists (select from held) as held`,
    [...leaseValues(lease), ...values],
  );
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
}

/**
 * Takes the lease if it is free or has expired; undefined if somebody holds it, even the same holder. It expires after
 * `ttlMs` by the database's clock, unless renewed.
 *
 * A lease that lasts longer than `ttlMs` from now was written before the clock was set back. It is ignored: otherwise
 * nobody would lead for as long as the clock went back. If its holder is still alive, the new fence stops it. Nor does
 * a lease count that was taken on another server, before a failover or a restoration.
 */
export async function acquireLease(
  pool: Pool,
  { name, holder, ttlMs }: { name: string; holder: string; ttlMs: number },
): Promise<Lease | undefined> {
  const { rows } = await pool.query<{ fence: string }>(
    `insert into mirror.leases as lease (name, holder, fence, expires_at, server)
     values ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond', mirror.server_identity())
     on conflict (name) do update set
       holder = excluded.holder, fence = lease.fence + 1, expires_at = excluded.expires_at, server = excluded.server
     where lease.expires_at <= clock_timestamp()
       or lease.expires_at > clock_timestamp() + $3 * interval '1 millisecond'
       or lease.server <> excluded.server
     returning fence`,
    [name, holder, ttlMs],
  );
  const [row] = rows;
  return row && { name, holder, fence: BigInt(row.fence) };
}

/** Extends the lease to `ttlMs` from now; false if it expired or another holder has taken over. */
export async function renewLease(pool: Pool, lease: Lease, { ttlMs }: { ttlMs: number }): Promise<boolean> {
  const result = await pool.query(
    `update mirror.leases set expires_at = clock_timestamp() + $4 * interval '1 millisecond'
     where ${IS_HELD}`,
    [...leaseValues(lease), ttlMs],
  );
  return result.rowCount === 1;
}

/** Lets the next holder in immediately. The row stays, because otherwise its fence would start again. */
export async function releaseLease(pool: Pool, lease: Lease): Promise<void> {
  await pool.query(
    `update mirror.leases set expires_at = clock_timestamp()
     where ${IS_HELD}`,
    [...leaseValues(lease)],
  );
}
