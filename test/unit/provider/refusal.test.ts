import { describe, expect, it } from "vitest";
import { makeRefusalError, NO_REFUSAL, readRefusal, readRequestId } from "../../../src/provider/errors.ts";

const refuse = (status: number, code: string | null, namesOrder = false) =>
  makeRefusalError({
    endpoint: "POST /v1/orders",
    namesOrder,
    status,
    refusal: { code, message: "Jane, +31 6 1234", requestId: "req_7" },
    retryAfterMs: null,
    policy: null,
  });

describe("the typed error of a refusal", () => {
  it.each([
    [401, "invalid_api_key", "key_refused"],
    [402, "subscription_inactive", "refused"],
    [404, "order_not_found", "not_found"],
    [422, "constructor", "refused"],
    [418, null, "refused"],
    // Any web server answers this for a wrong address; only the code means a missing order.
    [404, null, "refused"],
    [401, null, "key_refused"],
    [401, "order_not_found", "key_refused"],
    [429, "rate_limit_exceeded", "rate_limited"],
    [429, null, "rate_limited"],
    [302, null, "refused"],
    [500, null, "unavailable"],
    [503, "order_not_found", "unavailable"],
  ])("for %i %s is %s, with its facts and nothing from the message", (status, code, failure) => {
    const error = refuse(status, code);
    expect(error).toMatchObject({ failure, status, code, requestId: "req_7" });
    expect(error.message).not.toMatch(/Jane|1234/);
    expect(error.message).toContain("POST /v1/orders");
  });

  it.each([404, 410])("is a missing order for %i only if it says so: any gateway answers that", (status) => {
    for (const code of [null, "not_found", "invalid_api_key"]) {
      expect(refuse(status, code, true)).toMatchObject({
        failure: "unavailable",
        retry: "later",
        status,
        code,
      });
    }
    expect(refuse(status, "order_not_found", true)).toMatchObject({ failure: "not_found", retry: "never" });
    expect(refuse(status, null)).toMatchObject({ failure: "refused" });
  });

  it("states whether to retry never, later, or after the given wait", () => {
    expect(refuse(422, "no_shift_coverage").retry).toBe("never");
    expect(refuse(302, null).retry).toBe("never");
    expect(refuse(500, null).retry).toBe("later");
    const answer = {
      endpoint: "GET /v1/orders",
      namesOrder: false,
      refusal: NO_REFUSAL,
      retryAfterMs: 7_000,
    };
    expect(makeRefusalError({ ...answer, status: 503, policy: null })).toMatchObject({
      retry: { afterMs: 7_000 },
      failure: "unavailable",
    });
    const limited = makeRefusalError({ ...answer, status: 429, policy: "order-list" });
    expect(limited).toMatchObject({ retry: { afterMs: 7_000 }, policy: "order-list" });
    expect(limited.message).toBe('GET /v1/orders was refused: no code, by "order-list", for 7 s (HTTP 429)');
  });
});

describe("reading the body of a refusal", () => {
  it("finds code, message and request id", () => {
    const body = { error: { code: "order_not_found", message: "no" }, request_id: "req_1" };
    expect(readRefusal(body)).toEqual({ code: "order_not_found", message: "no", requestId: "req_1" });
  });

  it("finds a code and message at the top level, too", () => {
    expect(readRefusal({ code: "order_not_found", message: "no" })).toEqual({
      code: "order_not_found",
      message: "no",
      requestId: null,
    });
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
    expect(readRequestId({ request_id: "Jane Doe" })).toBeNull();
    expect(readRequestId({ request_id: "x".repeat(129) })).toBeNull();
    expect(readRequestId({ request_id: 7 })).toBeNull();
  });
});
