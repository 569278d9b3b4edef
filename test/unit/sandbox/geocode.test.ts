import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { geocode, searchKey } from "../../../src/sandbox/world/gazetteer.ts";

const at = (street: string, city = "Amsterdam", postcode = "1054 HN") => geocode({ street, city, postcode });

describe("an address", () => {
  it("is found however it is written, and is returned in its normalized form", () => {
    for (const [street, city, postcode] of [
      ["Overtoom 12", "Amsterdam", "1054 HN"],
      ["  overtoom   12", "AMSTERDAM", "1054hn"],
      ["OVERTOOM 12", "ámsterdam", "1054 H N"],
    ]) {
      expect(at(street!, city, postcode)).toMatchObject({
        valid: true,
        normalized: { street: "Overtoom 12", city: "Amsterdam", postcode: "1054 HN" },
      });
    }
    expect(at("Javastr. 3", "Amsterdam", "1094HD")).toMatchObject({ normalized: { street: "Javastraat 3" } });
    expect(at("Overtoom 12-a")).toMatchObject({ normalized: { street: "Overtoom 12-A" } });
  });

  it("of a unique street is found with a wrong postcode, which is corrected", () => {
    expect(at("Overtoom 12", "Amsterdam", "9999 ZZ")).toMatchObject({
      valid: true,
      normalized: { postcode: "1054 HN" },
    });
  });

  it("of a street that exists twice is ambiguous without the right postcode", () => {
    const reason = "address_ambiguous";
    expect(at("Kerkstraat 12", "Amsterdam", "")).toEqual({ valid: false, reason });
    expect(at("Kerkstraat 12", "Amsterdam", "1054 HN")).toEqual({ valid: false, reason });
    expect(at("Kerkstraat 12", "Amsterdam", "1017 GB")).toMatchObject({ valid: true });
    expect(at("Kerkstraat 12", "Amsterdam", "1097 JM")).toMatchObject({ valid: true });
  });

  it("is only approximate without a house number, with one beyond the last, or by its postcode alone", () => {
    const reason = "address_low_confidence";
    expect(at("Overtoom")).toEqual({ valid: false, reason });
    expect(at("Overtoom 0")).toEqual({ valid: false, reason });
    expect(at("Overtoom 580")).toMatchObject({ valid: true });
    expect(at("Overtoom 581")).toEqual({ valid: false, reason });
    expect(at("Overtom 12")).toEqual({ valid: false, reason });
  });

  it("is not found when neither street nor postcode is known", () => {
    const reason = "address_not_found";
    expect(at("Overtoom 12", "Utrecht")).toEqual({ valid: false, reason });
    expect(at("Nowhere 1", "Amsterdam", "0000 XX")).toEqual({ valid: false, reason });
    expect(at("", "", "")).toEqual({ valid: false, reason });
  });
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
  expect(searchKey({ street: "OVERTOOM  1", city: "amsterdam", postcode: "1054hn" })).toBe(
    searchKey({ street: "Overtoom 1", city: "Amsterdam", postcode: "1054 HN" }),
  );
});
