import { describe, expect, it } from "vitest";
import { makeRefusalError, readRefusal, readRequestId } from "../../../src/provider/errors.ts";

const refuse = (
  status: number,
  code: string | null,
  more: { namesOrder?: boolean; retryAfterMs?: number } = {},
) =>
  makeRefusalError({
    endpoint: "POST /v1/orders",
    namesOrder: false,
    status,
    refusal: { code, message: "Jane, +31 6 1234", requestId: "req_7" },
    retryAfterMs: null,
    policy: null,
    ...more,
  });

describe("the typed error of a refusal", () => {
  it.each<[status: number, code: string | null, failure: string, retry: "never" | "later", fix?: RegExp]>([
    [401, "invalid_api_key", "key_refused", "never", /^check the key/],
    [401, null, "key_refused", "never", /^check the key/],
    [401, "order_not_found", "key_refused", "never", /^check the key/],
    [402, "subscription_inactive", "refused", "never", /^pay/],
    [404, "order_not_found", "not_found", "never"],
    // Any web server answers this for a wrong address; only the code means a missing order.
    [404, null, "refused", "never"],
    [422, "constructor", "refused", "never"],
    [418, null, "refused", "never"],
    [429, "rate_limit_exceeded", "rate_limited", "never"],
    [429, null, "rate_limited", "never"],
    [302, null, "refused", "never", /DELIVERY_BASE_URL/],
    [500, null, "unavailable", "later"],
    [503, "order_not_found", "unavailable", "later"],
  ])("for %i %s is %s, with its facts and nothing from the message", (status, code, failure, retry, fix) => {
    const error = refuse(status, code);
    expect(error).toMatchObject({ failure, status, code, requestId: "req_7", retry });
    expect(error.message).not.toMatch(/Jane|1234/);
    expect(error.message).toContain("POST /v1/orders");
    expect(error.fix ?? "").toMatch(fix ?? /^$/);
  });

  it.each([404, 410])("is a missing order for %i only if it says so: any gateway answers that", (status) => {
    const namesOrder = true;
    for (const code of [null, "not_found", "invalid_api_key"])
      expect(refuse(status, code, { namesOrder })).toMatchObject({ failure: "unavailable", retry: "later" });
    expect(refuse(status, "order_not_found", { namesOrder })).toMatchObject({ failure: "not_found" });
  });

  it.each([
    [429, "was refused: no code, for 7 s (HTTP 429, request req_7)"],
    [503, "failed (HTTP 503, request req_7)"],
  ])("of %i has the wait that it asks for", (status, words) => {
    const error = refuse(status, null, { retryAfterMs: 6_500 });
    expect(error.retry).toEqual({ afterMs: 6_500 });
    expect(error.message).toBe(`POST /v1/orders ${words}`);
  });
});

describe("reading the body of a refusal", () => {
  it.each([
    { error: { code: "order_not_found", message: "no" }, request_id: "req_1" },
    { code: "order_not_found", message: "no", request_id: "req_1" },
  ])("finds code, message and request id in %j", (body) => {
    expect(readRefusal(body)).toEqual({ code: "order_not_found", message: "no", requestId: "req_1" });
  });

  it.each([
    undefined,
    null,
    "order_not_found",
    [],
    {},
    { error: "order_not_found" },
    { error: { code: 404 } },
    // Text that could contain personal data is not a code.
    { error: { code: "Jane Doe, Dam 1" } },
    { error: { code: "x".repeat(65) } },
  ])("finds no code in %j", (body) => {
    expect(readRefusal(body).code).toBeNull();
  });

  it("accepts only a short plain word as a request id", () => {
    expect(readRequestId({ request_id: "req_01H-x.y:z" })).toBe("req_01H-x.y:z");
    for (const request_id of ["Jane Doe", "x".repeat(129), 7])
      expect(readRequestId({ request_id })).toBeNull();
  });
});
