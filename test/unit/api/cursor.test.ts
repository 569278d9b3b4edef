import fc from "fast-check";
import { expect, it } from "vitest";
import { ORDER_SORTS } from "../../../src/orders/orderReads.sql.ts";
import { readCursor, writeCursor } from "../../../src/api/orderQuery.ts";

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const reference = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 40 })
  .filter((text) => !text.includes("\0"));

it("parses every position that it wrote, for the same sort only", () => {
  fc.assert(
    fc.property(fc.constantFrom(...ORDER_SORTS), int64, reference, (sort, at, name) => {
      const text = writeCursor(sort, { at, reference: name });
      expect(text).toMatch(/^[\w-]+$/);
      expect(readCursor(text, sort)).toEqual({ at, reference: name });
      expect(readCursor(text, sort === "updatedAt" ? "pickupTime" : "updatedAt")).toBeUndefined();
    }),
  );
});

it("accepts a position without a pickup time, but none without updatedAt", () => {
  const position = { at: null, reference: "A" };
  expect(readCursor(writeCursor("pickupTime", position), "pickupTime")).toEqual(position);
  expect(readCursor(writeCursor("updatedAt", position), "updatedAt")).toBeUndefined();
});

it("rejects anything else as a cursor", () => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const forged = [
    "",
    "%%%",
    "abc",
    encode(null),
    encode(["updatedAt", "1"]),
    encode(["updatedAt", 1, "A"]),
    encode(["updatedAt", String(2n ** 63n), "A"]),
    encode(["updatedAt", "1; drop table", "A"]),
    encode(["updatedAt", "1", "A\0"]),
    encode(["updatedAt", "1", "A".repeat(1_025)]),
    encode(["createdAt", "1", "A"]),
    encode(["updatedAt", "1", "A", "more"]),
  ];
  for (const text of forged) expect(readCursor(text, "updatedAt")).toBeUndefined();
});
