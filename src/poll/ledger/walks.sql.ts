import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Pool, Queryable } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError, writeUnderLease } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";
import { WalkForgottenError } from "../cycle/errors.ts";

/** Identifies a walk: each sweep of a source has one at a time. */
export interface WalkKey {
  readonly sourceId: string;
  readonly sweep: string;
}

/** A walk with its progress. */
export interface WalkProgress extends WalkKey {
  readonly window: Window;
  /** Provider-clock instant at which the first page was requested. */
  readonly begunAt: Instant;
  /** Pages read. */
  readonly step: number;
  /** Orders on those pages. */
  readonly orders: number;
  /** As the program encodes it. */
  readonly state: string;
}

export interface StoredWalk extends Pick<WalkProgress, "begunAt" | "step" | "orders" | "state"> {
  /** The new keys of each page that had any, the first page first. */
  readonly pages: readonly (readonly string[])[];
  /** Time since its first page was committed. */
  readonly elapsedMs: number;
}

/** The walk was started with the same provider and database. */
export const SAME_GROUND = `walks.server = mirror.server_identity()
  and walks.provider = (select coalesce(provider, base_url) from mirror.sources s where s.source_id = walks.source_id)`;

/** The walk to continue; undefined if there is none, or if it was started with another provider or database server. */
export async function loadWalk(pool: Pool, { sourceId, sweep }: WalkKey): Promise<StoredWalk | undefined> {
  const { rows } = await pool.query<Omit<StoredWalk, "begunAt"> & { begunAt: string }>(
    `select begun_at as "begunAt", step, orders, state::text,
       coalesce((select json_agg(keys order by p.step) from mirror.walk_pages p
         where p.source_id = walks.source_id and p.sweep = walks.sweep), '[]') as pages,
       greatest(0, extract(epoch from clock_timestamp() - started_at) * 1000)::float8 as "elapsedMs"
     from mirror.walks where source_id = $1 and sweep = $2 and ${SAME_GROUND}`,
    [sourceId, sweep],
  );
  const [row] = rows;
  return row && { ...row, begunAt: BigInt(row.begunAt) };
}

/** Records the first page of a walk and replaces any earlier walk of this sweep. Throws LeaseLostError. */
export async function beginWalk(
  client: Queryable,
  lease: Lease,
  { progress, keys }: { progress: WalkProgress; keys: readonly string[] },
): Promise<void> {
  const { rows } = await client.query(
    `with ${HELD}, forgotten as (
       delete from mirror.walk_pages using held where source_id = $4 and sweep = $5 returning step
     ), begun as (
       insert into mirror.walks (source_id, sweep, since, until, begun_at, step, orders, state, fence, provider,
         server)
       select source_id, $5, $6::bigint, $7::bigint, $8::bigint, $9::integer, $10::integer, $11::json, held.fence,
         coalesce(provider, base_url), mirror.server_identity()
       from held, mirror.sources where source_id = $4
       on conflict (source_id, sweep) do update set
         since = excluded.since, until = excluded.until, begun_at = excluded.begun_at, step = excluded.step,
         orders = excluded.orders, state = excluded.state, fence = excluded.fence, provider = excluded.provider,
         server = excluded.server, started_at = excluded.started_at
       returning source_id, sweep, step
     ), noted as (
       insert into mirror.walk_pages (source_id, sweep, step, keys)
       select begun.*, $12::text[] from begun where (select count(*) from forgotten) is not null and $12::text[] <> '{}'
     )
     select from begun`,
    [...walkValues(lease, progress), keys],
  );
  if (rows.length === 0) throw makeLeaseLostError(lease);
}

/**
 * Records one more page of a walk, if the database knows all earlier pages. Throws WalkForgottenError or
 * LeaseLostError.
 */
export async function advanceWalk(
  client: Queryable,
  lease: Lease,
  { progress, keys }: { progress: WalkProgress; keys: readonly string[] },
): Promise<void> {
  const { rows } = await client.query<{ held: boolean; advanced: boolean }>(
    `with ${HELD}, advanced as (
       update mirror.walks set step = $9, orders = $10, state = $11::json, fence = held.fence
       from held
       where source_id = $4 and sweep = $5 and since = $6::bigint and until = $7::bigint and begun_at = $8::bigint
         and step = $9::integer - 1 and ${SAME_GROUND}
       returning source_id, sweep, step
     ), noted as (
       insert into mirror.walk_pages (source_id, sweep, step, keys)
       select advanced.*, $12::text[] from advanced where $12::text[] <> '{}'
     )
     select exists (select from held) as held, exists (select from advanced) as advanced`,
    [...walkValues(lease, progress), keys],
  );
  if (rows[0]?.held !== true) throw makeLeaseLostError(lease);
  if (!rows[0].advanced) throw makeForgottenError(progress.sweep, progress.step - 1);
}

/** Deletes the record of a sweep's walk, which is started again or abandoned. Throws LeaseLostError. */
export async function forgetWalk(
  client: Queryable,
  lease: Lease,
  { sourceId, sweep }: WalkKey,
): Promise<void> {
  const forgotten = "forgotten as (delete from mirror.walks using held where source_id = $4 and sweep = $5)";
  await writeUnderLease(client, lease, forgotten, [sourceId, sweep]);
}

function walkValues(lease: Lease, progress: WalkProgress) {
  const { sourceId, sweep, window, begunAt, step, orders, state } = progress;
  return [...leaseValues(lease), sourceId, sweep, window.since, window.until, begunAt, step, orders, state];
}

export function makeForgottenError(sweep: string, page: number): WalkForgottenError {
  return new WalkForgottenError(
    `the database does not know page ${page} of the ${sweep} sweep's window: it was restored, replaced or read by another process`,
  );
}
