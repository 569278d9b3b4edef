import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  anAddress,
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

/** Statements of the spec that the sandbox once violated. */
let world: TestSandbox;
beforeAll(async () => {
  world = await makeTestSandbox();
});
afterAll(() => world.close());

const customer = (change: Record<string, unknown> = {}) => ({
  firstName: "Anna",
  phone: "+31 6 1234 5678",
  address: anAddress(),
  ...change,
});
const create = async (change: Record<string, unknown> = {}) =>
  (await world.ask("POST", "/v1/orders", { body: orderBody(change) })).json;

it.each([["x".repeat(5_000)], ["Nergensweg\u0000 12"], ["\ud800"]])(
  "an address that an order cannot hold is checked with 200, and refused: %j",
  async (street) => {
    const address = anAddress({ street, postcode: "9999 ZZ" });
    const checked = await world.ask("POST", "/v1/addresses/validate", { body: address });
    expect(checked).toMatchObject({ status: 200, json: { valid: false, reason: "address_not_found" } });
    const body = orderBody({ customer: customer({ address }) });
    expect(await world.ask("POST", "/v1/orders", { body })).toMatchObject({
      status: 422,
      json: { error: { code: "invalid_request" } },
    });
  },
);

it("refuses a test endpoint with the address or the secret of the live one", async () => {
  const [first, second] = [0, 1].map(() => `whsec_${randomBytes(32).toString("base64")}`);
  const live = { mode: "live", url: "http://127.0.0.1:9/live", secret: first };
  await world.steer("POST", "/webhooks", live);
  for (const shared of [
    { url: live.url, secret: second },
    { url: "http://127.0.0.1:9/test", secret: live.secret },
  ])
    await expect(world.steer("POST", "/webhooks", { mode: "test", ...shared })).rejects.toThrow(/422/);
  const good = { url: "http://127.0.0.1:9/test", secret: second };
  await world.steer("POST", "/webhooks", { mode: "test", ...good });
});

it("refuses identifiers that no path can contain, and accepts null for optional fields", async () => {
  for (const externalOrderId of [".", "..", ""])
    expect((await create({ externalOrderId })).error.code).toBe("invalid_request");
  expect(await create({ externalOrderId: null, zoneCode: null })).toMatchObject({ externalOrderId: null });
});

it("decides what the spec leaves open as configured", async () => {
  const hook = await receiveEvents();
  const other = await makeTestSandbox({
    decisions: {
      errorShape: "flat",
      largeLimit: "capped",
      changeEvents: "sent",
      announced: "shown",
      orderFields: "shown",
      branchPages: "several",
    },
    webhooks: { live: { url: hook.url, secret: SANDBOX_SECRET } },
  });
  const refusal = (await other.ask("GET", "/v1/orders/nobody")).json;
  expect(Object.keys(refusal).toSorted()).toEqual(["code", "message", "request_id"]);
  expect((await other.ask("GET", "/v1/orders?limit=500")).json.limit).toBe(200);
  const { reference, ...order } = (await other.ask("POST", "/v1/orders", { body: orderBody() })).json;
  expect(Object.keys(order)).not.toEqual(expect.arrayContaining(["branch"]));
  await other.ask("PATCH", `/v1/orders/${reference}`, { body: { customer: { phone: "5" } } });
  for (let step = 0; step < 3; step += 1) await other.steer("POST", `/orders/${reference}/step`);
  await other.sandbox.idle();
  await expect.poll(() => hook.received.length).toBe(3);
  expect(hook.received.map(({ event }) => String(event.type)).toSorted()).toEqual([
    "order.created",
    "order.picked_up",
    "order.updated",
  ]);
  const first = (await other.ask("GET", "/v1/branches")).json;
  const second = (await other.ask("GET", "/v1/branches?offset=2")).json;
  expect(first).toMatchObject({ data: { length: 2 }, hasMore: true });
  expect(second.data[0].id).not.toBe(first.data[0].id);
  await other.close();
});

it("checks the new address of a changed order, and refuses a change once the courier has the goods", async () => {
  const { reference } = await create();
  const nowhere = customer({ address: { street: "Nowhere 1", city: "Atlantis", postcode: "0" } });
  const bad = await world.ask("PATCH", `/v1/orders/${reference}`, { body: { customer: nowhere } });
  expect([bad.status, bad.json.error.code]).toEqual([422, "address_not_found"]);
  for (let count = 0; count < 2; count += 1) await world.steer("POST", `/orders/${reference}/step`, {});
  const late = await world.ask("PATCH", `/v1/orders/${reference}`, { body: { zoneCode: "AMS-W" } });
  expect([late.status, late.json.error.code]).toEqual([422, "order_not_changeable"]);
});

it("refuses a body that is not JSON, lacks a field, is too long, or is not valid text", async () => {
  const bodies: [string, number][] = [
    ["{", 400],
    ["", 422],
    ["[]", 422],
    [JSON.stringify(orderBody({ branch: 7 })), 422],
    [JSON.stringify(orderBody({ externalOrderId: "" })), 422],
    [JSON.stringify(orderBody({ externalOrderId: "x".repeat(256) })), 422],
    [JSON.stringify(orderBody({ externalOrderId: "a\0b" })), 422],
    [JSON.stringify(orderBody({ schedule: { mode: "someday" } })), 422],
    [JSON.stringify(orderBody({ filler: "x".repeat(70_000) })), 413],
  ];
  for (const [body, status] of bodies) {
    const answer = await world.ask("POST", "/v1/orders", { body });
    expect([answer.status, body.slice(0, 40)]).toEqual([status, body.slice(0, 40)]);
    expect(answer.json.request_id).toMatch(/^req_/);
  }
  expect(await create({ externalOrderId: "x".repeat(255) })).toMatchObject({ status: "created" });
});
