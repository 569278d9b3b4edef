import { afterAll, beforeEach, describe, expect, it } from "vitest";
import {
  ADDRESS_REASONS,
  quoteResponseSchema,
  validateAddressResponseSchema,
} from "../../../src/wire/api.ts";
import { anAddress, LIVE, makeTestSandbox, orderBody, TEST } from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";

const WRONG_ADDRESSES = {
  address_not_found: { street: "Nowhere 1", city: "Atlantis", postcode: "0000 XX" },
  address_ambiguous: { street: "Kerkstraat 12", city: "Amsterdam", postcode: "" },
  address_low_confidence: { street: "Overtoom", city: "Amsterdam", postcode: "1054 HN" },
} as const;

let world: TestSandbox;
let started: Promise<TestSandbox> | undefined;
beforeEach(async () => {
  world = await (started ??= makeTestSandbox());
  await world.steer("POST", "/reset", {});
});
afterAll(() => world.close());

const create = (change: Record<string, unknown> = {}, key = LIVE) =>
  world.ask("POST", "/v1/orders", { key, body: orderBody(change) });
const quote = (change: Record<string, unknown> = {}, key = LIVE) =>
  world.ask("POST", "/v1/orders/quote", { key, body: orderBody(change) });
const customerAt = (address: unknown) => ({ firstName: "A", phone: "1", address });
const figuresOf = async (organization = "sandbox") => {
  const { organizations } = await world.steer("GET", "/state");
  return organizations.find((each: { organizationId: string }) => each.organizationId === organization);
};

describe("what both creation and quote refuse", () => {
  const cases: [string, Record<string, unknown>][] = [
    ["branch_not_connected", { branch: "den-haag" }],
    ["branch_not_connected", { branch: "den-haag", zoneCode: "HAG-1" }],
    ["branch_closed", { branch: "leiden" }],
    ["branch_not_found", { branch: "noord" }],
    ["branch_not_found", { branch: "00000000-0000-4000-8000-000000000000" }],
    ["zone_not_connected", { zoneCode: "UTR-1" }],
    ["no_shift_coverage", { branch: "rotterdam", zoneCode: "RTM-OFF" }],
    ["address_not_found", { customer: customerAt(WRONG_ADDRESSES.address_not_found) }],
    ["address_ambiguous", { customer: customerAt(WRONG_ADDRESSES.address_ambiguous) }],
    ["address_low_confidence", { customer: customerAt(WRONG_ADDRESSES.address_low_confidence) }],
  ];
  it.each(cases)("%s", async (code, change) => {
    for (const key of [LIVE, TEST]) {
      for (const answer of [await create(change, key), await quote(change, key)]) {
        expect([answer.status, answer.json.error.code]).toEqual([422, code]);
        expect(answer.json.request_id).toMatch(/^req_/);
      }
    }
    expect(await figuresOf()).toMatchObject({ orders: 0, charges: 0 });
  });

  it("a branch without coordinates, until it has them again", async () => {
    await world.steer("POST", "/branches/centrum", { located: false });
    expect((await create()).json.error.code).toBe("branch_not_located");
    await world.steer("POST", "/branches/centrum", { located: true });
    expect((await create()).status).toBe(201);
  });

  it("accepts orders again when the shift starts, to the minute", async () => {
    const off = { branch: "rotterdam", zoneCode: "RTM-OFF" };
    await world.steer("POST", "/zones/RTM-OFF", { shifts: [{ from: "00:00", until: "24:00" }] });
    expect((await create(off)).status).toBe(201);
  });
});

