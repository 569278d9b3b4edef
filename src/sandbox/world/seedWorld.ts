import { makeUuid } from "./chance.ts";
import { geocode } from "./places.ts";
import type { Branch, DirectoryContent, Organization, Zone } from "./directory.ts";
import type { Shift } from "./schedule.ts";

const ALL_DAY: readonly Shift[] = [{ fromMinute: 0, untilMinute: 1_440 }];
const EVENING: readonly Shift[] = [{ fromMinute: 17 * 60, untilMinute: 22 * 60 }];

const ORGANIZATIONS: readonly Organization[] = [
  organization("other", "Andere Keuken", "advanced"),
  organization("sandbox", "Bakkerij De Korenbloem", "advanced"),
  organization("standard", "Kleine Keuken", "standard"),
];

const FLEETS = [
  { fleetId: "amstel", name: "Amstel Fietskoeriers", owner: null },
  { fleetId: "domstad", name: "Domstad Bezorgt", owner: null },
  { fleetId: "maas", name: "Maas Express", owner: null },
  { fleetId: "korenbloem", name: "Korenbloem Eigen Bezorging", owner: "sandbox" },
];

const ZONES: readonly Zone[] = [
  zone("AMS-C", "Amsterdam Centrum", "amstel"),
  zone("AMS-W", "Amsterdam West", "amstel"),
  zone("HAG-1", "Den Haag", "maas"),
  zone("HLM-1", "Haarlem", "amstel"),
  zone("OWN-1", "Delft, own couriers", "korenbloem"),
  zone("RTM-1", "Rotterdam", "maas"),
  zone("RTM-EVE", "Rotterdam Avond", "maas", EVENING),
  zone("RTM-OFF", "Rotterdam Haven (no shifts)", "maas", []),
  zone("UTR-1", "Utrecht", "domstad"),
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

function zone(code: string, name: string, fleetId: string, shifts = ALL_DAY): Zone {
  const fleet = FLEETS.find((each) => each.fleetId === fleetId);
  if (fleet === undefined) throw new TypeError("a seeded zone must have a fleet");
  return { code, name, shifts, fleetName: fleet.name, fleetOwnerId: fleet.owner };
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
