import { afterAll, beforeEach, describe, expect, it } from "vitest";
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
