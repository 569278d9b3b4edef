import { createHash } from "node:crypto";

export interface Address {
  readonly street: string;
  readonly city: string;
  readonly postcode: string;
}

/** A street of the sandbox, with one place for all its houses: the numbers 1 to `houses` exist. */
interface Street extends Address, Coordinates {
  readonly houses: number;
}

/** Kerkstraat in Amsterdam and Dorpsstraat in Utrecht are ambiguous without the right postcode. */
const STREETS: readonly (readonly [string, string, string, number, number, number])[] = [
  ["Keizersgracht", "Amsterdam", "1015 CJ", 52.3731, 4.8867, 800],
  ["Herengracht", "Amsterdam", "1016 BR", 52.3702, 4.8883, 600],
  ["Kerkstraat", "Amsterdam", "1017 GB", 52.3643, 4.8869, 400],
  ["Kerkstraat", "Amsterdam", "1097 JM", 52.3477, 4.9263, 120],
  ["Overtoom", "Amsterdam", "1054 HN", 52.3621, 4.8701, 580],
  ["Javastraat", "Amsterdam", "1094 HD", 52.3637, 4.9387, 240],
  ["Eerste Constantijn Huygensstraat", "Amsterdam", "1054 BP", 52.3644, 4.8742, 120],
  ["Oudegracht", "Utrecht", "3511 AP", 52.0908, 5.1199, 400],
  ["Voorstraat", "Utrecht", "3512 AN", 52.0946, 5.1203, 110],
  ["Biltstraat", "Utrecht", "3572 AW", 52.0954, 5.1336, 450],
  ["Dorpsstraat", "Utrecht", "3451 BH", 52.0893, 5.0463, 60],
  ["Dorpsstraat", "Utrecht", "3544 NC", 52.0821, 5.0352, 40],
  ["Witte de Withstraat", "Rotterdam", "3012 BL", 51.9152, 4.4779, 100],
  ["Coolsingel", "Rotterdam", "3011 AD", 51.9217, 4.4791, 250],
  ["Nieuwe Binnenweg", "Rotterdam", "3021 GK", 51.9135, 4.4619, 540],
  ["Grote Houtstraat", "Haarlem", "2011 SN", 52.3789, 4.6337, 190],
  ["Zijlstraat", "Haarlem", "2011 TK", 52.3822, 4.6318, 100],
  ["Markt", "Delft", "2611 GS", 52.0116, 4.3588, 90],
  ["Oude Delft", "Delft", "2611 CD", 52.0134, 4.3556, 230],
  ["Breestraat", "Leiden", "2311 CS", 52.1597, 4.4908, 170],
  ["Haarlemmerstraat", "Leiden", "2312 GA", 52.1625, 4.4926, 280],
  ["Noordeinde", "Den Haag", "2514 GA", 52.0813, 4.3075, 200],
  ["Frederik Hendriklaan", "Den Haag", "2582 BZ", 52.0912, 4.2823, 290],
];

export const GAZETTEER: readonly Street[] = STREETS.map(
  ([street, city, postcode, latitude, longitude, houses]) => {
    return { street, city, postcode, latitude, longitude, houses };
  },
);

export interface Coordinates {
  readonly latitude: number;
  readonly longitude: number;
}

export type AddressReason = "address_not_found" | "address_ambiguous" | "address_low_confidence";

/** The result of a search; `normalized` is the corrected address. */
export type Geocoded =
  | { readonly valid: true; readonly coordinates: Coordinates; readonly normalized: Address }
  | { readonly valid: false; readonly reason: AddressReason };

/**
 * Looks an address up in the gazetteer; shared by the address check, the quote and the order.
 *
 * Case, accents, white space and the abbreviation "str." do not matter. A street that exists twice in the city is
 * ambiguous unless the postcode decides. A missing, odd or nonexistent house number, or a street confirmed only by its
 * postcode, is low confidence. A wrong postcode of a unique street is corrected.
 */
export function geocode(address: Address): Geocoded {
  const { name, house } = splitStreet(address.street);
  const postcode = foldPostcode(address.postcode);
  const inCity = GAZETTEER.filter((street) => fold(street.city) === fold(address.city));
  const named = inCity.filter((street) => fold(street.street) === name);
  const street = named.length === 1 ? named[0] : named.find((one) => foldPostcode(one.postcode) === postcode);
  if (!street && named.length > 1) return { valid: false, reason: "address_ambiguous" };
  if (!street) {
    const vouched = inCity.some((one) => foldPostcode(one.postcode) === postcode);
    return { valid: false, reason: vouched ? "address_low_confidence" : "address_not_found" };
  }
  const number = Number.parseInt(house, 10);
  if (!(number >= 1 && number <= street.houses)) return { valid: false, reason: "address_low_confidence" };
  return {
    valid: true,
    coordinates: { latitude: street.latitude, longitude: street.longitude },
    normalized: {
      street: `${street.street} ${house.toUpperCase()}`,
      city: street.city,
      postcode: street.postcode,
    },
  };
}

/** The key under which a search is stored, for any text; differently written forms of an address share it. */
export function searchKey(address: Address): string {
  const { name, house } = splitStreet(address.street);
  const parts = [name, house.toLowerCase(), fold(address.city), foldPostcode(address.postcode)];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
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
