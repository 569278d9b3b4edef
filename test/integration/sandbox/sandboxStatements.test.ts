import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  anAddress,
  LIVE,
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  TEST,
} from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";
import { sendRaw } from "../../support/http/rawHttp.ts";

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
const patch = (reference: string, body: unknown) => world.ask("PATCH", `/v1/orders/${reference}`, { body });

describe("an address that cannot be searched for", () => {
  it.each([["x".repeat(256)], ["Overtoom\u0000 12"], ["\ud800"]])(
    "is checked with 200, and refused as not found: %j",
    async (street) => {
      const address = anAddress({ street });
      const checked = await world.ask("POST", "/v1/addresses/validate", { body: address });
      expect(checked).toMatchObject({ status: 200, json: { valid: false, reason: "address_not_found" } });
      const body = orderBody({ customer: customer({ address }) });
      expect(await world.ask("POST", "/v1/orders", { body })).toMatchObject({
        status: 422,
        json: { error: { code: "address_not_found" } },
      });
    },
  );

  it("gets the same answer for the first and later requests", async () => {
    const body = anAddress({ street: "Overtoom 77" });
    const [first, second] = [
      await world.ask("POST", "/v1/addresses/validate", { body }),
      await world.ask("POST", "/v1/addresses/validate", { body }),
    ];
    expect(second.text.replace(/req_\w+/, "")).toBe(first.text.replace(/req_\w+/, ""));
  });
});

describe("endpoints and keys", () => {
  it("refuses a test endpoint with the address or the secret of the live one", async () => {
    const [first, second] = [0, 1].map(() => `whsec_${randomBytes(32).toString("base64")}`);
    const live = { mode: "live", url: "http://127.0.0.1:9/live", secret: first };
    await world.steer("POST", "/webhooks", live);
    for (const shared of [
      { url: live.url, secret: second },
      { url: "http://127.0.0.1:9/test", secret: live.secret },
    ])
      await expect(world.steer("POST", "/webhooks", { mode: "test", ...shared })).rejects.toThrow(/422/);
    await world.steer("POST", "/webhooks", {
      mode: "test",
      url: "http://127.0.0.1:9/test",
      secret: second,
    });
  });

  it("creates a different key for each request without a name", async () => {
    const made = [];
    for (let count = 0; count < 3; count += 1)
      made.push((await world.steer("POST", "/keys", { mode: "test" })).apiKey);
    expect(new Set(made).size).toBe(3);
    for (const key of made) expect((await world.ask("GET", "/v1/branches", { key })).status).toBe(200);
  });
});

it("quotes the times of the order created next, at any fleet speed", async () => {
  for (const speed of [1, 20, 30, 300]) {
    const fast = await makeTestSandbox({ speed, clock: "virtual" });
    for (let trial = 0; trial < 8; trial += 1) {
      const body = orderBody({
        customer: customer({ address: anAddress({ street: `Overtoom ${trial + 1}` }) }),
      });
      const quoted = (await fast.ask("POST", "/v1/orders/quote", { body })).json;
      await fast.sandbox.advance(7_100);
      const created = (await fast.ask("POST", "/v1/orders", { body })).json;
      expect({ speed, ...created.schedule.resolved }).toEqual({ speed, ...quoted.schedule.resolved });
    }
    await fast.close();
  }
});

it("refuses identifiers that no path can contain, and accepts null for optional fields", async () => {
  for (const externalOrderId of [".", "..", ""])
    expect((await create({ externalOrderId })).error.code).toBe("invalid_request");
  expect(await create({ externalOrderId: null, zoneCode: null })).toMatchObject({ externalOrderId: null });
});

it("creates its own orders despite a caller's identifiers of the same form", async () => {
  const [first] = (await world.steer("POST", "/orders", {})).references;
  const { order } = await world.steer("GET", `/orders/${first}`);
  const number = Number(order.externalOrderId.slice(4));
  for (const ahead of [2, 3, 5])
    await create({ externalOrderId: `WEB-${String(number + ahead + 3).padStart(6, "0")}` });
  expect((await world.steer("POST", "/orders", { count: 8 })).references).toHaveLength(8);
});

