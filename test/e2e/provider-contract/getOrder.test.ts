import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";
import type { ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "GET /v1/orders/{reference} : read one order". */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

describe("GET /v1/orders/{reference}", () => {
  it("answers 200 with the order, by reference and by externalOrderId", async () => {
    const order = orderFor(target.world);
    const { snapshot } = await target.test.client.createOrder(order);
    const { reference } = snapshot.fields;
    for (const name of [reference, order.externalOrderId ?? ""]) {
      const answer = await target.test.ask("GET", `/v1/orders/${name}`);
      expect(answer.status).toBe(200);
      expect(answer.body).toMatchObject({ reference, externalOrderId: order.externalOrderId });
      expect(answer.body["request_id"]).toEqual(expect.any(String));
    }
  });

  it("finds an externalOrderId with characters that a path encodes", async () => {
    const externalOrderId = `shop/1 ?#%é ${orderFor(target.world).externalOrderId}`;
    await target.test.client.createOrder(orderFor(target.world, { externalOrderId }));
    const { readOrder } = await target.test.client.getOrder(externalOrderId);
    expect(readOrder().externalOrderId).toBe(externalOrderId);
  });

  it("404 order_not_found for an unknown reference", async () => {
    await expect(target.test.client.getOrder("no-such-order")).rejects.toMatchObject({
      failure: "not_found",
      status: 404,
      code: "order_not_found",
    });
  });

  it("the same 404 for an unknown order, the other mode and another organization", async () => {
    const { world, test, live, other } = target;
    const { snapshot } = await test.client.createOrder(orderFor(world));
    const { reference, externalOrderId } = snapshot.fields;
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

  it("404 for a live order with a test key", async () => {
    const { snapshot } = await target.live.client.createOrder(orderFor(target.world));
    await expect(target.test.client.getOrder(snapshot.fields.reference)).rejects.toMatchObject({
      code: "order_not_found",
    });
  });

  it("reads a cancelled order", async () => {
    const { snapshot } = await target.test.client.createOrder(orderFor(target.world));
    await target.test.client.cancelOrder(snapshot.fields.reference);
    const { readOrder } = await target.test.client.getOrder(snapshot.fields.reference);
    expect(readOrder().status).toBe("cancelled");
  });

  it("401 invalid_api_key without a valid key", async () => {
    await expect(target.as("dos_test_unknown").client.getOrder("x")).rejects.toMatchObject({
      code: "invalid_api_key",
    });
  });
});
