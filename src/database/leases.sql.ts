import { OrderMirrorError } from "../domain/errors.ts";
import type { Pool } from "./database.ts";

/** Proof of leading, as long as it lasts: writes name it and are refused once another holder has come. */
export interface Lease {
  readonly name: string;
  readonly holder: string;
  /** Grows by one with each new holder. */
  readonly fence: bigint;
}

/** Another process leads now, or the lease ran out before it was renewed; nothing was written. */
export class LeaseLostError extends OrderMirrorError {
  override readonly name = "LeaseLostError";
  override readonly retry = "later";
}

/**
 * CTE `held`: one row while the lease in $1 to $3 (values from leaseValues) holds, by the database's clock. The lock
 * on it makes a new holder wait until the statement is over, so that its write cannot come after theirs.
 */
export const HELD = `held as (
  select fence from mirror.leases
  where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()
  for share
)`;

export function leaseValues({ name, holder, fence }: Lease): readonly [string, string, bigint] {
  return [name, holder, fence];
}

export function makeLeaseLostError({ name, fence }: Lease): LeaseLostError {
  return new LeaseLostError(`the lease ${name} is held no more under the number ${fence}`);
}

/**
 * Takes the lease when it is free or has run out; undefined when somebody holds it, also the same holder. It runs out
 * `ttlMs` later by the database's clock, unless renewed.
 *
 * One that lasts longer than `ttlMs` from now was written before the clock was set back, and is not believed: nobody
 * would lead for as long as the clock went back. A holder who is alive after all is stopped by the new number.
 */
export async function acquireLease(
  pool: Pool,
  { name, holder, ttlMs }: { name: string; holder: string; ttlMs: number },
): Promise<Lease | undefined> {
  const { rows } = await pool.query<{ fence: string }>(
    `insert into mirror.leases as lease (name, holder, fence, expires_at)
     values ($1, $2, 1, clock_timestamp() + $3 * interval '1 millisecond')
     on conflict (name) do update set
       holder = excluded.holder, fence = lease.fence + 1, expires_at = excluded.expires_at
     where lease.expires_at <= clock_timestamp()
       or lease.expires_at > clock_timestamp() + $3 * interval '1 millisecond'
     returning fence`,
    [name, holder, ttlMs],
  );
  const [row] = rows;
  return row && { name, holder, fence: BigInt(row.fence) };
}

/** Makes the lease last `ttlMs` from now; false when another holder has come. One that ran out is not revived. */
export async function renewLease(pool: Pool, lease: Lease, { ttlMs }: { ttlMs: number }): Promise<boolean> {
  const result = await pool.query(
    `update mirror.leases set expires_at = clock_timestamp() + $4 * interval '1 millisecond'
     where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()`,
    [...leaseValues(lease), ttlMs],
  );
  return result.rowCount === 1;
}

/** Lets the next one in at once. The row stays, or its number would start again. */
export async function releaseLease(pool: Pool, lease: Lease): Promise<void> {
  await pool.query(
    `update mirror.leases set expires_at = clock_timestamp()
     where name = $1 and holder = $2 and fence = $3::bigint and expires_at > clock_timestamp()`,
    [...leaseValues(lease)],
  );
}
