import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { withoutRequestId, withRequestId } from "../../../src/api/respond.ts";

describe("adding request_id", () => {
  /** As of an order by itself. */
  const stamp = (order: string, requestId: string) =>
    withRequestId(withoutRequestId(order), requestId).join("");

  it("keeps the order's own text unchanged", () => {
    expect(withRequestId('{ "n": 1.10,\n"2":0 } \n', "req_1").join("")).toBe(
      '{ "n": 1.10,\n"2":0,"request_id":"req_1"}',
    );
    expect(withRequestId("{}", "req_1").join("")).toBe('{"request_id":"req_1"}');
    expect(withRequestId("{ }", "req_1").join("")).toBe('{"request_id":"req_1"}');
  });

  it("replaces an existing one, only at the top level", () => {
    expect(stamp('{"a":{"request_id":"x"},"request_id":"y"}', "z")).toBe(
      '{"a":{"request_id":"x"},"request_id":"z"}',
    );
  });

  it("changes nothing else of any JSON object", () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (order, requestId) => {
        const { request_id: _, ...rest } = order;
        expect(JSON.parse(stamp(JSON.stringify(order, null, 1), requestId))).toEqual(
          JSON.parse(JSON.stringify({ ...rest, request_id: requestId })),
        );
      }),
    );
  });
});
