import type { Pool } from "../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError, type Lease } from "../database/leases.sql.ts";

/** Some branches of the source and of another organization, in words. */
export interface BothOrganizations {
  readonly known: string;
  readonly listed: string;
}

/** The result of recording a list of branches. */
export type RecordedBranches =
  | {
      readonly kind: "recorded";
      /** The number of branches closed because the provider no longer lists them. */
      readonly closed: number;
    }
  /** The list is empty, as in an outage, although the source has branches; nothing was recorded. */
  | { readonly kind: "empty" }
  /** The list belongs to another organization; only that was recorded. */
  | ({ readonly kind: "refused" } & BothOrganizations);

/** Describes branches: the first two and the number of the others; from rows of `name` and `branch_id`. */
const DESCRIBED = `array_to_string((array_agg(format('%s (%s)', coalesce(name, 'without a name'), branch_id) order by branch_id))[:2], ', ')
  || case when count(*) > 2 then format(' and %s more', count(*) - 2) else '' end`;

const RECORD_BRANCHES = `with ${HELD}, listed as materialized (
   select distinct on (branch ->> 'id') branch ->> 'id' as branch_id, branch ->> 'name' as name, branch, raw::json as raw, place
   from unnest($5::text[]) with ordinality as given (raw, place)
   cross join lateral (select mirror.readable_json(raw::json) as branch) readable
   order by branch ->> 'id', place desc
 ), shown as materialized (
   select coalesce(array_agg(branch_id), '{}') as ids from listed
 ), ours as materialized (
   -- A list without branches does not show whose it is: of a source that has some it counts only after a day without any
   -- other. Before the first branch nobody knows whose the source is.
   select s.source_id, array(select unnest(s.branch_ids || shown.ids) as id group by id order by id) as branch_ids
   from mirror.sources s, shown, held
   where s.source_id = $4 and (s.branch_ids = '{}' or s.branch_ids && shown.ids
     or shown.ids = '{}' and s.refused_branches is null and s.branches_read_at < clock_timestamp() - interval '1 day')
 ), recorded as (
   insert into mirror.branches as known (source_id, branch_id, reference, name, street, city, postcode,
     fleet_name, zone_code, zone_name, connected_zones, position, raw)
   select source_id, branch_id, branch ->> 'reference', name, branch #>> '{address,street}',
     branch #>> '{address,city}', branch #>> '{address,postcode}', branch #>> '{routesTo,fleet,name}',
     branch #>> '{routesTo,zone,code}', branch #>> '{routesTo,zone,name}',
     case when jsonb_typeof(zones) = 'array' then zones else '[]' end, place, raw
   from listed, ours, lateral (select (branch -> 'connectedZones')::jsonb as zones) shown order by branch_id
   on conflict (source_id, branch_id) do update set
     reference = excluded.reference, name = excluded.name, street = excluded.street, city = excluded.city,
     postcode = excluded.postcode, fleet_name = excluded.fleet_name, zone_code = excluded.zone_code,
     zone_name = excluded.zone_name, connected_zones = excluded.connected_zones,
     position = excluded.position, raw = excluded.raw,
     last_seen_at = clock_timestamp(), closed_at = null
 ), closed as (
   update mirror.branches b set closed_at = clock_timestamp()
   from ours
   where b.source_id = ours.source_id and closed_at is null and branch_id not in (select branch_id from listed)
   returning 1
 ), identified as (
   update mirror.sources s set branch_ids = ours.branch_ids, refused_branches = null, branches_read_at = clock_timestamp() - $6 * interval '1 millisecond'
   from ours
   where s.source_id = ours.source_id
 ), refused as (
   update mirror.sources s set refused_branches = (select ${DESCRIBED} from listed)
   from held, shown
   where s.source_id = $4 and shown.ids <> '{}' and not exists (select from ours)
 )
 select exists (select from held) as held, exists (select from ours) as ours,
   (select count(*) from closed)::int as closed,
   (select ${DESCRIBED} from mirror.branches b join mirror.sources s using (source_id)
    where source_id = $4 and branch_id = any (s.branch_ids)) as known,
   (select ${DESCRIBED} from listed) as listed`;

/**
 * Records all branches that the provider lists, as their exact JSON texts and as they were `ageMs` ago, and closes
 * those that are no longer listed. Throws LeaseLostError.
 *
 * Branch ids are unique across organizations, so a list that has branches, but none that was ever listed for the
 * source, belongs to another organization. A list without branches does not show whose it is, and closes none of a
 * source that has some until it was the only answer for a day.
 */
export async function recordBranches(
  pool: Pool,
  lease: Lease,
  { sourceId, raws, ageMs }: { sourceId: string; raws: readonly string[]; ageMs: number },
): Promise<RecordedBranches> {
  const { rows } = await pool.query<{
    held: boolean;
    ours: boolean;
    closed: number;
    known: string;
    listed: string | null;
  }>(RECORD_BRANCHES, [...leaseValues(lease), sourceId, raws, ageMs]);
  const [row] = rows;
  if (row?.held !== true) throw makeLeaseLostError(lease);
  const { ours, closed, known, listed } = row;
  if (ours) return { kind: "recorded", closed };
  return listed === null ? { kind: "empty" } : { kind: "refused", known, listed };
}
