import { insertSearch } from "./world.sql.ts";
import { shownTime, refused } from "./state.ts";
import type { SandboxState } from "./state.ts";
import { isCovered, measureDistance } from "./schedule.ts";
import { refuseParameter } from "../../wire/refusal.ts";
import type { ADDRESS_REASONS, WireAddress, CreateOrderRequest } from "../../wire/api.ts";
import type { Branch, Zone } from "./directory.ts";

/** A street of the sandbox: house numbers 1 to `houses` exist, spread along it. */
export interface Street {
  readonly street: string;
  readonly city: string;
  readonly postcode: string;
  readonly latitude: number;
  readonly longitude: number;
  readonly houses: number;
}

/** Kerkstraat in Amsterdam and Dorpsstraat in Utrecht are ambiguous without the right postcode. */
export const GAZETTEER: readonly Street[] = [
  place("Keizersgracht", "Amsterdam", "1015 CJ", 52.3731, 4.8867, 800),
  place("Herengracht", "Amsterdam", "1016 BR", 52.3702, 4.8883, 600),
  place("Kerkstraat", "Amsterdam", "1017 GB", 52.3643, 4.8869, 400),
  place("Kerkstraat", "Amsterdam", "1097 JM", 52.3477, 4.9263, 120),
  place("Overtoom", "Amsterdam", "1054 HN", 52.3621, 4.8701, 580),
  place("Javastraat", "Amsterdam", "1094 HD", 52.3637, 4.9387, 240),
  place("Eerste Constantijn Huygensstraat", "Amsterdam", "1054 BP", 52.3644, 4.8742, 120),
  place("Oudegracht", "Utrecht", "3511 AP", 52.0908, 5.1199, 400),
  place("Voorstraat", "Utrecht", "3512 AN", 52.0946, 5.1203, 110),
  place("Biltstraat", "Utrecht", "3572 AW", 52.0954, 5.1336, 450),
  place("Dorpsstraat", "Utrecht", "3451 BH", 52.0893, 5.0463, 60),
  place("Dorpsstraat", "Utrecht", "3544 NC", 52.0821, 5.0352, 40),
  place("Witte de Withstraat", "Rotterdam", "3012 BL", 51.9152, 4.4779, 100),
  place("Coolsingel", "Rotterdam", "3011 AD", 51.9217, 4.4791, 250),
  place("Nieuwe Binnenweg", "Rotterdam", "3021 GK", 51.9135, 4.4619, 540),
  place("Grote Houtstraat", "Haarlem", "2011 SN", 52.3789, 4.6337, 190),
  place("Zijlstraat", "Haarlem", "2011 TK", 52.3822, 4.6318, 100),
  place("Markt", "Delft", "2611 GS", 52.0116, 4.3588, 90),
  place("Oude Delft", "Delft", "2611 CD", 52.0134, 4.3556, 230),
  place("Breestraat", "Leiden", "2311 CS", 52.1597, 4.4908, 170),
  place("Haarlemmerstraat", "Leiden", "2312 GA", 52.1625, 4.4926, 280),
  place("Noordeinde", "Den Haag", "2514 GA", 52.0813, 4.3075, 200),
  place("Frederik Hendriklaan", "Den Haag", "2582 BZ", 52.0912, 4.2823, 290),
];

function place(
  street: string,
  city: string,
  postcode: string,
  latitude: number,
  longitude: number,
  houses: number,
): Street {
  return { street, city, postcode, latitude, longitude, houses };
}

export interface Coordinates {
  readonly latitude: number;
  readonly longitude: number;
}

export type AddressReason = (typeof ADDRESS_REASONS)[number];

/** The result of a search; `normalized` is the corrected address. */
export type Geocoded =
  | { readonly valid: true; readonly coordinates: Coordinates; readonly normalized: WireAddress }
  | { readonly valid: false; readonly reason: AddressReason };

/** Degrees between the first and the last house of a street. */
const STREET_LENGTH_DEGREES = 0.006;
const COORDINATE_DIGITS = 6;

