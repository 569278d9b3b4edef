import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listBranchesResponseSchema } from "../../../src/wire/api.ts";
import { orderResponseSchema } from "../../../src/wire/order.ts";
import { LIVE, makeTestSandbox, orderBody, TEST } from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
beforeAll(async () => {
  world = await makeTestSandbox();
});
afterAll(() => world.close());

const create = async (change: Record<string, unknown> = {}, key = LIVE) => {
  const answer = await world.ask("POST", "/v1/orders", { key, body: orderBody(change) });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
  return answer.json as { reference: string; updatedAt: string; status: string };
};
const step = (reference: string) => world.steer("POST", `/orders/${reference}/step`, {});

describe("creating an order", () => {
  it("answers 201 with the order object in status created, in the key's mode", async () => {
    for (const [key, livemode] of [
      [LIVE, true],
      [TEST, false],
    ] as const) {
      const answer = await world.ask("POST", "/v1/orders", { key, body: orderBody() });
      expect(answer.status).toBe(201);
      expect(orderResponseSchema.parse(answer.json)).toMatchObject({ status: "created", livemode });
      expect(answer.json.schedule).toMatchObject({ mode: "asap" });
      expect(answer.json.pickupTime).toBe(answer.json.schedule.resolved.pickupTime);
      expect(answer.json.fleet).toEqual({ name: "Amstel Fietskoeriers" });
      expect(answer.json.updatedAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+01:00$/);
    }
  });

  it("takes the mode from no request field", async () => {
    const { json } = await world.ask("POST", "/v1/orders", {
      key: TEST,
      body: orderBody({ livemode: true }),
    });
    expect(json.livemode).toBe(false);
  });

  it("gives every order its own reference", async () => {
    const { references } = await world.steer("POST", "/orders", { count: 200 });
    expect(new Set(references).size).toBe(200);
    for (const reference of references) expect(reference).toMatch(/^DO-[0-9A-HJKMNP-TV-Z]{8}$/);
  });

  it("routes by zoneCode when one is given, else by the primary connection", async () => {
    const first = await create();
    const second = await create({ zoneCode: "AMS-W" });
    expect(first).toMatchObject({ zone: { code: "AMS-C" } });
    expect(second).toMatchObject({ zone: { code: "AMS-W" } });
  });

  it("accepts a branch by its id in any case, and by its reference only in the exact case", async () => {
    const branches = await world.ask("GET", "/v1/branches");
    const { id } = branches.json.data[0];
    expect((await create({ branch: id })).status).toBe("created");
    expect((await create({ branch: id.toUpperCase() })).status).toBe("created");
    const answer = await world.ask("POST", "/v1/orders", { body: orderBody({ branch: "Centrum" }) });
    expect(answer.json.error.code).toBe("branch_not_found");
  });
});

describe("reading an order", () => {
  it("finds it by reference and by externalOrderId", async () => {
    const { reference } = await create({ externalOrderId: "read/me 1" });
    for (const name of [reference, "read%2Fme%201"]) {
      const answer = await world.ask("GET", `/v1/orders/${name}`);
      expect(answer.status).toBe(200);
      expect(orderResponseSchema.parse(answer.json).reference).toBe(reference);
    }
  });

  it("answers an order of another mode or organization and an unknown one with the same 404", async () => {
    const { reference } = await create({ externalOrderId: "hidden" });
    const answers = await Promise.all(
      [
        [TEST, reference],
        ["dos_live_other", reference],
        ["dos_test_other", reference],
        [TEST, "hidden"],
        ["dos_live_other", "hidden"],
        [LIVE, "DO-00000000"],
        [LIVE, "%00"],
      ].map(([key, name]) => world.ask("GET", `/v1/orders/${name}`, { key: key! })),
    );
    for (const { status, json } of answers) {
      expect(status).toBe(404);
      expect({ ...json, request_id: "" }).toEqual({ ...answers[0]!.json, request_id: "" });
      expect(json.error.code).toBe("order_not_found");
    }
  });

  it("accepts the same externalOrderId in each mode and organization", async () => {
    for (const [key, branch] of [
      [LIVE, "centrum"],
      [TEST, "centrum"],
      ["dos_live_other", "centrum"],
    ] as const) {
      await create({ externalOrderId: "shared", branch }, key);
    }
    const again = await world.ask("POST", "/v1/orders", { body: orderBody({ externalOrderId: "shared" }) });
    expect([again.status, again.json.error.code]).toEqual([409, "duplicate_external_order_id"]);
  });
});

