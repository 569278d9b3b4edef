import { describe, expect, it } from "vitest";
import { ProviderUnavailableError, RateLimitedError } from "../../../src/provider/errors.ts";
import { makeRefusalError, NO_REFUSAL, readRefusal, readRequestId } from "../../../src/provider/refusal.ts";

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
    [401, "invalid_api_key", "InvalidApiKeyError"],
    [402, "subscription_inactive", "SubscriptionInactiveError"],
    [403, "feature_not_available", "FeatureNotAvailableError"],
    [404, "order_not_found", "OrderNotFoundError"],
    [409, "duplicate_external_order_id", "DuplicateExternalOrderIdError"],
    [422, "branch_not_connected", "BranchNotConnectedError"],
    [422, "order_not_cancellable", "OrderNotCancellableError"],
    [422, "address_not_found", "AddressRefusedError"],
    [400, "address_ambiguous", "AddressRefusedError"],
    [422, "address_low_confidence", "AddressRefusedError"],
    [422, "no_shift_coverage", "NoShiftCoverageError"],
    [422, "invalid_parameters", "ProviderRefusedError"],
    [422, "constructor", "ProviderRefusedError"],
    [418, null, "ProviderRefusedError"],
    // Any web server answers this for a wrong address; only the code means a missing order.
    [404, null, "ProviderRefusedError"],
    [401, null, "InvalidApiKeyError"],
    [401, "order_not_found", "InvalidApiKeyError"],
    [429, "rate_limit_exceeded", "RateLimitedError"],
    [429, null, "RateLimitedError"],
    [302, null, "ProviderRedirectError"],
    [500, null, "ProviderUnavailableError"],
    [503, "order_not_found", "ProviderUnavailableError"],
  ])("for %i %s is %s, with its facts and nothing from the message", (status, code, name) => {
    const error = refuse(status, code);
    expect(error).toMatchObject({ name, status, code, requestId: "req_7" });
    expect(error.message).not.toMatch(/Jane|1234/);
    expect(error.message).toContain("POST /v1/orders");
  });

  it.each([404, 410])("is a missing order for %i of one order, whatever the body", (status) => {
    for (const code of [null, "not_found", "order_not_found", "invalid_api_key"]) {
      expect(refuse(status, code, true)).toMatchObject({ name: "OrderNotFoundError", status, code });
    }
    expect(refuse(status, null)).toMatchObject({ name: "ProviderRefusedError" });
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
      reason: "server",
    });
    const limited = makeRefusalError({ ...answer, status: 429, policy: "order-list" });
    expect(limited).toMatchObject({ retry: { afterMs: 7_000 }, retryAfterMs: 7_000, policy: "order-list" });
    expect(limited).toBeInstanceOf(RateLimitedError);
    expect(refuse(500, null)).toBeInstanceOf(ProviderUnavailableError);
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
