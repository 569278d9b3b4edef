import type { Connection } from "./database.ts";
import { readDirectory } from "./directory.sql.ts";
import type { Branch, DirectoryRows, Organization, Zone } from "./directory.sql.ts";

/** The owner of a key at the moment of a request or an event. */
export interface Caller {
  readonly organization: Organization;
  readonly livemode: boolean;
}

/**
 * Organizations, keys, zones and branches, cached in memory: every request needs them, and only this process changes
 * them. Call `reload` after each change.
 */
export interface Directory {
  readonly reload: (connection: Connection) => Promise<void>;
  readonly findCaller: (apiKey: string) => Caller | undefined;
  readonly organizations: () => readonly Organization[];
  readonly findOrganization: (organizationId: string) => Organization | undefined;
  /** In list order, including closed ones. */
  readonly branchesOf: (organizationId: string) => readonly Branch[];
  /** A UUID is an id, anything else a case-sensitive reference (spec, "Branch object"). */
  readonly findBranch: (organizationId: string, branch: string) => Branch | undefined;
  readonly branchById: (branchId: string) => Branch;
  readonly zones: () => readonly Zone[];
  readonly zoneByCode: (code: string) => Zone;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export function makeDirectory(): Directory {
  let rows: DirectoryRows = { organizations: [], keys: [], zones: [], branches: [] };
  let branches = new Map<string, Branch>();
  let zones = new Map<string, Zone>();
  let keys = new Map<string, DirectoryRows["keys"][number]>();
  const findOrganization = (organizationId: string) =>
    rows.organizations.find((organization) => organization.organizationId === organizationId);
  const branchesOf = (organizationId: string) =>
    rows.branches.filter((branch) => branch.organizationId === organizationId);
  return {
    reload: async (connection) => {
      rows = await readDirectory(connection);
      branches = new Map(rows.branches.map((branch) => [branch.branchId, branch]));
      zones = new Map(rows.zones.map((zone) => [zone.code, zone]));
      keys = new Map(rows.keys.map((key) => [key.apiKey, key]));
    },
    findCaller: (apiKey) => {
      const key = keys.get(apiKey);
      const organization = key && findOrganization(key.organizationId);
      return key && organization && { organization, livemode: key.livemode };
    },
    organizations: () => rows.organizations,
    findOrganization,
    branchesOf,
    findBranch: (organizationId, branch) => {
      const id = branch.toLowerCase();
      return branchesOf(organizationId).find((each) =>
        isUuid(branch) ? each.branchId === id : each.reference === branch,
      );
    },
    branchById: (branchId) => mustFind(branches, branchId),
    zones: () => rows.zones,
    zoneByCode: (code) => mustFind(zones, code),
  };
}

/** For ids that an order holds: the database has a row for each. */
function mustFind<Found>(found: ReadonlyMap<string, Found>, id: string): Found {
  const value = found.get(id);
  if (value === undefined) throw new TypeError(`an order points at ${id}, which does not exist`);
  return value;
}
