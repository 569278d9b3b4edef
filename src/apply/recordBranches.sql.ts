import type { Pool } from "../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../database/leases.sql.ts";
import type { Lease } from "../database/leases.sql.ts";

/**
 * Records all branches that the provider lists, as their exact JSON texts, and notes as closed those that it lists
 * no more. Resolves with how many were closed by that. Throws LeaseLostError.
 */
export async function recordBranches(
  pool: Pool,
  lease: Lease,
  { sourceId, raws }: { sourceId: string; raws: readonly string[] },
): Promise<number> {
  const { rows } = await pool.query<{ held: boolean; closed: number }>(
    `with ${HELD}, listed as materialized (
       select distinct on (branch ->> 'id') branch ->> 'id' as branch_id, branch, raw::json as raw
       from unnest($5::text[]) with ordinality as given (raw, place)
       cross join lateral (select mirror.readable_json(raw::json) as branch) readable
       order by branch ->> 'id', place desc
     ), recorded as (
       insert into mirror.branches as known (source_id, branch_id, reference, name, street, city, postcode,
         fleet_name, zone_code, zone_name, connected_zones, raw)
       select $4, branch_id, branch ->> 'reference', branch ->> 'name', branch #>> '{address,street}',
         branch #>> '{address,city}', branch #>> '{address,postcode}', branch #>> '{routesTo,fleet,name}',
         branch #>> '{routesTo,zone,code}', branch #>> '{routesTo,zone,name}',
         (branch -> 'connectedZones')::jsonb, raw
       from listed, held order by branch_id
       on conflict (source_id, branch_id) do update set
         reference = excluded.reference, name = excluded.name, street = excluded.street, city = excluded.city,
         postcode = excluded.postcode, fleet_name = excluded.fleet_name, zone_code = excluded.zone_code,
         zone_name = excluded.zone_name, connected_zones = excluded.connected_zones, raw = excluded.raw,
         last_seen_at = clock_timestamp(), closed_at = null
     ), closed as (
       update mirror.branches set closed_at = clock_timestamp()
       from held
       where source_id = $4 and closed_at is null and branch_id not in (select branch_id from listed)
       returning 1
     )
     select exists (select from held) as held, (select count(*) from closed)::int as closed`,
    [...leaseValues(lease), sourceId, raws],
  );
  const [row] = rows;
  if (row?.held !== true) throw makeLeaseLostError(lease);
  return row.closed;
}
