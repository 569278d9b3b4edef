import { afterEach, describe, expect, it } from "vitest";
import type { SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { sendRaw } from "../../support/http/rawHttp.ts";
import {
  anAddress,
  makeTestSandbox,
  orderBody,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
afterEach(() => world.close());
const open = async (options: Partial<SandboxOptions> = {}) =>
  (world = await makeTestSandbox({ clock: "virtual", ...options }));

it.each<[number, string]>([
  [400, "this is no HTTP\r\n\r\n"],
  [400, "GET /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n"],
  [400, "GET /v1/orders HTTP/1.1\r\nConnection: close\r\n\r\n"],
  [431, `GET /v1/orders HTTP/1.1\r\nHost: a\r\nX-Long: ${"x".repeat(70_000)}\r\n\r\n`],
])("answers %i with the rates and in JSON to what is no HTTP", async (status, text) => {
  await open();
  const answer = await sendRaw(world.sandbox.port, text);
  expect(answer.status).toBe(status);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "ratelimit-policy": '"sustained";q=200;w=10',
    ratelimit: expect.stringContaining('"sustained";r=200') as string,
    "content-type": "application/json; charset=utf-8",
  });
  expect(JSON.parse(answer.body)).toMatchObject({
    error: { code: expect.any(String), message: expect.any(String) },
    request_id: expect.stringMatching(/^req_/),
  });
});

it("answers a request with an expectation as any other", async () => {
  await open();
  const head = "GET /v1/orders HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nConnection: close\r\n\r\n";
  const answer = await sendRaw(world.sandbox.port, head);
  expect(answer.status).toBe(401);
  expect(answer.headers.get("ratelimit")).toContain('"sustained"');
});

// Waits that meet every moment of the time for which a quote holds.
it.each([1, 30, 100])("quotes the times of an order made a second later, at speed %i", async (speed) => {
  await open({ speed });
  const body = { body: orderBody() };
  for (let count = 0; count < 50; count += 1) {
    const quote = (await world.ask("POST", "/v1/orders/quote", body)).json;
    await world.sandbox.advance(1_000);
    const order = (await world.ask("POST", "/v1/orders", body)).json;
    expect(order.schedule.resolved).toEqual(quote.schedule.resolved);
    await world.sandbox.advance((count * 1_370) % 15_000);
  }
});

describe("a change of the phone", () => {
  const phone = "+31 6 8765 4321";
  it.each<[string, object]>([
    ["alone", { phone }],
    ["with the address", { phone, address: anAddress() }],
    ["with the address in other words", { phone, address: { ...anAddress(), street: "  OVERTOOM  12" } }],
    ["with a part of the address", { phone, address: { postcode: "1054hn" } }],
  ])("%s moves no time", async (_, customer) => {
    await open();
    const before = (await world.ask("POST", "/v1/orders", { body: orderBody() })).json;
    await world.sandbox.advance(3_600_000);
    const path = `/v1/orders/${before.reference}`;
    const after = (await world.ask("PATCH", path, { body: { customer } })).json;
    expect(after.customer.phone).toBe(phone);
    expect([after.pickupTime, after.deliveryTime]).toEqual([before.pickupTime, before.deliveryTime]);
    const moved = { customer: { address: anAddress({ street: "Keizersgracht 12", postcode: "1015 CJ" }) } };
    expect((await world.ask("PATCH", path, { body: moved })).json.pickupTime).not.toBe(before.pickupTime);
  });
});

describe("through its control", () => {
  it("keys are made and revoked", async () => {
    await open();
    const { apiKey: key } = await world.steer("POST", "/keys", { mode: "test" });
    expect(key).toMatch(/^dos_test_/);
    const made = await world.ask("POST", "/v1/orders", { key, body: orderBody() });
    expect(made.json.livemode).toBe(false);
    await world.steer("POST", `/keys/${key}/revoke`);
    expect((await world.ask("GET", "/v1/orders", { key })).json.error.code).toBe("invalid_api_key");
    await expect(world.steer("POST", `/keys/${key}/revoke`)).rejects.toThrow("404");
    expect(
      (await world.ask("GET", `/v1/orders/${made.json.reference}`, { key: "dos_test_sandbox" })).status,
    ).toBe(200);
  });

  it("a zone loses its shifts, and gets them back", async () => {
    await open();
    const order = async () => (await world.ask("POST", "/v1/orders", { body: orderBody() })).json;
    await world.steer("POST", "/zones/AMS-C", { shifts: [] });
    expect((await order()).error.code).toBe("no_shift_coverage");
    await world.steer("POST", "/zones/AMS-C", { shifts: [{ fromMinute: 0, untilMinute: 1_440 }] });
    expect((await order()).status).toBe("created");
  });

  it("a branch loses its coordinates, and gets them back", async () => {
    await open();
    const order = async () => (await world.ask("POST", "/v1/orders", { body: orderBody() })).json;
    const { distance } = (await world.ask("POST", "/v1/orders/quote", { body: orderBody() })).json;
    await world.steer("POST", "/branches/centrum", { located: false });
    expect((await order()).error.code).toBe("branch_not_located");
    await world.steer("POST", "/branches/centrum", { located: true });
    expect((await world.ask("POST", "/v1/orders/quote", { body: orderBody() })).json.distance).toBe(distance);
  });

  it("a fault hits one endpoint alone, and ends", async () => {
    await open();
    const statuses = async () => {
      const paths = ["/v1/branches", "/v1/orders", "/v1/orders/none"];
      return Promise.all(paths.map(async (path) => (await world.ask("GET", path)).status));
    };
    await world.steer("POST", "/faults", { failShare: 1, onlyEndpoint: "listOrders" });
    expect(await statuses()).toEqual([200, 503, 404]);
    await world.steer("POST", "/faults", { failShare: 0 });
    expect(await statuses()).toEqual([200, 200, 404]);
  });
});
