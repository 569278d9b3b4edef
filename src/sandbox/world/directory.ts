import type { Mode } from "../../domain/source/orderSource.ts";
import type { Coordinates } from "./places.ts";
import type { Shift } from "./schedule.ts";
import type { Connection } from "./world.sql.ts";
import { readContent } from "./world.sql.ts";
import { refused } from "./state.ts";

/** What the provider's dashboard sets; stored as one document. */
export interface DirectoryContent {
  readonly organizations: readonly Organization[];
  readonly keys: readonly Key[];
  readonly zones: readonly Zone[];
  /** In list order, those of all organizations. */
  readonly branches: readonly Branch[];
}

interface Key {
  readonly apiKey: string;
  readonly organizationId: string;
  readonly livemode: boolean;
}

export const modeOf = (livemode: boolean): Mode => (livemode ? "live" : "test");

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

export interface Branch {
  readonly branchId: string;
  readonly organizationId: string;
  readonly reference: string | null;
  readonly name: string;
  readonly address: { readonly street: string; readonly city: string; readonly postcode: string };
  /** Null: the main address has no coordinates, so the branch cannot take orders. */
  readonly coordinates: Coordinates | null;
  readonly closed: boolean;
  readonly connections: readonly { readonly zoneCode: string; readonly isPrimary: boolean }[];
}

/** The owner of a key at the moment of a request or an event. */
export interface Caller {
  readonly organization: Organization;
  readonly livemode: boolean;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** @internal */
export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export type Directory = ReturnType<typeof makeDirectory>;

/**
 * Organizations, keys, zones and branches, cached in memory: every request needs them, and only this process changes
 * them. Call `reload` after each change.
 */
export function makeDirectory() {
  let content: DirectoryContent = { organizations: [], keys: [], zones: [], branches: [] };
  const findOrganization = (organizationId: string) =>
    content.organizations.find((organization) => organization.organizationId === organizationId);
  const branchesOf = (organizationId: string) =>
    content.branches.filter((branch) => branch.organizationId === organizationId);
  return {
    reload: async (connection: Connection) => {
      content = await readContent(connection);
    },
    findCaller: (apiKey: string): Caller | undefined => {
      const key = content.keys.find((each) => each.apiKey === apiKey);
      const organization = key && findOrganization(key.organizationId);
      return key && organization && { organization, livemode: key.livemode };
    },
    organizations: () => content.organizations,
    findOrganization,
    /** Throws not_found. */
    getOrganization: (organizationId: string) => {
      const organization = findOrganization(organizationId);
      if (!organization) throw refused(404, "not_found", "There is no such organization.");
      return organization;
    },
    /** In list order, including closed ones. */
    branchesOf,
    /** A UUID is an id, anything else a case-sensitive reference (spec, "Branch object"). */
    findBranch: (organizationId: string, branch: string) => {
      const id = branch.toLowerCase();
      return branchesOf(organizationId).find((each) =>
        isUuid(branch) ? each.branchId === id : each.reference === branch,
      );
    },
    branchById: (branchId: string) => mustFind(content.branches.find((each) => each.branchId === branchId)),
    zones: () => content.zones,
    zoneByCode: (code: string) => mustFind(content.zones.find((each) => each.code === code)),
  };
}

/** For ids that an order holds. */
function mustFind<Found>(found: Found | undefined): Found {
  if (found === undefined) throw new TypeError("an order points at something that does not exist");
  return found;
}
