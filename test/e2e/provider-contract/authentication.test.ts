import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTarget, orderFor, type ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "Authentication". */
let target: ContractTarget;
let reference: string;
beforeAll(async () => {
  target = await openTarget();
  const { snapshot } = await target.test.client.createOrder(orderFor(target.world));
  reference = snapshot.fields.reference;
});
afterAll(() => target.close());

const ENDPOINTS: [method: string, path: () => string, body: () => unknown][] = [
  ["POST", () => "/v1/orders", () => orderFor(target.world)],
  ["POST", () => "/v1/orders/quote", () => orderFor(target.world)],
  ["GET", () => `/v1/orders/${reference}`, () => undefined],
  ["GET", () => "/v1/orders", () => undefined],
  ["POST", () => `/v1/orders/${reference}/cancel`, () => undefined],
  ["POST", () => `/v1/test/orders/${reference}/advance`, () => undefined],
  ["POST", () => "/v1/addresses/validate", () => target.world.addresses.valid],
  ["GET", () => "/v1/branches", () => undefined],
];
const named = ENDPOINTS.map(([method, path, body]) => {
  const text = String(path()).replace("undefined", "{reference}");
  return [`${method} ${text}`, method, path, body] as const;
});

describe.each(named)("%s", (_, method, path, body) => {
  it("requires a key: 401 invalid_api_key without one, with an unknown one and with an empty one", async () => {
    for (const apiKey of [null, "dos_test_unknown", "dos_live_unknown", "", `${target.test.apiKey}x`]) {
      const answer = await target.as(apiKey).ask(method, path(), body());
      expect([apiKey, answer.status, answer.code]).toEqual([apiKey, 401, "invalid_api_key"]);
    }
  });

  it("requires the key as Bearer", async () => {
    for (const authorization of [target.test.apiKey, `Basic ${btoa(`${target.test.apiKey}:`)}`]) {
      const response = await fetch(target.baseUrl + path(), { method, headers: { authorization } });
      expect(response.status).toBe(401);
      await response.body?.cancel();
    }
  });

  it("does not accept the key in the address", async () => {
    const query = new URLSearchParams({ api_key: target.test.apiKey, access_token: target.test.apiKey });
    const answer = await target.as(null).ask(method, `${path()}?${query.toString()}`, body());
    expect(answer.status).toBe(401);
  });
});

it("a refused key changes nothing", async () => {
  const { snapshot } = await target.test.client.getOrder(reference);
  expect(snapshot.fields.status).toBe("created");
});

describe("the key's prefix decides the mode", () => {
  it("test and live keys do not see each other's orders", async () => {
    await expect(target.live.client.getOrder(reference)).rejects.toMatchObject({ code: "order_not_found" });
    const { elements } = await target.live.client.listOrders({ limit: 200 });
    expect(elements.some(({ raw }) => raw.includes(reference))).toBe(false);
  });

  it("the same externalOrderId may be used in both modes", async () => {
    const order = orderFor(target.world);
    const inTest = (await target.test.client.createOrder(order)).readOrder();
    const inLive = (await target.live.client.createOrder(order)).readOrder();
    expect([inTest.livemode, inLive.livemode]).toEqual([false, true]);
    const { readOrder } = await target.live.client.getOrder(order.externalOrderId ?? "");
    expect(readOrder().reference).toBe(inLive.reference);
  });
});

describe("keys belong to an organization", () => {
  it("another organization's key finds none of its orders", async () => {
    await expect(target.other.client.getOrder(reference)).rejects.toMatchObject({ code: "order_not_found" });
    await expect(target.other.client.cancelOrder(reference)).rejects.toMatchObject({
      code: "order_not_found",
    });
  });

  it("two keys of one organization and mode see the same", async () => {
    const second = target.as(target.world.keys.testSecond);
    expect((await second.client.getOrder(reference)).snapshot.fields.reference).toBe(reference);
    const order = orderFor(target.world);
    await target.test.client.createOrder(order);
    await expect(second.client.createOrder(order)).rejects.toMatchObject({
      code: "duplicate_external_order_id",
    });
  });
});