/**
 * Looks an address up in the gazetteer; shared by the address check, the quote and the order.
 *
 * Case, accents, white space and the abbreviation "str." do not matter. A street that exists twice in the city is
 * ambiguous unless the postcode decides. A missing, odd or nonexistent house number, or a street confirmed only by its
 * postcode, is low confidence. A wrong postcode of a unique street is corrected.
 */
export function geocode(address: WireAddress): Geocoded {
  const { name, house } = splitStreet(address.street);
  const postcode = foldPostcode(address.postcode);
  const inCity = GAZETTEER.filter((street) => fold(street.city) === fold(address.city));
  const named = inCity.filter((street) => fold(street.street) === name);
  const street = named.length === 1 ? named[0] : named.find((one) => foldPostcode(one.postcode) === postcode);
  if (!street) return { valid: false, reason: explainMiss({ inCity, named, postcode }) };
  const number = Number.parseInt(house, 10);
  if (!(number >= 1 && number <= street.houses)) return { valid: false, reason: "address_low_confidence" };
  return {
    valid: true,
    coordinates: locateHouse(street, number),
    normalized: {
      street: `${street.street} ${house.toUpperCase()}`,
      city: street.city,
      postcode: street.postcode,
    },
  };
}

/** The key under which a search is stored; differently written forms of an address share it. @internal */
export function searchKey(address: WireAddress): string {
  const { name, house } = splitStreet(address.street);
  return JSON.stringify([name, house.toLowerCase(), fold(address.city), foldPostcode(address.postcode)]);
}

function explainMiss(found: {
  inCity: readonly Street[];
  named: readonly Street[];
  postcode: string;
}): AddressReason {
  if (found.named.length > 1) return "address_ambiguous";
  const vouched = found.inCity.some((street) => foldPostcode(street.postcode) === found.postcode);
  return vouched ? "address_low_confidence" : "address_not_found";
}

function locateHouse(street: Street, number: number): Coordinates {
  const along = (number / street.houses - 0.5) * STREET_LENGTH_DEGREES;
  return { latitude: round(street.latitude + along / 2), longitude: round(street.longitude + along) };
}

/** "Kerkstr. 12-A" is the street "kerkstraat" and the house "12-A". */
function splitStreet(text: string): { name: string; house: string } {
  const parts = /^(.*?)\s*(\d+\s*-?\s*[\p{L}\d]{0,4})?$/su.exec(text.trim());
  const name = fold(parts?.[1] ?? "").replace(/str\.?$/, "straat");
  return { name, house: (parts?.[2] ?? "").replaceAll(/\s/g, "") };
}

function fold(text: string): string {
  return text
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[\s,]+/g, " ")
    .trim();
}

function foldPostcode(text: string): string {
  return text.replaceAll(/\s/g, "").toUpperCase();
}

function round(degrees: number): number {
  return Number(degrees.toFixed(COORDINATE_DIGITS));
}

/** Assumed: the spec shows no maximum length for any field. */
export const TEXT_LENGTH_MAX = 255;

/** Whether the database can hold the text, and its length is allowed. */
export function isStorable(text: string): boolean {
  return Array.from(text).length <= TEXT_LENGTH_MAX && !text.includes("\0") && text.isWellFormed();
}

/** The messages of the address check; creation and quote use the same texts. */
export const ADDRESS_MESSAGES: Readonly<Record<AddressReason, string>> = {
  address_not_found: "The address cannot be found.",
  address_ambiguous: "The address matches several places; the postcode would tell which.",
  address_low_confidence: "The address could only be found approximately; check street and house number.",
};

/** False for an address that no search can be stored for. Assumed: it is not found. */
function isSearchable({ street, city, postcode }: WireAddress): boolean {
  return [street, city, postcode].every(isStorable);
}

/**
 * Looks an address up for an organization. A search is charged and stored whatever its result: another spelling of the
 * same address is not charged again (spec, "POST /v1/orders"). Assumed: both modes share it.
 */
export async function searchAddress(
  state: SandboxState,
  organizationId: string,
  address: WireAddress,
): Promise<Geocoded> {
  if (!isSearchable(address)) return { valid: false, reason: "address_not_found" };
  const key = searchKey(address);
  await insertSearch(state.pool, { organizationId, key, searchedAt: state.clock.now() });
  return geocode(address);
}

/** The fields of an order that its trip decides. */
export type Trip = ReturnType<typeof planTrip>;