describe("cancelling", () => {
  it("lets the business cancel up to and including arrived_for_pickup", async () => {
    const first = await create();
    expect((await world.ask("POST", `/v1/orders/${first.reference}/cancel`)).json.status).toBe("cancelled");
    const second = await create({ externalOrderId: "cancel-2" });
    await step(second.reference);
    const answer = await world.ask("POST", "/v1/orders/cancel-2/cancel");
    expect(answer.status).toBe(200);
    expect(orderResponseSchema.parse(answer.json).status).toBe("cancelled");
    const third = await create();
    await step(third.reference);
    await step(third.reference);
    const late = await world.ask("POST", `/v1/orders/${third.reference}/cancel`);
    expect([late.status, late.json.error.code]).toEqual([422, "order_not_cancellable"]);
  });

  it("refuses a second cancellation, and the order stays readable", async () => {
    const { reference } = await create();
    await world.ask("POST", `/v1/orders/${reference}/cancel`);
    const again = await world.ask("POST", `/v1/orders/${reference}/cancel`);
    expect([again.status, again.json.error.code]).toEqual([422, "order_not_cancellable"]);
    expect((await world.ask("GET", `/v1/orders/${reference}`)).json.status).toBe("cancelled");
  });

  it("lets the fleet cancel up to and including arrived_for_delivery", async () => {
    const { reference } = await create();
    for (let count = 0; count < 3; count += 1) await step(reference);
    const cancelled = await world.steer("POST", `/orders/${reference}/cancel`, { by: "fleet" });
    expect(cancelled.status).toBe("cancelled");
    const other = await create();
    for (let count = 0; count < 4; count += 1) await step(other.reference);
    await expect(world.steer("POST", `/orders/${other.reference}/cancel`, { by: "fleet" })).rejects.toThrow(
      "order_not_cancellable",
    );
  });

  it("lets an organization that is its own fleet cancel up to and including arrived_for_delivery", async () => {
    const own = {
      branch: "eigen-bezorging",
      customer: {
        firstName: "Anna",
        phone: "1",
        address: { street: "Oude Delft 8", city: "Delft", postcode: "2611 CD" },
      },
    };
    const { reference } = await create(own);
    for (let count = 0; count < 3; count += 1) await step(reference);
    expect((await world.ask("POST", `/v1/orders/${reference}/cancel`)).json.status).toBe("cancelled");
    const delivered = await create(own);
    for (let count = 0; count < 4; count += 1) await step(delivered.reference);
    expect((await world.ask("POST", `/v1/orders/${delivered.reference}/cancel`)).status).toBe(422);
  });

  it("ignores whatever body it is sent", async () => {
    const { reference } = await create();
    const answer = await world.ask("POST", `/v1/orders/${reference}/cancel`, { body: "not json" });
    expect(answer.status).toBe(200);
  });
});

describe("advancing a test order", () => {
  it("passes every status, sets the actual times, and ends at delivered", async () => {
    const { reference } = await create({}, TEST);
    const statuses: string[] = [];
    let answer = await world.ask("POST", `/v1/test/orders/${reference}/advance`, { key: TEST });
    while (answer.status === 200) {
      statuses.push(orderResponseSchema.parse(answer.json).status);
      answer = await world.ask("POST", `/v1/test/orders/${reference}/advance`, { key: TEST });
    }
    expect(statuses).toEqual(["arrived_for_pickup", "picked_up", "arrived_for_delivery", "delivered"]);
    expect([answer.status, answer.json.error.code]).toEqual([422, "order_not_advanceable"]);
    const { json } = await world.ask("GET", `/v1/orders/${reference}`, { key: TEST });
    expect(json.realPickupTime).not.toBeNull();
    expect(json.realDeliveryTime).toBe(json.updatedAt);
  });

  it("does not reveal the order to a live key, and does not advance a live order", async () => {
    const test = await create({}, TEST);
    const live = await create();
    for (const { key, reference } of [
      { key: LIVE, reference: test.reference },
      { key: LIVE, reference: live.reference },
      { key: TEST, reference: live.reference },
    ]) {
      const answer = await world.ask("POST", `/v1/test/orders/${reference}/advance`, { key });
      expect([answer.status, answer.json.error.code]).toEqual([404, "order_not_found"]);
    }
  });
});

describe("changing an order", () => {
  it("changes the named fields, updates updatedAt and keeps the rest", async () => {
    const before = await create({ externalOrderId: "change-me" });
    const answer = await world.ask("PATCH", "/v1/orders/change-me", {
      body: {
        customer: {
          firstName: "Bram",
          phone: "2",
          address: {
            street: "Kerkstraat 9",
            city: "Amsterdam",
            postcode: "1017 GB",
          },
        },
      },
    });
    expect(answer.status).toBe(200);
    const after = orderResponseSchema.parse(answer.json);
    expect(after).toMatchObject({
      reference: before.reference,
      status: "created",
      externalOrderId: "change-me",
    });
    expect(after["customer"]).toMatchObject({ firstName: "Bram", address: { street: "Kerkstraat 9" } });
    expect(after.updatedAt > before.updatedAt).toBe(true);
  });

  it("checks the new address, and refuses a change once the courier has the goods", async () => {
    const { reference } = await create();
    const nowhere = {
      customer: {
        firstName: "A",
        phone: "1",
        address: { street: "Nowhere 1", city: "Atlantis", postcode: "0" },
      },
    };
    const bad = await world.ask("PATCH", `/v1/orders/${reference}`, { body: nowhere });
    expect([bad.status, bad.json.error.code]).toEqual([422, "address_not_found"]);
    await step(reference);
    await step(reference);
    const late = await world.ask("PATCH", `/v1/orders/${reference}`, { body: { zoneCode: "AMS-W" } });
    expect([late.status, late.json.error.code]).toEqual([422, "order_not_changeable"]);
  });

  it("keeps updatedAt when no field is named", async () => {
    const { reference, updatedAt } = await create();
    const { json } = await world.ask("PATCH", `/v1/orders/${reference}`, { body: {} });
    expect(json.updatedAt).toBe(updatedAt);
  });
});

