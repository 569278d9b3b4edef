import { afterAll, describe, expect, it } from "vitest";
import { orderResponseSchema } from "../../../src/wire/order.ts";
import { LIVE, makeTestSandbox, orderBody } from "../../support/providers/testSandbox.ts";

const world = await makeTestSandbox();
afterAll(() => world.close());

const create = async (change: Record<string, unknown> = {}, key = LIVE) => {
  const answer = await world.ask("POST", "/v1/orders", { key, body: orderBody(change) });
  expect([answer.status, answer.text]).toEqual([201, answer.text]);
  return answer.json as { reference: string; updatedAt: string; status: string };
};
const step = (reference: string) => world.steer("POST", `/orders/${reference}/step`, {});

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
});

describe("keys, paths and bodies", () => {
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

it("explains to a list how to write an offset whose + became a space", async () => {
  const answer = await world.ask("GET", "/v1/orders?pickupFrom=2026-01-05T10:00:00+01:00");
  expect(answer.status).toBe(422);
  expect(answer.json.error.message).toContain("%2B");
});
