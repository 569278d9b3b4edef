import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";
import type { ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "POST /v1/orders/{reference}/cancel : cancel an order". Which statuses allow it: states.test.ts. */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

const create = async () => (await target.test.client.createOrder(orderFor(target.world))).readOrder();

describe("POST /v1/orders/{reference}/cancel", () => {
  it("answers 200 with the order at status cancelled, without a body sent", async () => {
    const { reference } = await create();
    const answer = await target.test.ask("POST", `/v1/orders/${reference}/cancel`);
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({ reference, status: "cancelled" });
    expect(answer.body["request_id"]).toEqual(expect.any(String));
  });

  it("accepts the externalOrderId as well", async () => {
    const { reference, externalOrderId } = await create();
    const { readOrder } = await target.test.client.cancelOrder(externalOrderId ?? "");
    expect(readOrder()).toMatchObject({ reference, status: "cancelled" });
  });

  it("changes updatedAt", async () => {
    const created = await create();
    const { snapshot } = await target.test.client.cancelOrder(created.reference);
    const { snapshot: read } = await target.test.client.getOrder(created.reference);
    expect(snapshot.version).toBe(read.version);
    const { elements } = await target.test.client.listOrders({
      updatedSince: snapshot.version,
      updatedUntil: snapshot.version + 1_000_000_000n,
    });
    expect(elements.some(({ raw }) => raw.includes(created.reference))).toBe(true);
  });

  it("422 order_not_cancellable the second time", async () => {
    const { reference } = await create();
    await target.test.client.cancelOrder(reference);
    await expect(target.test.client.cancelOrder(reference)).rejects.toMatchObject({
      status: 422,
      code: "order_not_cancellable",
    });
  });

  it("cancels once for concurrent requests", async () => {
    const { reference } = await create();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => target.test.ask("POST", `/v1/orders/${reference}/cancel`)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 422)).toHaveLength(4);
  });

  it("404 order_not_found for an unknown order, the other mode and another organization, without changes", async () => {
    const { reference } = await create();
    const { test, other, live } = target;
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
    expect((await target.test.client.getOrder(reference)).readOrder().status).toBe("created");
  });

  it("401 invalid_api_key without a valid key", async () => {
    const { reference } = await create();
    await expect(target.as("dos_test_unknown").client.cancelOrder(reference)).rejects.toMatchObject({
      status: 401,
      code: "invalid_api_key",
    });
  });

  it("cancels a live order and keeps its charge", async () => {
    const { live, world, control } = target;
    const { snapshot } = await live.client.createOrder(orderFor(world));
    const { charges } = await control.figures("sandbox");
    const { readOrder } = await live.client.cancelOrder(snapshot.fields.reference);
    expect(readOrder()).toMatchObject({ status: "cancelled", livemode: true });
    expect((await control.figures("sandbox")).charges).toBe(charges);
  });
});
