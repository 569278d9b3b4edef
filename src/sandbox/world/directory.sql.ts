import type { Connection } from "./database.ts";
import type { Coordinates } from "../places/geocode.ts";
import type { Shift } from "../fleet/schedule.ts";

/** The dashboard's content as stored in the database. */
export interface DirectoryRows {
  readonly organizations: readonly Organization[];
  readonly keys: readonly {
    readonly apiKey: string;
    readonly organizationId: string;
    readonly livemode: boolean;
  }[];
  readonly zones: readonly Zone[];
  readonly branches: readonly Branch[];
}

export const PLANS = ["none", "standard", "advanced"] as const;
export type Plan = (typeof PLANS)[number];
export const SUBSCRIPTIONS = ["active", "past_due", "unpaid", "canceled"] as const;
export type Subscription = (typeof SUBSCRIPTIONS)[number];

export interface Organization {
  readonly organizationId: string;
  readonly name: string;
  readonly plan: Plan;
  readonly subscription: Subscription;
}

export interface Zone {
  readonly code: string;
  readonly name: string;
  readonly shifts: readonly Shift[];
  readonly fleetName: string;
  /** The organization that delivers its own orders in this zone; null for an independent fleet. */
  readonly fleetOwnerId: string | null;
}

/** An inactive connection is no longer in `connectedZones`; its zone is not accepted as zoneCode. */
interface ZoneConnection {
  readonly zoneCode: string;
  readonly isPrimary: boolean;
}

export interface Branch {
  readonly branchId: string;
  readonly organizationId: string;
  readonly reference: string | null;
  readonly name: string;
  readonly address: { readonly street: string; readonly city: string; readonly postcode: string };
  /** Null: the main address has no coordinates, so the branch cannot take orders. */
  readonly coordinates: Coordinates | null;
  readonly closed: boolean;
  readonly connections: readonly ZoneConnection[];
}

export async function readDirectory(connection: Connection): Promise<DirectoryRows> {
  const organizations = await connection.query<Organization>(
    `select organization_id as "organizationId", name, plan, subscription
     from sandbox.organizations order by organization_id`,
  );
  const keys = await connection.query<DirectoryRows["keys"][number]>(
    `select api_key as "apiKey", organization_id as "organizationId", livemode from sandbox.api_keys`,
  );
  const zones = await connection.query<Zone>(
    `select z.zone_code as code, z.name, z.shifts, f.name as "fleetName",
       f.owner_organization_id as "fleetOwnerId"
     from sandbox.zones z join sandbox.fleets f using (fleet_id) order by z.zone_code`,
  );
  const branches = await connection.query<Branch>(
    `select b.branch_id as "branchId", b.organization_id as "organizationId", b.reference, b.name, b.closed,
       jsonb_build_object('street', b.street, 'city', b.city, 'postcode', b.postcode) as address,
       case when b.latitude is null then null
         else jsonb_build_object('latitude', b.latitude, 'longitude', b.longitude) end as coordinates,
       coalesce((
         select jsonb_agg(jsonb_build_object('zoneCode', c.zone_code, 'isPrimary', c.is_primary) order by c.position)
         from sandbox.connections c where c.branch_id = b.branch_id and c.active
       ), '[]') as connections
     from sandbox.branches b order by b.position`,
  );
  return {
    organizations: organizations.rows,
    keys: keys.rows,
    zones: zones.rows,
    branches: branches.rows,
  };
}
