import { afterAll, beforeAll, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";
import type { ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "Versioning". */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

it.each(["/orders", "/branches", "/v2/orders", "/v1/v1/orders", "/orders/v1"])(
  "there is nothing without /v1 as the first segment: %s",
  async (path) => {
    const response = await fetch(target.baseUrl + path, {
      headers: { authorization: `Bearer ${target.test.apiKey}` },
    });
    expect(response.status).toBe(404);
    await response.body?.cancel();
  },
);

it("an unknown path is not reported as an order that was not found", async () => {
  const answer = await target.test.ask("GET", "/v1/no-such-endpoint");
  expect(answer.status).toBe(404);
  expect(answer.code).not.toBe("order_not_found");
});

it("the assumed PATCH /v1/orders/{reference} changes an order, even on the Standard plan", async () => {
  const { world, standard } = target;
  const branch = world.standardBranch;
  const { snapshot } = await standard.client.createOrder(orderFor(world, { branch }));
  const { reference } = snapshot.fields;
  const changed = await standard.client.updateOrder(reference, {
    customer: { firstName: "Grace", phone: "+31 6 9", address: world.addresses.valid },
  });
  expect(changed.readOrder()).toMatchObject({ reference, status: "created" });
  expect(changed.snapshot.version).toBeGreaterThanOrEqual(snapshot.version);
  await expect(standard.client.updateOrder("no-such-order", {})).rejects.toMatchObject({
    code: "order_not_found",
  });
});