describe("listing branches", () => {
  it("lists open branches with their route and zones, or null", async () => {
    const answer = await world.ask("GET", "/v1/branches");
    const { data, hasMore } = listBranchesResponseSchema.parse(answer.json);
    expect(hasMore).toBe(false);
    expect(data.map((branch) => branch.reference)).not.toContain("leiden");
    expect(data.find((branch) => branch.reference === "den-haag")?.routesTo).toBeNull();
    expect(data.filter((branch) => branch.reference === null)).toHaveLength(1);
    expect(data[0]?.routesTo).toEqual({
      fleet: { name: "Amstel Fietskoeriers" },
      zone: { code: "AMS-C", name: "Amsterdam Centrum" },
    });
    expect(data[0]?.connectedZones.map((zone) => [zone.code, zone.isPrimary])).toEqual([
      ["AMS-C", true],
      ["AMS-W", false],
    ]);
  });

  it("promotes no other connection when the primary one ends", async () => {
    await world.steer("POST", "/branches/rotterdam", { primary: null });
    const { json } = await world.ask("GET", "/v1/branches");
    const branch = json.data.find((each: { reference: string }) => each.reference === "rotterdam");
    expect(branch.routesTo).toBeNull();
    expect(branch.connectedZones).toEqual([
      { code: "RTM-EVE", name: "Rotterdam Avond", isPrimary: false },
      { code: "RTM-OFF", name: "Rotterdam Haven (no shifts)", isPrimary: false },
    ]);
    await world.steer("POST", "/branches/rotterdam", { primary: "RTM-1" });
  });

  it("shows each organization its own branches, whose addresses can be geocoded", async () => {
    for (const key of ["dos_live_sandbox", "dos_test_other", "dos_live_standard"]) {
      const { json } = await world.ask("GET", "/v1/branches", { key });
      expect(json.data.length).toBeGreaterThan(1);
      for (const { address } of json.data) {
        const check = await world.ask("POST", "/v1/addresses/validate", { key, body: address });
        expect(check.json).toMatchObject({ valid: true, normalized: address });
      }
    }
  });
});

describe("keys, paths and bodies", () => {
  it("answers a missing, malformed or unknown key with 401, on every path", async () => {
    for (const headers of [
      {},
      { authorization: "dos_live_sandbox" },
      { authorization: "Bearer dos_live_x" },
    ]) {
      for (const path of ["/v1/orders", "/v1/branches", "/v1/nothing"]) {
        const answer = await world.ask("GET", path, {
          key: null,
          headers: headers as Record<string, string>,
        });
        expect([answer.status, answer.json.error.code]).toEqual([401, "invalid_api_key"]);
      }
    }
  });

  it("answers an unknown path with 404 and an unknown method with 405 and Allow", async () => {
    expect((await world.ask("GET", "/v1/nothing")).status).toBe(404);
    const answer = await world.ask("DELETE", "/v1/orders");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST, GET"]);
  });

  it("marks every answer as the sandbox's and gives each its own request_id", async () => {
    const answers = await Promise.all(
      ["/v1/orders", "/v1/branches", "/v1/nothing", "/v1/orders/none"].map((path) => world.ask("GET", path)),
    );
    expect(new Set(answers.map(({ json }) => json.request_id)).size).toBe(4);
    for (const { headers } of answers) expect(headers.get("x-order-mirror-sandbox")).toBe("1");
  });

  it("refuses a body that is not JSON, lacks a field, is too long, or is not valid text", async () => {
    const bodies: [string, number][] = [
      ["{", 400],
      ["", 422],
      ["[]", 422],
      [JSON.stringify(orderBody({ branch: 7 })), 422],
      [JSON.stringify(orderBody({ externalOrderId: "" })), 422],
      [JSON.stringify(orderBody({ externalOrderId: "x".repeat(256) })), 422],
      [JSON.stringify(orderBody({ externalOrderId: "a\0b" })), 422],
      [JSON.stringify(orderBody({ schedule: { mode: "someday" } })), 422],
      [JSON.stringify(orderBody({ filler: "x".repeat(70_000) })), 413],
    ];
    for (const [body, status] of bodies) {
      const answer = await world.ask("POST", "/v1/orders", { body });
      expect([answer.status, body.slice(0, 40)]).toEqual([status, body.slice(0, 40)]);
      expect(answer.json.request_id).toMatch(/^req_/);
    }
    const longest = await world.ask("POST", "/v1/orders", {
      body: orderBody({ externalOrderId: "x".repeat(255) }),
    });
    expect(longest.status).toBe(201);
  });
});
