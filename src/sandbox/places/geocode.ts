import type { ADDRESS_REASONS, WireAddress } from "../../wire/api.ts";
import { GAZETTEER } from "./gazetteer.ts";
import type { Street } from "./gazetteer.ts";

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

/** The key under which a search is stored; differently written forms of an address share it. */
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
