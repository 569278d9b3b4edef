import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, JSON_DEPTH_MAX } from "../../../src/domain/order/canonicalJson.ts";
import { UnreadableSnapshotError } from "../../../src/domain/errors.ts";
import { readOrderResponse, readSnapshot } from "../../../src/wire/order.ts";
import { rawElements, rawMember, rawMembers, withoutMember } from "../../../src/wire/rawJson.ts";
import { at, makeOrder } from "../../support/mirror/orders.ts";

const json = fc.jsonValue({ maxDepth: 4 });
const spaced = fc
  .tuple(json, fc.constantFrom("", "\n", "\t", 2, 7))
  .map(([value, indent]) => JSON.stringify(value, null, indent));

describe("the raw scan", () => {
  it("splits an object into members that parse to the same values", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), fc.constantFrom("", " ", "\t", 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const rebuilt = rawMembers(text).map(({ key, raw }) => [key, JSON.parse(raw)] as const);
        expect(rebuilt).toEqual(Object.entries(JSON.parse(text) as object));
      }),
    );
  });

  it("splits an array into elements with unchanged texts", () => {
    fc.assert(
      fc.property(fc.array(spaced), (texts) => {
        expect(rawElements(` [${texts.join(" , ")}] `)).toEqual(texts);
      }),
    );
  });

  it("uses the last of a repeated key, as JSON.parse does", () => {
    const text = '{"a":1, "b":2, "a" : 3}';
    expect(rawMember(text, "a")).toBe("3");
    expect(JSON.parse(text)).toMatchObject({ a: 3 });
    expect(rawMember(text, "c")).toBeUndefined();
  });

  it("is not misled by brackets, quotes and backslashes inside strings", () => {
    const text = String.raw`{"a":"}]\"{\\", "data":[{"x":"]"},2]}`;
    expect(rawMember(text, "a")).toBe(String.raw`"}]\"{\\"`);
    expect(rawElements(rawMember(text, "data")!)).toEqual(['{"x":"]"}', "2"]);
  });

  it("keeps long numbers and drops one member on request", () => {
    const text = '{ "request_id" : "req_1", "big": 12345678901234567890, "x":1.50 }';
    expect(withoutMember(text, "request_id")).toBe('{"big":12345678901234567890,"x":1.50}');
  });

  it("throws when the text is not JSON", () => {
    expect(() => rawMembers('{"a":"')).toThrow(TypeError);
    expect(() => rawElements('[{"a":')).toThrow(TypeError);
  });
});

describe("canonicalJson", () => {
  it("is the same for any key sequence and white space, and parses to the same value", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), json), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(canonicalJson(reversed)).toBe(canonicalJson(value));
        // So different values have different texts.
        expect(JSON.parse(canonicalJson(value)!)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("fails at its depth limit, not at the end of the stack", () => {
    const nested = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;
    expect(canonicalJson(nested(JSON_DEPTH_MAX))).toBeDefined();
    expect(canonicalJson(nested(JSON_DEPTH_MAX + 2))).toBeUndefined();
    expect(canonicalJson(nested(100_000))).toBeUndefined();
  });
});

describe("readSnapshot", () => {
  const read = (order: object) => readSnapshot(JSON.stringify(order), order);

  it("reads the fields of the spec and ignores others", () => {
    const more = { branch: { id: "b1", reference: "N" }, extra: [1] };
    const { fields } = read(makeOrder({ reference: "R1", updatedAt: at(1), more }));
    expect(fields).toMatchObject({ reference: "R1", externalOrderId: "shop-R1", branchReference: "N" });
  });

  it("requires only reference and updatedAt, and reads null for a missing or wrongly typed field", () => {
    const wrong = { status: 7, fleet: "x", pickupTime: "soon", livemode: "yes" };
    const { fields } = read({ reference: "R1", updatedAt: at(1), ...wrong });
    const nulls = { fleetName: null, pickupTime: null, livemode: null, externalOrderId: null };
    expect(fields).toMatchObject({ status: "", ...nulls });
  });

  it.each([
    [{ updatedAt: at(1) }],
    [{ reference: "", updatedAt: at(1) }],
    [{ reference: 5, updatedAt: at(1) }],
    [{ reference: "a\0b", updatedAt: at(1) }],
    [{ reference: "\ud800", updatedAt: at(1) }],
    [{ reference: "x".repeat(1_025), updatedAt: at(1) }],
    [{ reference: "R1" }],
    [{ reference: "R1", updatedAt: null }],
    [{ reference: "R1", updatedAt: "2026-03-01" }],
    [null],
    [[]],
  ])("refuses %j", (order) => {
    expect(() => readSnapshot(JSON.stringify(order), order)).toThrow(UnreadableSnapshotError);
  });

  it("names the mistake without the value, which may be personal", () => {
    const order = { reference: ["+49 170 5550100"], updatedAt: at(1) };
    expect(() => read(order)).toThrow(/reference invalid_type/);
    expect(() => read(order)).not.toThrow(/5550100/);
  });

  it("computes the same hash for an order alone and in a list", () => {
    const order = makeOrder({ reference: "R1", updatedAt: at(1) });
    const single = readOrderResponse(JSON.stringify({ request_id: "req_1", ...order }));
    expect(single.hash).toBe(read(order).hash);
    expect(single.raw).not.toContain("req_1");
  });
});
