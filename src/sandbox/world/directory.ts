import { refused } from "../api/refusal.ts";
import type { Mode } from "../../domain/source/orderSource.ts";
import { makeUuid } from "./chance.ts";
import { geocode, type Address, type Coordinates } from "./gazetteer.ts";
import { saveContent, type Connection } from "./world.sql.ts";

/** Everything that the provider's dashboard sets; stored as one document. */
export interface DirectoryContent {
  readonly organizations: readonly Organization[];
  readonly keys: readonly Key[];
  readonly zones: readonly Zone[];
  /** Branches of all organizations, in list order. */
  readonly branches: readonly Branch[];
}

interface Key {
  readonly apiKey: string;
  readonly organizationId: string;
  readonly livemode: boolean;
}

export const modeOf = (livemode: boolean): Mode => (livemode ? "live" : "test");

export const PLANS = ["none", "standard", "advanced"] as const;
export const SUBSCRIPTIONS = ["active", "past_due", "unpaid", "canceled"] as const;

export interface Organization {
  readonly organizationId: string;
  readonly name: string;
  readonly plan: (typeof PLANS)[number];
  readonly subscription: (typeof SUBSCRIPTIONS)[number];
}

/** A period of the local day in which a zone's couriers work, as minutes since midnight; `until` exclusive. */
export interface Shift {
  readonly fromMinute: number;
  readonly untilMinute: number;
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
  readonly address: Address;
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

export type Directory = ReturnType<typeof makeDirectory>;

/**
 * Organizations, keys, zones and branches, `stored` in the database and kept in memory: every request needs them, and
 * only this process changes them.
 */
export function makeDirectory(stored: DirectoryContent) {
  let content = stored;
  const findOrganization = (organizationId: string) =>
    content.organizations.find((organization) => organization.organizationId === organizationId);
  const branchesOf = (organizationId: string) =>
    content.branches.filter((branch) => branch.organizationId === organizationId);
  return {
    change: async (
      connection: Connection,
      change: (content: DirectoryContent) => Partial<DirectoryContent>,
    ) => {
      content = { ...content, ...change(content) };
      await saveContent(connection, content);
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
    /** Returns an organization's branches in list order, including closed ones. */
    branchesOf,
    /** A UUID is an id, anything else a case-sensitive reference (spec, "Branch object"). */
    findBranch: (organizationId: string, branch: string) => {
      const id = branch.toLowerCase();
      return branchesOf(organizationId).find((each) =>
        UUID.test(branch) ? each.branchId === id : each.reference === branch,
      );
    },
    branchById: (branchId: string) => mustFind(content.branches.find((each) => each.branchId === branchId)),
    zones: () => content.zones,
    zoneByCode: (code: string) => mustFind(content.zones.find((each) => each.code === code)),
  };
}

/** Asserts that an id which an order holds was found. */
function mustFind<Found>(found: Found | undefined): Found {
  if (found === undefined) throw new TypeError("an order points at something that does not exist");
  return found;
}

const ALL_DAY: readonly Shift[] = [{ fromMinute: 0, untilMinute: 1_440 }];
const EVENING: readonly Shift[] = [{ fromMinute: 17 * 60, untilMinute: 22 * 60 }];

const ORGANIZATIONS: readonly Organization[] = [
  organization("other", "Andere Keuken", "advanced"),
  organization("sandbox", "Bakkerij De Korenbloem", "advanced"),
  organization("standard", "Kleine Keuken", "standard"),
];

const AMSTEL = { fleetName: "Amstel Fietskoeriers", fleetOwnerId: null };
const DOMSTAD = { fleetName: "Domstad Bezorgt", fleetOwnerId: null };
const MAAS = { fleetName: "Maas Express", fleetOwnerId: null };
const OWN_COURIERS = { fleetName: "Korenbloem Eigen Bezorging", fleetOwnerId: "sandbox" };

const ZONES: readonly Zone[] = [
  zone("AMS-C", "Amsterdam Centrum", AMSTEL),
  zone("AMS-W", "Amsterdam West", AMSTEL),
  zone("HAG-1", "Den Haag", MAAS),
  zone("HLM-1", "Haarlem", AMSTEL),
  zone("OWN-1", "Delft, own couriers", OWN_COURIERS),
  zone("RTM-1", "Rotterdam", MAAS),
  zone("RTM-EVE", "Rotterdam Avond", MAAS, EVENING),
  zone("RTM-OFF", "Rotterdam Haven (no shifts)", MAAS, []),
  zone("UTR-1", "Utrecht", DOMSTAD),
];

const BRANCHES = [
  branch("sandbox", "centrum", "Centrum", ["Keizersgracht 120", "Amsterdam", "1015 CJ"], ["AMS-C", "AMS-W"]),
  branch("sandbox", "utrecht", "Utrecht Oudegracht", ["Oudegracht 55", "Utrecht", "3511 AP"], ["UTR-1"]),
  branch(
    "sandbox",
    "rotterdam",
    "Rotterdam",
    ["Coolsingel 40", "Rotterdam", "3011 AD"],
    ["RTM-1", "RTM-EVE", "RTM-OFF"],
  ),
  branch("sandbox", null, "Haarlem", ["Zijlstraat 21", "Haarlem", "2011 TK"], ["HLM-1"]),
  branch("sandbox", "eigen-bezorging", "Delft", ["Markt 12", "Delft", "2611 GS"], ["OWN-1"]),
  {
    ...branch("sandbox", "den-haag", "Den Haag", ["Noordeinde 33", "Den Haag", "2514 GA"], []),
    connections: [{ zoneCode: "HAG-1", isPrimary: false }],
  },
  {
    ...branch("sandbox", "leiden", "Leiden (closed)", ["Breestraat 70", "Leiden", "2311 CS"], ["HAG-1"]),
    closed: true,
  },
  branch("other", "centrum", "Keuken Centrum", ["Herengracht 200", "Amsterdam", "1016 BR"], ["AMS-C"]),
  branch("other", "noord", "Keuken Haarlem", ["Grote Houtstraat 5", "Haarlem", "2011 SN"], ["HLM-1"]),
  branch("standard", "winkel", "Winkel", ["Voorstraat 14", "Utrecht", "3512 AN"], ["UTR-1"]),
  branch("standard", "markt", "Markt", ["Biltstraat 101", "Utrecht", "3572 AW"], ["UTR-1"]),
];

/** The content of a new world, set up as in the spec's dashboard. The ids of branches depend on the seed. */
export function seedDirectory(seed: number): DirectoryContent {
  const keys = ["sandbox", "sandbox_second", "other", "standard"].flatMap((suffix) => {
    const organizationId = suffix.replace(/_.*/, "");
    return [
      { apiKey: `dos_live_${suffix}`, organizationId, livemode: true },
      { apiKey: `dos_test_${suffix}`, organizationId, livemode: false },
    ];
  });
  const branches = BRANCHES.map((each) => ({
    ...each,
    branchId: makeUuid(seed, "branch", each.organizationId, each.name),
  }));
  return { organizations: ORGANIZATIONS, keys, zones: ZONES, branches };
}

function organization(organizationId: string, name: string, plan: "standard" | "advanced"): Organization {
  return { organizationId, name, plan, subscription: "active" };
}

function zone(
  code: string,
  name: string,
  fleet: Pick<Zone, "fleetName" | "fleetOwnerId">,
  shifts = ALL_DAY,
): Zone {
  return { code, name, shifts, ...fleet };
}

/** The first zone is the primary connection. */
function branch(
  organizationId: string,
  reference: string | null,
  name: string,
  [street = "", city = "", postcode = ""]: readonly string[],
  zones: readonly string[],
): Omit<Branch, "branchId"> {
  const address = { street, city, postcode };
  const found = geocode(address);
  if (!found.valid) throw new TypeError("a seeded branch must have an address that can be geocoded");
  return {
    organizationId,
    reference,
    name,
    address,
    coordinates: found.coordinates,
    closed: false,
    connections: zones.map((zoneCode, place) => ({ zoneCode, isPrimary: place === 0 })),
  };
}
