import { afterAll, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";

/** The spec, "Authentication". Orders of the other mode or of others: orders.test.ts and listOrders.test.ts. */
const target = await openTarget();
const { live, test, as, world, baseUrl, testSecond } = target;
const { reference } = await test.client.createOrder(orderFor());
afterAll(() => target.close());

it.each<[method: string, path: string, body?: unknown]>([
  ["POST", "/v1/orders", orderFor()],
  ["POST", "/v1/orders/quote", orderFor()],
  ["GET", "/v1/orders/{reference}"],
  ["GET", "/v1/orders"],
  ["POST", "/v1/orders/{reference}/cancel"],
  ["POST", "/v1/test/orders/{reference}/advance"],
  ["POST", "/v1/addresses/validate", world.addresses.valid],
  ["GET", "/v1/branches"],
])("%s %s requires a known key, as Bearer and not in the address", async (method, template, body) => {
  const path = template.replace("{reference}", reference);
  for (const apiKey of [null, "dos_test_unknown", "dos_live_unknown", "", `${test.apiKey}x`]) {
    const answer = await as(apiKey).ask(method, path, body);
    expect([apiKey, answer.status, answer.code]).toEqual([apiKey, 401, "invalid_api_key"]);
  }
  for (const authorization of [test.apiKey, `Basic ${btoa(`${test.apiKey}:`)}`]) {
    const response = await fetch(baseUrl + path, { method, headers: { authorization } });
    expect(response.status).toBe(401);
    await response.body?.cancel();
  }
  const query = new URLSearchParams({ api_key: test.apiKey, access_token: test.apiKey });
  expect((await as(null).ask(method, `${path}?${query.toString()}`, body)).status).toBe(401);
});

it("a refused key changes nothing", async () => {
  expect((await test.client.getOrder(reference)).status).toBe("created");
});

it("the key's prefix decides the mode, and the same externalOrderId may be used in both", async () => {
  const order = orderFor();
  const inTest = await test.client.createOrder(order);
  const inLive = await live.client.createOrder(order);
  expect([inTest.livemode, inLive.livemode]).toEqual([false, true]);
  const { reference: found } = await live.client.getOrder(order.externalOrderId);
  expect(found).toBe(inLive.reference);
});

it("two keys of one organization and mode see the same", async () => {
  const second = testSecond;
  expect((await second.client.getOrder(reference)).reference).toBe(reference);
  const order = orderFor();
  await test.client.createOrder(order);
  const repeated = second.client.createOrder(order);
  await expect(repeated).rejects.toMatchObject({ code: "duplicate_external_order_id" });
});