/** Checks and routes an order; stores only a search's result. Throws RefusedRequestError. */
export async function routeOrder(
  state: SandboxState,
  organizationId: string,
  order: Pick<CreateOrderRequest, "branch" | "zoneCode" | "schedule"> & {
    customer: { address: WireAddress & { coordinates?: Coordinates | undefined } };
  },
  { isQuote = false } = {},
): Promise<Trip> {
  // Assumed: asap is the only mode.
  if (order.schedule.mode !== "asap") throw refuseParameter("schedule.mode must be asap.");
  const branch = findOpenBranch(state, organizationId, order.branch);
  const zone = chooseZone(state, branch, order.zoneCode);
  const found = await locate(state, organizationId, order.customer.address);
  // Assumed: the code; the spec only lists coordinates among an organization's prerequisites.
  if (branch.coordinates === null)
    throw refused(422, "branch_not_located", "The branch's main address has no coordinates.");
  const trip = planTrip(state, { branch, zoneCode: zone.code, ...found, isQuote });
  // Assumed: a courier must work at both times.
  const isServed = [trip.pickupTime, trip.deliveryTime].every((at) =>
    isCovered(zone.shifts, at, state.utcOffsetMinutes),
  );
  // Assumed: 422; the spec does not show the status.
  if (!isServed) throw refused(422, "no_shift_coverage", "No courier shift covers the order.");
  return trip;
}

/** Distance and times of a trip; the same for a quote and the order that follows it. */
export function planTrip(
  state: SandboxState,
  given: {
    branch: Branch;
    zoneCode: string;
    address: WireAddress;
    coordinates: Coordinates;
    isQuote?: boolean;
  },
) {
  const { branch, zoneCode, address, coordinates, isQuote = false } = given;
  const { branchId } = branch;
  const { utcOffsetMinutes, dials } = state;
  const { seed, fleetSpeed } = dials;
  const distanceKm = measureDistance(branch.coordinates ?? coordinates, coordinates);
  const now = shownTime(state.clock.now(), state.faults.current());
  const trip = { seed, branchId, distanceKm, now, utcOffsetMinutes, fleetSpeed };
  const times = state.promises.resolve(trip, { quoted: isQuote });
  return { branchId, zoneCode, ...address, ...coordinates, distanceKm, ...times };
}

/** The address's corrected form and place. Throws address_*. */
async function locate(
  state: SandboxState,
  organizationId: string,
  given: WireAddress & { coordinates?: Coordinates | undefined },
): Promise<{ address: WireAddress; coordinates: Coordinates }> {
  const { coordinates, ...address } = given;
  // Assumed: `customer.address.coordinates`; the spec only says that the caller's coordinates cost no search.
  if (coordinates && isSearchable(address)) return { address, coordinates };
  const found = await searchAddress(state, organizationId, address);
  // Assumed: 422; the spec does not show the status of the address_* codes.
  if (!found.valid) throw refused(422, found.reason, ADDRESS_MESSAGES[found.reason]);
  return { address: found.normalized, coordinates: found.coordinates };
}

function findOpenBranch(state: SandboxState, organizationId: string, name: string): Branch {
  const branch = state.directory.findBranch(organizationId, name);
  // Assumed: both codes and the status; the spec only says that a closed branch is rejected.
  if (!branch) throw refused(422, "branch_not_found", "No branch has this reference or id.");
  if (branch.closed) throw refused(422, "branch_closed", "The branch is closed.");
  return branch;
}

function chooseZone(state: SandboxState, branch: Branch, zoneCode: string | null | undefined): Zone {
  const primary = branch.connections.find((connection) => connection.isPrimary);
  // Assumed: also with a zoneCode. The spec's prerequisites require a primary connection of the branch.
  if (!primary) {
    throw refused(422, "branch_not_connected", "The branch has no primary connection.");
  }
  const code = zoneCode ?? primary.zoneCode;
  if (!branch.connections.some((connection) => connection.zoneCode === code)) {
    // Assumed: the code and the status; the spec only lists the accepted values.
    throw refused(422, "zone_not_connected", "The branch is not connected to this zone.");
  }
  return state.directory.zoneByCode(code);
}
