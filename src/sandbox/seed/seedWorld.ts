import { makeUuid } from "../world/chance.ts";
import { geocode } from "../places/geocode.ts";
import type { Shift } from "../fleet/schedule.ts";

/** The content of a new world. Organizations and branches are set up as in the spec's dashboard. */
export interface SeedOrganization {
  readonly organizationId: string;
  readonly name: string;
  readonly plan: "standard" | "advanced";
  readonly keys: readonly { readonly apiKey: string; readonly livemode: boolean }[];
}

export interface SeedFleet {
  readonly fleetId: string;
  readonly name: string;
  /** The organization that delivers its own orders; null for an independent fleet. */
  readonly owner: string | null;
}

export interface SeedZone {
  readonly code: string;
  readonly name: string;
  readonly fleetId: string;
  readonly shifts: readonly Shift[];
}

export interface SeedBranch {
  readonly branchId: string;
  readonly organizationId: string;
  readonly reference: string | null;
  readonly name: string;
  readonly address: { readonly street: string; readonly city: string; readonly postcode: string };
  readonly coordinates: { readonly latitude: number; readonly longitude: number } | null;
  readonly closed: boolean;
  readonly primary: string | null;
  readonly zones: readonly string[];
}

export const ALL_DAY: readonly Shift[] = [{ fromMinute: 0, untilMinute: 1_440 }];
const EVENING: readonly Shift[] = [{ fromMinute: 17 * 60, untilMinute: 22 * 60 }];

export const SEED_ORGANIZATIONS: readonly SeedOrganization[] = [
  organization("sandbox", "Bakkerij De Korenbloem", "advanced", ["sandbox", "sandbox_second"]),
  organization("other", "Andere Keuken", "advanced", ["other"]),
  organization("standard", "Kleine Keuken", "standard", ["standard"]),
];

export const SEED_FLEETS: readonly SeedFleet[] = [
  { fleetId: "amstel", name: "Amstel Fietskoeriers", owner: null },
  { fleetId: "domstad", name: "Domstad Bezorgt", owner: null },
  { fleetId: "maas", name: "Maas Express", owner: null },
  { fleetId: "korenbloem", name: "Korenbloem Eigen Bezorging", owner: "sandbox" },
];

export const SEED_ZONES: readonly SeedZone[] = [
  { code: "AMS-C", name: "Amsterdam Centrum", fleetId: "amstel", shifts: ALL_DAY },
  { code: "AMS-W", name: "Amsterdam West", fleetId: "amstel", shifts: ALL_DAY },
  { code: "UTR-1", name: "Utrecht", fleetId: "domstad", shifts: ALL_DAY },
  { code: "RTM-1", name: "Rotterdam", fleetId: "maas", shifts: ALL_DAY },
  { code: "RTM-EVE", name: "Rotterdam Avond", fleetId: "maas", shifts: EVENING },
  { code: "RTM-OFF", name: "Rotterdam Haven (no shifts)", fleetId: "maas", shifts: [] },
  { code: "HLM-1", name: "Haarlem", fleetId: "amstel", shifts: ALL_DAY },
  { code: "OWN-1", name: "Delft, own couriers", fleetId: "korenbloem", shifts: ALL_DAY },
  { code: "HAG-1", name: "Den Haag", fleetId: "maas", shifts: ALL_DAY },
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
    ...branch("sandbox", "den-haag", "Den Haag", ["Noordeinde 33", "Den Haag", "2514 GA"], ["HAG-1"]),
    primary: null,
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

/** The branches in list order; their ids depend on the seed. */
export function seedBranches(seed: number): SeedBranch[] {
  return BRANCHES.map((each) => {
    const found = geocode(each.address);
    if (!found.valid) throw new TypeError("a seeded branch must have an address that can be geocoded");
    const branchId = makeUuid(seed, "branch", each.organizationId, each.name);
    return { ...each, branchId, coordinates: found.coordinates };
  });
}

function organization(
  organizationId: string,
  name: string,
  plan: SeedOrganization["plan"],
  suffixes: readonly string[],
): SeedOrganization {
  const keys = suffixes.flatMap((suffix) => [
    { apiKey: `dos_live_${suffix}`, livemode: true },
    { apiKey: `dos_test_${suffix}`, livemode: false },
  ]);
  return { organizationId, name, plan, keys };
}

function branch(
  organizationId: string,
  reference: string | null,
  name: string,
  [street = "", city = "", postcode = ""]: readonly string[],
  zones: readonly string[],
): Omit<SeedBranch, "branchId" | "coordinates"> {
  const primary = zones[0] ?? null;
  return {
    organizationId,
    reference,
    name,
    address: { street, city, postcode },
    closed: false,
    primary,
    zones,
  };
}