describe("changing an order", () => {
  it("accepts part of the customer, and keeps the times when the place is unchanged", async () => {
    const before = await create({ customer: customer({ address: anAddress({ street: "overtoom  12" }) }) });
    const other = await patch(before.reference, { customer: { phone: "3" } });
    expect(other).toMatchObject({ status: 200, json: { customer: { firstName: "Anna", phone: "3" } } });
    const again = await patch(before.reference, {
      customer: { phone: "4", address: anAddress({ street: "overtoom  12" }) },
    });
    expect(again.json).toMatchObject({ customer: { phone: "4" }, schedule: before.schedule });
    const moved = await patch(before.reference, { customer: { address: { street: "Overtoom 200" } } });
    expect(moved.json.customer.address).toEqual({ ...before.customer.address, street: "Overtoom 200" });
  });

  it("accepts new coordinates of the same address", async () => {
    const before = await create();
    const coordinates = { latitude: 52.3, longitude: 4.7 };
    const { json } = await patch(before.reference, { customer: { address: { coordinates } } });
    expect(json.customer.address).toEqual(before.customer.address);
    expect(json.deliveryTime).not.toBe(before.deliveryTime);
  });
});

it("refuses an order whose delivery is outside all shifts", async () => {
  const night = await makeTestSandbox({ clock: "virtual" });
  // Local time is 9:00: the pickup is between 9:10 and 9:25, the delivery over this distance later.
  const order = orderBody({
    customer: customer({ address: { ...anAddress(), coordinates: { latitude: 52.0, longitude: 5.8 } } }),
  });
  await night.steer("POST", "/zones/AMS-C", { shifts: [{ from: "08:00", until: "09:40" }] });
  expect((await night.ask("POST", "/v1/orders", { body: order })).json.error.code).toBe("no_shift_coverage");
  expect((await night.ask("POST", "/v1/orders", { body: orderBody() })).status).toBe(201);
  await night.close();
});

it.each([
  ["what is not HTTP", "GARBAGE\r\n\r\n", 400],
  [
    "headers that are too large",
    `GET /v1/orders HTTP/1.1\r\nHost: x\r\nX-Large: ${"x".repeat(20_000)}\r\n\r\n`,
    431,
  ],
])("answers %s with rate headers and a request_id", async (_name, bytes, status) => {
  const answer = await sendRaw(world.sandbox.port, bytes);
  expect(answer.status).toBe(status);
  expect(answer.headers.get("ratelimit-policy")).toBe('"sustained";q=200;w=10');
  expect(answer.headers.get("ratelimit")).toMatch(/^"sustained";r=200;t=\d+$/);
  expect(JSON.parse(answer.body)).toMatchObject({
    error: { code: "invalid_request" },
    request_id: expect.stringMatching(/^req_/) as string,
  });
});

it("adds organizations, zones and branches that accept orders", async () => {
  await world.steer("POST", "/organizations", { organization: "nieuw", plan: "advanced" });
  await world.steer("POST", "/zones", { zone: "GRN-1", fleet: "Noordfiets" });
  const branch = {
    organization: "nieuw",
    name: "Nieuw",
    reference: "nieuw",
    ...anAddress(),
    zones: ["GRN-1"],
  };
  await world.steer("POST", "/branches", branch);
  const { apiKey: key } = await world.steer("POST", "/keys", { organization: "nieuw", mode: "live" });
  const { json } = await world.ask("GET", "/v1/branches", { key });
  expect(json.data).toMatchObject([
    { reference: "nieuw", routesTo: { fleet: { name: "Noordfiets" }, zone: { code: "GRN-1" } } },
  ]);
  const body = orderBody({ branch: "nieuw" });
  expect(await world.ask("POST", "/v1/orders", { key, body })).toMatchObject({ status: 201 });
  for (const other of [LIVE, TEST])
    expect((await world.ask("POST", "/v1/orders", { key: other, body })).status).toBe(422);
  for (const [path, taken] of [
    ["/organizations", { organization: "nieuw" }],
    ["/zones", { zone: "GRN-1", fleet: "x" }],
    ["/branches", branch],
  ] as const)
    await expect(world.steer("POST", path, taken)).rejects.toThrow(/409/);
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
  expect([first.data.length, first.hasMore, second.data[0].id === first.data[0].id]).toEqual([
    2,
    true,
    false,
  ]);
  await other.close();
});
