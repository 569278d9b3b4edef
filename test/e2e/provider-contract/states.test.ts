import { afterAll, describe, expect, it } from "vitest";
import { parseInstant, tryParseInstant } from "../../../src/domain/order/instant.ts";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";

/** The spec, "States and transitions", and "POST /v1/test/orders/{reference}/advance". */
const target = await openTarget();
afterAll(() => target.close());

const STEPS = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery"];

async function createAt(status: string, fields: { branch?: string } = {}): Promise<string> {
  const { reference } = await target.test.client.createOrder(orderFor(target.world, fields));
  for (let steps = STEPS.indexOf(status); steps > 0; steps -= 1) {
    await target.test.client.advanceTestOrder(reference);
  }
  expect(await statusOf(reference)).toBe(status);
  return reference;
}

const statusOf = async (reference: string) => (await target.test.client.getOrder(reference)).status;

describe("POST /v1/test/orders/{reference}/advance", () => {
  it("accepts the externalOrderId as well", async () => {
    const order = orderFor(target.world);
    await target.test.client.createOrder(order);
    await target.test.client.advanceTestOrder(order.externalOrderId);
    expect(await statusOf(order.externalOrderId)).toBe("arrived_for_pickup");
  });

  it("moves a test order through the statuses in sequence, with updatedAt and the actual times", async () => {
    const reference = await createAt("created");
    const order = async () => await target.test.client.getOrder(reference);
    const seen = [await order()];
    for (let step = 0; step < 3; step += 1) {
      await target.test.client.advanceTestOrder(reference);
      seen.push(await order());
    }
    expect(seen.map(({ status }) => status)).toEqual(STEPS);
    const versions = seen.map(({ updatedAt }) => parseInstant(updatedAt));
    expect(versions).toEqual(versions.toSorted((left, right) => (left < right ? -1 : 1)));
    const real = seen.map(({ realPickupTime }) => tryParseInstant(realPickupTime));
    expect(real).toEqual([undefined, undefined, expect.any(BigInt), real[2]]);
    expect(seen.flatMap(({ realDeliveryTime }) => tryParseInstant(realDeliveryTime) ?? [])).toEqual([]);
  });

  it("reaches a last status and stays there", async () => {
    const reference = await createAt("arrived_for_delivery");
    let answer = await target.test.ask("POST", `/v1/test/orders/${reference}/advance`);
    for (let steps = 0; answer.status < 400 && steps < 10; steps += 1) {
      answer = await target.test.ask("POST", `/v1/test/orders/${reference}/advance`);
    }
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(await statusOf(reference)).not.toBe("cancelled");
  });

  it("leaves a cancelled order cancelled", async () => {
    const reference = await createAt("created");
    await target.test.client.cancelOrder(reference);
    const answer = await target.test.ask("POST", `/v1/test/orders/${reference}/advance`);
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
    expect(await statusOf(reference)).toBe("cancelled");
  });

  it("404 for an unknown order or another organization's order", async () => {
    const reference = await createAt("created");
    await expect(target.test.client.advanceTestOrder("no-such-order")).rejects.toMatchObject({ status: 404 });
    await expect(target.other.client.advanceTestOrder(reference)).rejects.toMatchObject({ status: 404 });
    expect(await statusOf(reference)).toBe("created");
  });

  it("does not advance a live order, with either key", async () => {
    const { reference } = await target.live.client.createOrder(orderFor(target.world));
    for (const caller of [target.live, target.test]) {
      const answer = await caller.ask("POST", `/v1/test/orders/${reference}/advance`);
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.status).toBeLessThan(500);
    }
    const read = await target.live.client.getOrder(reference);
    expect(read.status).toBe("created");
  });
});

describe("cancellation by the business", () => {
  const { branch, ownFleetBranch } = target.world;
  it.each([
    ...STEPS.map(
      (status) => [status, branch, status === "created" || status === "arrived_for_pickup"] as const,
    ),
    ...STEPS.map((status) => [status, ownFleetBranch, true] as const),
  ])("at %s, of the branch %s, is possible: %s", async (status, branch, isPossible) => {
    const reference = await createAt(status, { branch });
    const answer = await target.test.ask("POST", `/v1/orders/${reference}/cancel`);
    expect([answer.status, answer.code]).toEqual(
      isPossible ? [200, undefined] : [422, "order_not_cancellable"],
    );
    expect(await statusOf(reference)).toBe(isPossible ? "cancelled" : status);
  });

  it.each([branch, ownFleetBranch])("is refused after the last step: %s", async (branch) => {
    const reference = await createAt("arrived_for_delivery", { branch });
    const { status } = await target.test.ask("POST", `/v1/test/orders/${reference}/advance`);
    // The spec does not show whether there is a step after arrived_for_delivery.
    const expected = status < 400 || branch !== ownFleetBranch ? 422 : 200;
    expect((await target.test.ask("POST", `/v1/orders/${reference}/cancel`)).status).toBe(expected);
  });
});

describe("cancellation by the fleet", () => {
  it.each(STEPS)("is possible at %s, and the order remains readable", async (status) => {
    const { live, world } = target;
    const { reference } = await live.client.createOrder(orderFor(world));
    for (let steps = STEPS.indexOf(status); steps > 0; steps -= 1)
      await target.steer("POST", `/orders/${reference}/step`);
    expect((await live.client.getOrder(reference)).status).toBe(status);
    await target.steer("POST", `/orders/${reference}/cancel`);
    expect((await live.client.getOrder(reference)).status).toBe("cancelled");
    await expect(live.client.cancelOrder(reference)).rejects.toMatchObject({ code: "order_not_cancellable" });
  });

  it("is not possible twice", async () => {
    const { live, world } = target;
    const { reference } = await live.client.createOrder(orderFor(world));
    await live.client.cancelOrder(reference);
    const { updatedAt } = await live.client.getOrder(reference);
    await expect(target.steer("POST", `/orders/${reference}/cancel`)).rejects.toThrow(
      "order_not_cancellable",
    );
    expect((await live.client.getOrder(reference)).updatedAt).toBe(updatedAt);
  });
});
