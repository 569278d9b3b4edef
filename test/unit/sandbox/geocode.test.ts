import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, it } from "vitest";
import { geocode, searchKey } from "../../../src/sandbox/world/gazetteer.ts";

const OVERTOOM = { street: "Overtoom 12", city: "Amsterdam", postcode: "1054 HN" };

it.each([
  ["  overtoom   12", "AMSTERDAM", "1054hn", OVERTOOM],
  ["OVERTOOM 12", "ámsterdam", "1054 H N", OVERTOOM],
  ["Javastr. 3", "Amsterdam", "1094HD", { street: "Javastraat 3" }],
  ["Overtoom 12-a", "Amsterdam", "1054 HN", { street: "Overtoom 12-A" }],
  ["Overtoom 580", "Amsterdam", "1054 HN", { street: "Overtoom 580" }],
  // Of a unique street the postcode is corrected; of one that exists twice it decides.
  ["Overtoom 12", "Amsterdam", "9999 ZZ", OVERTOOM],
  ["Kerkstraat 12", "Amsterdam", "1017 GB", { postcode: "1017 GB" }],
  ["Kerkstraat 12", "Amsterdam", "1097 JM", { postcode: "1097 JM" }],
  ["Kerkstraat 12", "Amsterdam", "", "address_ambiguous"],
  ["Kerkstraat 12", "Amsterdam", "1054 HN", "address_ambiguous"],
  ["Overtoom", "Amsterdam", "1054 HN", "address_low_confidence"],
  ["Overtoom 0", "Amsterdam", "1054 HN", "address_low_confidence"],
  ["Overtoom 581", "Amsterdam", "1054 HN", "address_low_confidence"],
  ["Overtom 12", "Amsterdam", "1054 HN", "address_low_confidence"],
  ["Overtoom 12", "Utrecht", "1054 HN", "address_not_found"],
  ["Nowhere 1", "Amsterdam", "0000 XX", "address_not_found"],
  ["", "", "", "address_not_found"],
])("the address %j, %j, %j is %j", (street, city, postcode, found) => {
  const expected =
    typeof found === "string" ? { valid: false, reason: found } : { valid: true, normalized: found };
  expect(geocode({ street, city, postcode })).toMatchObject(expected);
});

it("never throws, and shares a search only between addresses with one result", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.constantFrom("Overtoom 1", "overtoom 1", "Overtoom 1A", "Amsterdam", "1054 HN", "Kerkstraat 7"),
  );
  const address = fc.record({ street: text, city: text, postcode: text });
  fc.assert(
    fc.property(address, address, (left, right) => {
      const results = [geocode(left), geocode(right)];
      expect(searchKey(left) !== searchKey(right) || isDeepStrictEqual(results[0], results[1])).toBe(true);
    }),
  );
  expect(searchKey({ street: "OVERTOOM  12", city: "amsterdam", postcode: "1054hn" })).toBe(
    searchKey(OVERTOOM),
  );
});
