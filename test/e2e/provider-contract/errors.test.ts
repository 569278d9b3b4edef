import { afterAll, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { openTarget, orderFor, orderTo } from "../../support/contract/contractTarget.ts";

/**
 * The spec, "Errors". The status and code of each: the file of its endpoint; that a refusal has a code, a message and a
 * request_id, wherever one is read: contractTarget.ts.
 */
const target = await openTarget();
const { test, standard, world, baseUrl } = target;
afterAll(() => target.close());

it("no refusal repeats the customer", async () => {
  const order = orderTo(world.addresses.notFound);
  const customer = { ...order.customer, firstName: "Zyxwv", phone: "+31 6 98765432" };
  const answer = await test.ask("POST", "/v1/orders", { ...order, customer });
  expect(JSON.stringify(answer.body)).not.toMatch(/Zyxwv|98765432/);
});

it.each(["/orders", "/branches", "/v2/orders", "/v1/v1/orders", "/orders/v1"])(
  "there is nothing without /v1 as the first segment: %s",
  async (path) => {
    const response = await fetch(baseUrl + path, {
      headers: { authorization: `Bearer ${test.apiKey}` },
    });
    expect(response.status).toBe(404);
    await response.body?.cancel();
  },
);

it("an unknown path is not reported as an order that was not found", async () => {
  const answer = await test.ask("GET", "/v1/no-such-endpoint");
  expect(answer.status).toBe(404);
  expect(answer.code).not.toBe("order_not_found");
});

it("the assumed PATCH /v1/orders/{reference} changes an order, even on the Standard plan", async () => {
  const branch = world.standardBranch;
  const { reference, updatedAt } = await standard.client.createOrder(orderFor({ branch }));
  const changed = await standard.client.updateOrder(reference, {
    customer: { firstName: "Grace", phone: "+31 6 9", address: world.addresses.valid },
  });
  expect(changed).toMatchObject({ reference, status: "created" });
  expect(parseInstant(changed.updatedAt)).toBeGreaterThanOrEqual(parseInstant(updatedAt));
  await expect(standard.client.updateOrder("no-such-order", {})).rejects.toMatchObject({
    code: "order_not_found",
  });
});