describe("subscriptions", () => {
  it("unpaid and canceled refuse only creation and quote with 402, whatever the body", async () => {
    const { reference } = (await create()).json;
    const test = (await create({}, TEST)).json;
    for (const subscription of ["unpaid", "canceled"]) {
      await world.steer("POST", "/organizations/sandbox", { subscription });
      for (const answer of [
        await create(),
        await create({}, TEST),
        await quote(),
        await create({ branch: 7 }),
      ]) {
        expect([answer.status, answer.json.error.code]).toEqual([402, "subscription_inactive"]);
      }
      const others = [
        await world.ask("GET", `/v1/orders/${reference}`),
        await world.ask("GET", "/v1/orders"),
        await world.ask("GET", "/v1/branches"),
        await world.ask("POST", "/v1/addresses/validate", { body: anAddress() }),
        await world.ask("PATCH", `/v1/orders/${reference}`, { body: {} }),
        await world.ask("POST", `/v1/test/orders/${test.reference}/advance`, { key: TEST }),
      ];
      expect(others.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
    }
    expect((await world.ask("POST", `/v1/orders/${reference}/cancel`)).status).toBe(200);
  });

  it("past_due warns only on answers of creation and quote; other states never warn", async () => {
    const header = "service-subscription-state";
    await world.steer("POST", "/organizations/sandbox", { subscription: "past_due" });
    for (const answer of [await create(), await quote(), await create({ branch: "leiden" })]) {
      expect(answer.headers.get(header)).toBe("past_due");
    }
    const { reference } = (await create()).json;
    for (const answer of [
      await world.ask("GET", "/v1/orders"),
      await world.ask("POST", `/v1/orders/${reference}/cancel`),
      await world.ask("POST", "/v1/addresses/validate", { body: anAddress() }),
      await create({}, "dos_live_other"),
    ]) {
      expect(answer.headers.has(header)).toBe(false);
    }
    for (const subscription of ["active", "unpaid", "canceled"]) {
      await world.steer("POST", "/organizations/sandbox", { subscription });
      expect((await create()).headers.has(header)).toBe(false);
    }
  });
});

describe("plans", () => {
  it("Standard has no quotes: 403; but 402 comes first on an unpaid subscription", async () => {
    const refused = await quote({ branch: "winkel" }, "dos_live_standard");
    expect([refused.status, refused.json.error.code]).toEqual([403, "feature_not_available"]);
    await world.steer("POST", "/organizations/standard", { subscription: "unpaid" });
    const unpaid = await quote({ branch: "winkel" }, "dos_live_standard");
    expect([unpaid.status, unpaid.json.error.code]).toEqual([402, "subscription_inactive"]);
  });

  it("Standard creates orders, and has quotes once it is upgraded to Advanced", async () => {
    expect((await create({ branch: "winkel" }, "dos_live_standard")).status).toBe(201);
    await world.steer("POST", "/organizations/standard", { plan: "advanced" });
    expect((await quote({ branch: "winkel" }, "dos_live_standard")).status).toBe(200);
  });

  it("neither plan: everything is 403", async () => {
    await world.steer("POST", "/organizations/standard", { plan: "none" });
    const answer = await world.ask("GET", "/v1/orders", { key: "dos_live_standard" });
    expect([answer.status, answer.json.error.code]).toEqual([403, "feature_not_available"]);
  });
});

describe("quote", () => {
  it("returns the fleet, zone, distance and times that the order then gets, the same in both modes", async () => {
    const live = quoteResponseSchema.parse((await quote()).json);
    const test = quoteResponseSchema.parse((await quote({}, TEST)).json);
    const order = (await create()).json;
    expect(live.schedule).toEqual(order.schedule);
    expect({ ...live, request_id: "" }).toEqual({ ...test, request_id: "" });
    expect(live.fleet).toEqual(order.fleet);
    expect(live.zone).toEqual(order.zone);
    expect(live.distance).toBeGreaterThan(0);
    expect(Number(live.distance.toFixed(2))).toBe(live.distance);
    expect(JSON.stringify(live)).not.toMatch(/price|amount|cost/i);
  });

  it("stores nothing, ignores externalOrderId, and never answers 409", async () => {
    await create({ externalOrderId: "taken" });
    const before = await figuresOf();
    expect((await quote({ externalOrderId: "taken" })).status).toBe(200);
    expect((await quote({ externalOrderId: 7 })).status).toBe(200);
    expect(await figuresOf()).toMatchObject({ orders: before.orders, charges: before.charges });
  });
});

describe("charges", () => {
  it("are recorded for live orders at creation, and stay when the order is cancelled", async () => {
    const { reference } = (await create()).json;
    await create({}, TEST);
    expect(await figuresOf()).toMatchObject({ orders: 2, charges: 1 });
    await world.ask("POST", `/v1/orders/${reference}/cancel`);
    expect((await world.steer("GET", `/orders/${reference}`)).charged).toBe(true);
    expect(await figuresOf()).toMatchObject({ charges: 1 });
  });
});

describe("addresses", () => {
  it("are valid, with coordinates and the corrected form", async () => {
    const answer = await world.ask("POST", "/v1/addresses/validate", {
      body: { street: "  keizersgracht   120 ", city: "AMSTERDAM", postcode: "1015cj" },
    });
    expect(answer.status).toBe(200);
    expect(validateAddressResponseSchema.parse(answer.json)).toMatchObject({
      valid: true,
      coordinates: { latitude: expect.closeTo(52.37, 1), longitude: expect.closeTo(4.88, 1) },
      normalized: { street: "Keizersgracht 120", city: "Amsterdam", postcode: "1015 CJ" },
    });
  });

  it.each(ADDRESS_REASONS)("%s is an answer, not an error", async (reason) => {
    const answer = await world.ask("POST", "/v1/addresses/validate", { body: WRONG_ADDRESSES[reason] });
    expect(answer.status).toBe(200);
    expect(validateAddressResponseSchema.parse(answer.json)).toMatchObject({ valid: false, reason });
    expect(answer.json.message.length).toBeGreaterThan(10);
  });

  it("cost one search each, whichever request comes first and however they are written", async () => {
    await quote();
    expect(await figuresOf()).toMatchObject({ searches: 1 });
    await create();
    await create({}, TEST);
    await world.ask("POST", "/v1/addresses/validate", { body: anAddress({ street: "OVERTOOM  12" }) });
    expect(await figuresOf()).toMatchObject({ searches: 1 });
    await create({ customer: customerAt(anAddress({ street: "Overtoom 13" })) });
    expect(await figuresOf()).toMatchObject({ searches: 2 });
    await create({ customer: customerAt(WRONG_ADDRESSES.address_not_found) });
    await create({ customer: customerAt(WRONG_ADDRESSES.address_not_found) });
    expect(await figuresOf()).toMatchObject({ searches: 3 });
    expect(await figuresOf("other")).toMatchObject({ searches: 0 });
  });

  it("with the caller's own coordinates cost no search", async () => {
    const coordinates = { latitude: 52.36, longitude: 4.87 };
    const answer = await create({
      customer: customerAt({ street: "Anywhere", city: "X", postcode: "1", coordinates }),
    });
    expect(answer.status).toBe(201);
    expect(await figuresOf()).toMatchObject({ searches: 0 });
  });
});

describe("duplicates", () => {
  it("are reported before other refusals, even after a cancellation", async () => {
    const { reference } = (await create({ externalOrderId: "once" })).json;
    await world.ask("POST", `/v1/orders/${reference}/cancel`);
    await world.steer("POST", "/branches/centrum", { closed: true });
    const again = await create({ externalOrderId: "once" });
    expect([again.status, again.json.error.code]).toEqual([409, "duplicate_external_order_id"]);
  });

  it("are found among concurrent requests: one is created, the others are refused", async () => {
    const answers = await Promise.all(Array.from({ length: 8 }, () => create({ externalOrderId: "race" })));
    expect(answers.map(({ status }) => status).toSorted((left, right) => left - right)).toEqual([
      201,
      ...Array.from({ length: 7 }, () => 409),
    ]);
  });

  it("are not found among orders without an identifier", async () => {
    expect((await create()).json.externalOrderId).toBeNull();
    expect((await create()).status).toBe(201);
  });
});
