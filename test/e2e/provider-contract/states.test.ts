import { afterAll, describe, expect, it } from "vitest";
import { parseInstant, tryParseInstant } from "../../../src/domain/order/instant.ts";
import { isRefused, openTarget, orderFor } from "../../support/contract/contractTarget.ts";

/** The spec, "States and transitions", and "POST /v1/test/orders/{reference}/advance". */
const target = await openTarget();
const { live, test, other, world, steer } = target;
afterAll(() => target.close());

const STEPS = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery"];

async function createAt(status: string, fields: { branch?: string } = {}): Promise<string> {
  const { reference } = await test.client.createOrder(orderFor(fields));
  for (let steps = STEPS.indexOf(status); steps > 0; steps -= 1) {
    await test.client.advanceTestOrder(reference);
  }
  expect(await statusOf(reference)).toBe(status);
  return reference;
}

const statusOf = async (reference: string) => (await test.client.getOrder(reference)).status;

describe("POST /v1/test/orders/{reference}/advance", () => {
  it("accepts the externalOrderId as well", async () => {
    const order = orderFor();
    await test.client.createOrder(order);
    await test.client.advanceTestOrder(order.externalOrderId);
    expect(await statusOf(order.externalOrderId)).toBe("arrived_for_pickup");
  });

  it("moves a test order through the statuses in sequence, with updatedAt and the actual times", async () => {
    const reference = await createAt("created");
    const order = async () => await test.client.getOrder(reference);
    const seen = [await order()];
    for (let step = 0; step < 3; step += 1) {
      await test.client.advanceTestOrder(reference);
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
    let answer = await test.ask("POST", `/v1/test/orders/${reference}/advance`);
    for (let steps = 0; answer.status < 400 && steps < 10; steps += 1) {
      answer = await test.ask("POST", `/v1/test/orders/${reference}/advance`);
    }
    expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
    expect(await statusOf(reference)).not.toBe("cancelled");
  });

  it("leaves a cancelled order cancelled", async () => {
    const reference = await createAt("created");
    await test.client.cancelOrder(reference);
    const answer = await test.ask("POST", `/v1/test/orders/${reference}/advance`);
    expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
    expect(await statusOf(reference)).toBe("cancelled");
  });

  it("404 for an unknown order or another organization's order", async () => {
    const reference = await createAt("created");
    await expect(test.client.advanceTestOrder("no-such-order")).rejects.toMatchObject({ status: 404 });
    await expect(other.client.advanceTestOrder(reference)).rejects.toMatchObject({ status: 404 });
    expect(await statusOf(reference)).toBe("created");
  });

  it("does not advance a live order, with either key", async () => {
    const { reference } = await live.client.createOrder(orderFor());
    for (const caller of [live, test]) {
      const answer = await caller.ask("POST", `/v1/test/orders/${reference}/advance`);
      expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
    }
    const read = await live.client.getOrder(reference);
    expect(read.status).toBe("created");
  });
});

describe("cancellation by the business", () => {
  const { branch, ownFleetBranch } = world;
  it.each([
    ...STEPS.map(
      (status) => [status, branch, status === "created" || status === "arrived_for_pickup"] as const,
    ),
    ...STEPS.map((status) => [status, ownFleetBranch, true] as const),
  ])("at %s, of the branch %s, is possible: %s", async (status, branch, isPossible) => {
    const reference = await createAt(status, { branch });
    const answer = await test.ask("POST", `/v1/orders/${reference}/cancel`);
    expect([answer.status, answer.code]).toEqual(
      isPossible ? [200, undefined] : [422, "order_not_cancellable"],
    );
    expect(await statusOf(reference)).toBe(isPossible ? "cancelled" : status);
  });

  it.each([branch, ownFleetBranch])("is refused after the last step: %s", async (branch) => {
    const reference = await createAt("arrived_for_delivery", { branch });
    const { status } = await test.ask("POST", `/v1/test/orders/${reference}/advance`);
    // The spec does not show whether there is a step after arrived_for_delivery.
    const expected = status < 400 || branch !== ownFleetBranch ? 422 : 200;
    expect((await test.ask("POST", `/v1/orders/${reference}/cancel`)).status).toBe(expected);
  });
});

describe("cancellation by the fleet", () => {
  it.each(STEPS)("is possible at %s, and the order remains readable", async (status) => {
    const { reference } = await live.client.createOrder(orderFor());
    for (let steps = STEPS.indexOf(status); steps > 0; steps -= 1)
      await steer("POST", `/orders/${reference}/step`);
    expect((await live.client.getOrder(reference)).status).toBe(status);
    await steer("POST", `/orders/${reference}/cancel`);
    expect((await live.client.getOrder(reference)).status).toBe("cancelled");
    await expect(live.client.cancelOrder(reference)).rejects.toMatchObject({ code: "order_not_cancellable" });
  });

  it("is not possible twice", async () => {
    const { reference } = await live.client.createOrder(orderFor());
    await live.client.cancelOrder(reference);
    const { updatedAt } = await live.client.getOrder(reference);
    await expect(steer("POST", `/orders/${reference}/cancel`)).rejects.toThrow("order_not_cancellable");
    expect((await live.client.getOrder(reference)).updatedAt).toBe(updatedAt);
  });
});
