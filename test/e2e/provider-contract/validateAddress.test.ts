import { afterAll, describe, expect, it } from "vitest";
import {
  clockNow,
  countOrders,
  isRefused,
  openTarget,
  orderTo,
} from "../../support/contract/contractTarget.ts";

/** The spec, "POST /v1/addresses/validate : check an address". */
const target = await openTarget();
const { live, test, world } = target;
afterAll(() => target.close());

describe("POST /v1/addresses/validate", () => {
  const check = (address: unknown) => test.ask("POST", "/v1/addresses/validate", address);

  it.each(["valid", "untidy"] as const)(
    "answers 200 with coordinates and the corrected form of an address that is %s, as creation does",
    async (kind) => {
      const { status, body } = await check(world.addresses[kind]);
      expect([status, body]).toEqual([
        200,
        expect.objectContaining({
          valid: true,
          coordinates: { latitude: expect.any(Number), longitude: expect.any(Number) },
          normalized: world.addresses.valid,
          request_id: expect.any(String),
        }),
      ]);
      expect(body).not.toHaveProperty("reason");
      expect((await test.client.createOrder(orderTo(world.addresses[kind]))).status).toBe("created");
    },
  );

  it.each([
    ["notFound", "address_not_found"],
    ["ambiguous", "address_ambiguous"],
    ["lowConfidence", "address_low_confidence"],
  ] as const)("answers 200 with reason and message when it is %s: %s, as creation", async (kind, reason) => {
    const { status, body } = await check(world.addresses[kind]);
    expect([status, body]).toMatchObject([200, { valid: false, reason, message: expect.any(String) }]);
    for (const member of ["error", "coordinates"]) expect(body).not.toHaveProperty(member);
    const created = await test.ask("POST", "/v1/orders", orderTo(world.addresses[kind]));
    expect(created.code).toBe(reason);
  });

  it("answers test and live keys in the same way", async () => {
    const { request_id: _, ...inTest } = await test.client.validateAddress(world.addresses.valid);
    const { request_id: __, ...inLive } = await live.client.validateAddress(world.addresses.valid);
    expect(inTest).toEqual(inLive);
  });

  it("creates no order", async () => {
    const since = clockNow();
    const before = await countOrders(test, since);
    await check(world.addresses.valid);
    expect(await countOrders(test, since)).toBe(before);
  });

  it("refuses an invalid address without a server error", async () => {
    for (const body of [undefined, {}, [], { street: 1, city: "x", postcode: "y" }]) {
      const answer = await check(body);
      expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
    }
  });
});
