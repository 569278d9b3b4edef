import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tryParseInstant } from "../../../src/domain/order/instant.ts";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";
import type { ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "Resources and their fields": the order object as each endpoint returns it. Branches: listBranches.test.ts. */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

type Returned = (reference: string) => Promise<Record<string, unknown>>;

const create = async () => {
  const order = orderFor(target.world);
  const { body } = await target.test.ask("POST", "/v1/orders", order);
  return { order, body, reference: String(body["reference"]) };
};

const RETURNS: [string, Returned][] = [
  ["create", async () => (await create()).body],
  ["get", async (reference) => (await target.test.ask("GET", `/v1/orders/${reference}`)).body],
  [
    "list",
    async (reference) => {
      const { version } = (await target.test.client.getOrder(reference)).snapshot;
      const updatedUntil = version + 1_000_000_000n;
      const { elements } = await target.test.client.listOrders({ updatedSince: version, updatedUntil });
      const found = elements.find(({ raw }) => raw.includes(reference));
      return found?.value as Record<string, unknown>;
    },
  ],
  ["cancel", async (reference) => (await target.test.ask("POST", `/v1/orders/${reference}/cancel`)).body],
];

describe.each(RETURNS)("the order object as %s returns it", (name, ask) => {
  let order: Record<string, unknown>;
  beforeAll(async () => {
    order = await ask((await create()).reference);
  });

  it("has reference, externalOrderId, status and fleet as text", () => {
    expect(order).toMatchObject({
      reference: expect.any(String),
      externalOrderId: expect.any(String),
      status: expect.any(String),
      fleet: { name: expect.any(String) },
    });
  });

  it("has livemode false for a test order", () => {
    expect(order["livemode"]).toBe(false);
  });

  it("has a schedule with mode, basis and two times with an offset", () => {
    const schedule = order["schedule"] as { mode: string; resolved: Record<string, string> };
    expect(schedule.mode).toBe("asap");
    expect(schedule.resolved["basis"]).toEqual(expect.any(String));
    for (const field of ["pickupTime", "deliveryTime"]) {
      expect([field, tryParseInstant(schedule.resolved[field])]).toEqual([field, expect.any(BigInt)]);
    }
  });

  it("has planned times and updatedAt as timestamps with an offset", () => {
    for (const field of ["pickupTime", "deliveryTime", "updatedAt"]) {
      expect([field, tryParseInstant(order[field])]).toEqual([field, expect.any(BigInt)]);
    }
  });

  it("has actual times only as timestamps", () => {
    for (const field of ["realPickupTime", "realDeliveryTime"]) {
      const time = order[field];
      expect(time === null || time === undefined || tryParseInstant(time) !== undefined).toBe(true);
    }
  });

  it(`has ${name === "list" ? "no request_id" : "request_id next to its fields"}`, () => {
    expect(typeof order["request_id"]).toBe(name === "list" ? "undefined" : "string");
  });
});

describe("identifiers", () => {
  it("are unique references, assigned by the service", async () => {
    const orders = [await create(), await create(), await create()];
    expect(new Set(orders.map(({ reference }) => reference)).size).toBe(3);
    for (const { order, reference } of orders) expect(reference).not.toBe(order.externalOrderId);
  });

  it("keep the externalOrderId exactly", async () => {
    const externalOrderId = ` Ünïcode-✓ ${orderFor(target.world).externalOrderId} `;
    const { readOrder } = await target.test.client.createOrder(orderFor(target.world, { externalOrderId }));
    expect(readOrder().externalOrderId).toBe(externalOrderId);
  });

  it("include a new request_id for every response", async () => {
    const answers = [];
    for (let index = 0; index < 5; index += 1) {
      answers.push(await target.test.ask("GET", "/v1/branches"));
      answers.push(await target.test.ask("GET", "/v1/orders/no-such-order"));
    }
    const ids = answers.map(({ body }) => body["request_id"]);
    expect(new Set(ids).size).toBe(10);
    expect(ids.every((id) => typeof id === "string" && id !== "")).toBe(true);
  });
});

describe("the customer", () => {
  it("may have a phone number in any form", async () => {
    for (const phone of ["+31 (0)6 12-34-56-78", "0612345678", "020 / 123 ext. 4"]) {
      const { customer, ...order } = orderFor(target.world);
      const answer = await target.test.ask("POST", "/v1/orders", {
        ...order,
        customer: { ...customer, phone },
      });
      expect([phone, answer.status]).toEqual([phone, 201]);
    }
  });
});

it("no endpoint returns a price", async () => {
  const { reference } = await create();
  const answers = [
    await target.test.ask("GET", `/v1/orders/${reference}`),
    await target.test.ask("GET", "/v1/orders"),
    await target.test.ask("GET", "/v1/branches"),
    await target.test.ask("POST", "/v1/orders/quote", orderFor(target.world)),
    await target.test.ask("POST", "/v1/addresses/validate", target.world.addresses.valid),
    await target.test.ask("POST", `/v1/orders/${reference}/cancel`),
  ];
  for (const { body } of answers) {
    expect(JSON.stringify(body)).not.toMatch(/"[^"]*(?:price|cost|amount|currency)[^"]*":/i);
  }
});
