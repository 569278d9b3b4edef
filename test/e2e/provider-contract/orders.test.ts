import { afterAll, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import {
  clockNow,
  freshId,
  isRefused,
  openTarget,
  orderFor,
  orderTo,
} from "../../support/contract/contractTarget.ts";

/** The spec, "POST /v1/orders : create an order". */
const target = await openTarget();
const { live, test, other, standard, figures, world } = target;
afterAll(() => target.close());

describe("POST /v1/orders", () => {
  it("answers 201 with the order object and request_id next to its fields", async () => {
    const order = orderFor();
    const answer = await test.ask("POST", "/v1/orders", order);
    expect(answer.status).toBe(201);
    expect(answer.body).toMatchObject({ externalOrderId: order.externalOrderId, status: "created" });
    expect(answer.body["request_id"]).toEqual(expect.any(String));
  });

  it("lets no request field change the mode", async () => {
    const order = { ...orderFor(), livemode: true, mode: "live", test: false };
    const answer = await test.ask("POST", "/v1/orders", order);
    // Refusing the unknown field would follow the rule, too.
    expect(answer.status < 400 ? answer.body["livemode"] : false).toBe(false);
  });

  it("plans a future pickup and a later delivery for schedule mode asap", async () => {
    const { schedule } = await test.client.createOrder(orderFor());
    expect(schedule.mode).toBe("asap");
    const pickup = parseInstant(schedule.resolved.pickupTime);
    expect(parseInstant(schedule.resolved.deliveryTime)).toBeGreaterThan(pickup);
    expect(pickup).toBeGreaterThan(clockNow());
    expect(schedule.resolved.basis).toEqual(expect.any(String));
  });

  it("sends the order to the branch's own fleet, wherever the delivery address is", async () => {
    const branches = (await test.client.listBranches()).data;
    for (const branch of [world.branch, world.secondBranch]) {
      const { fleet } = await test.client.createOrder(orderFor({ branch }));
      const routesTo = branches.find(({ reference }) => reference === branch)?.routesTo;
      expect(fleet.name).toBe(routesTo?.fleet.name);
    }
  });
});

describe("errors of POST /v1/orders", () => {
  it("409 even when the earlier order has other content or was cancelled", async () => {
    const order = orderFor();
    await test.client.createOrder(order);
    await test.client.cancelOrder(order.externalOrderId);
    await expect(test.client.createOrder({ ...order, branch: world.secondBranch })).rejects.toMatchObject({
      code: "duplicate_external_order_id",
    });
  });

  it("creates one order for concurrent requests with the same externalOrderId", async () => {
    const order = orderFor();
    const answers = await Promise.all(Array.from({ length: 8 }, () => test.ask("POST", "/v1/orders", order)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(7);
  });

  it("refuses a branch of another organization, an unknown one, and a reference in other case", async () => {
    const { branch: known, standardBranch } = world;
    for (const branch of [standardBranch, "no-such-branch", crypto.randomUUID(), known.toUpperCase()]) {
      const answer = await test.ask("POST", "/v1/orders", orderFor({ branch }));
      expect([branch, isRefused(answer)]).toEqual([branch, true]);
    }
  });

  it("stores nothing of a refused order", async () => {
    const order = orderTo(world.addresses.notFound);
    await expect(test.client.createOrder(order)).rejects.toMatchObject({ code: "address_not_found" });
    await expect(test.client.getOrder(order.externalOrderId)).rejects.toMatchObject({
      code: "order_not_found",
    });
    const again = orderFor({ externalOrderId: order.externalOrderId });
    expect((await test.client.createOrder(again)).status).toBe("created");
  });

  it.each<[string, (order: ReturnType<typeof orderFor>) => unknown]>([
    ["no body", () => undefined],
    ["no branch", (order) => ({ ...order, branch: undefined })],
    ["no customer", (order) => ({ ...order, customer: undefined })],
    ["an address without a city", (order) => ({ ...order, customer: { ...order.customer, address: {} } })],
    ["a list in the place of the order", (order) => [order]],
    ["a number in the place of the branch", (order) => ({ ...order, branch: 7 })],
  ])("refuses %s without a failure of its own", async (_, change) => {
    const answer = await test.ask("POST", "/v1/orders", change(orderFor()));
    expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
    expect(answer.code).toEqual(expect.any(String));
  });

  it("keeps the externalOrderIds of organizations separate", async () => {
    const externalOrderId = freshId();
    await test.client.createOrder(orderFor({ externalOrderId }));
    const elsewhere = await standard.client.createOrder(
      orderFor({ externalOrderId, branch: world.standardBranch }),
    );
    expect(elsewhere.externalOrderId).toBe(externalOrderId);
  });
});

it("the cost of searches is one for a new address, none for it again or for the caller's coordinates", async () => {
  const address = { ...world.addresses.valid, street: "Overtoom 211" };
  const searches = async () => (await figures("sandbox")).searches;
  const { searches: ofOther } = await figures("other");
  const before = await searches();
  await test.client.quoteOrder(orderTo(address));
  expect(await searches()).toBe(before + 1);
  await test.client.createOrder(orderTo(address));
  await test.client.createOrder(orderTo(address));
  expect(await searches()).toBe(before + 1);
  const coordinates = { latitude: 52.3621, longitude: 4.8701 };
  const elsewhere = { ...address, street: "Overtoom 213" };
  await test.client.createOrder({
    ...orderFor(),
    customer: { firstName: "Ada", phone: "+31 6 1", address: { ...elsewhere, coordinates } },
  });
  expect(await searches()).toBe(before + 1);
  expect((await figures("other")).searches).toBe(ofOther);
});

describe("GET /v1/orders/{reference}", () => {
  it("answers 200 with the order as its creation did, at once, by reference and by externalOrderId", async () => {
    const order = orderFor();
    const { request_id: _, ...created } = await test.client.createOrder(order);
    for (const name of [created.reference, order.externalOrderId]) {
      const answer = await test.ask("GET", `/v1/orders/${name}`);
      expect([answer.status, answer.body]).toEqual([200, { ...created, request_id: expect.any(String) }]);
    }
  });

  it("keeps an externalOrderId exactly, and finds it with characters that a path encodes", async () => {
    const externalOrderId = ` Ünïcode-✓ shop/1 ?#%é ${freshId()} `;
    await test.client.createOrder(orderFor({ externalOrderId }));
    expect((await test.client.getOrder(externalOrderId)).externalOrderId).toBe(externalOrderId);
  });

  it("the same 404 for an unknown order, the other mode and another organization", async () => {
    const { reference, externalOrderId } = await test.client.createOrder(orderFor());
    const answers = [
      await live.ask("GET", "/v1/orders/no-such-order"),
      await live.ask("GET", `/v1/orders/${reference}`),
      await live.ask("GET", `/v1/orders/${externalOrderId}`),
      await other.ask("GET", `/v1/orders/${reference}`),
      await other.ask("GET", `/v1/orders/${externalOrderId}`),
    ];
    const withoutId = answers.map(({ status, body }) => ({ status, body: { ...body, request_id: null } }));
    expect(new Set(withoutId.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(answers[0]).toMatchObject({ status: 404, code: "order_not_found" });
  });
});

describe("POST /v1/orders/{reference}/cancel", () => {
  it("answers 200 with the order at status cancelled, without a body sent, by either identifier", async () => {
    for (const name of ["reference", "externalOrderId"] as const) {
      const order = await test.client.createOrder(orderFor());
      const answer = await test.ask("POST", `/v1/orders/${order[name]}/cancel`);
      expect(answer.status).toBe(200);
      expect(answer.body).toMatchObject({ reference: order.reference, status: "cancelled" });
      expect(answer.body["request_id"]).toEqual(expect.any(String));
    }
  });

  it("changes updatedAt", async () => {
    const created = await test.client.createOrder(orderFor());
    const { request_id: _, ...cancelled } = await test.client.cancelOrder(created.reference);
    const updatedSince = parseInstant(cancelled.updatedAt);
    const period = { updatedSince, updatedUntil: updatedSince + 1_000_000_000n };
    expect((await test.client.listOrders(period)).data).toContainEqual(cancelled);
  });

  it("cancels once for concurrent requests", async () => {
    const { reference } = await test.client.createOrder(orderFor());
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => test.ask("POST", `/v1/orders/${reference}/cancel`)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(4);
  });

  it("404 order_not_found for an unknown order, the other mode and another organization, without changes", async () => {
    const { reference } = await test.client.createOrder(orderFor());
    for (const [caller, name] of [
      [test, "no-such-order"],
      [other, reference],
      [live, reference],
    ] as const) {
      await expect(caller.client.cancelOrder(name)).rejects.toMatchObject({
        status: 404,
        code: "order_not_found",
      });
    }
    expect((await test.client.getOrder(reference)).status).toBe("created");
  });

  it("cancels a live order and keeps its charge", async () => {
    const { reference } = await live.client.createOrder(orderFor());
    const { charges } = await figures("sandbox");
    expect(await live.client.cancelOrder(reference)).toMatchObject({ status: "cancelled", livemode: true });
    expect((await figures("sandbox")).charges).toBe(charges);
  });
});
