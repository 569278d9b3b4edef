import { afterAll, describe, expect, it } from "vitest";
import { countOrders, openTarget, orderTo, type World } from "../../support/contract/contractTarget.ts";

/** The spec, "POST /v1/addresses/validate : check an address". */
const target = await openTarget();
afterAll(() => target.close());

const REASONS = {
  notFound: "address_not_found",
  ambiguous: "address_ambiguous",
  lowConfidence: "address_low_confidence",
} as const;
const INVALID = Object.keys(REASONS) as (keyof typeof REASONS)[];
const ALL: (keyof World["addresses"])[] = ["valid", "untidy", ...INVALID];

describe("POST /v1/addresses/validate", () => {
  it("answers 200 with coordinates and the corrected form of a valid address", async () => {
    const { world, test } = target;
    const answer = await test.ask("POST", "/v1/addresses/validate", world.addresses.untidy);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      valid: true,
      coordinates: { latitude: expect.any(Number), longitude: expect.any(Number) },
      normalized: world.addresses.valid,
    });
    expect(answer.body["request_id"]).toEqual(expect.any(String));
    expect(answer.body).not.toHaveProperty("reason");
  });

  it("returns an address in its corrected form unchanged", async () => {
    const { world, test } = target;
    const found = await test.client.validateAddress(world.addresses.valid);
    expect(found.valid && found.normalized).toMatchObject(world.addresses.valid);
  });

  it.each(INVALID)("answers 200 with reason and message when the address is %s", async (kind) => {
    const { world, test } = target;
    const answer = await test.ask("POST", "/v1/addresses/validate", world.addresses[kind]);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ valid: false, reason: REASONS[kind], message: expect.any(String) });
    expect(answer.body).not.toHaveProperty("error");
    expect(answer.body).not.toHaveProperty("coordinates");
  });

  it.each(ALL)("treats an address that is %s as creation does", async (kind) => {
    const { world, test } = target;
    const checked = await test.client.validateAddress(world.addresses[kind]);
    const created = await test.ask("POST", "/v1/orders", orderTo(world, world.addresses[kind]));
    expect(created.code).toBe(checked.valid ? undefined : checked.reason);
    expect(created.status === 201).toBe(checked.valid);
  });

  it("answers test and live keys in the same way", async () => {
    const { world, test, live } = target;
    const { request_id: _, ...inTest } = await test.client.validateAddress(world.addresses.valid);
    const { request_id: __, ...inLive } = await live.client.validateAddress(world.addresses.valid);
    expect(inTest).toEqual(inLive);
  });

  it("creates no order", async () => {
    const since = target.test.client.providerClock.providerNow();
    const before = await countOrders(target.test, since);
    await target.test.client.validateAddress(target.world.addresses.valid);
    expect(await countOrders(target.test, since)).toBe(before);
  });

  it("refuses an invalid address without a server error", async () => {
    for (const body of [undefined, {}, [], { street: 1, city: "x", postcode: "y" }]) {
      const answer = await target.test.ask("POST", "/v1/addresses/validate", body);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.status).toBeLessThan(500);
    }
  });
});
