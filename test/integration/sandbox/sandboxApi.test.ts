import { randomBytes } from "node:crypto";
import { afterAll, describe, expect, it } from "vitest";
import { sendRaw } from "../../support/http/rawHttp.ts";
import {
  anAddress,
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
} from "../../support/providers/testSandbox.ts";

/** What the interface does where the contract suite, which knows only the spec, cannot look. */
const world = await makeTestSandbox({ clock: "virtual" });
afterAll(() => world.close());

const customer = (change: object = {}) => ({
  firstName: "Anna",
  phone: "+31 6 1234 5678",
  address: anAddress(),
  ...change,
});
const create = async (change: Record<string, unknown> = {}) =>
  (await world.ask("POST", "/v1/orders", { body: orderBody(change) })).json;
const quote = async () => (await world.ask("POST", "/v1/orders/quote", { body: orderBody() })).json;
const patch = (reference: string, body: object) => world.ask("PATCH", `/v1/orders/${reference}`, { body });
const step = (reference: string) => world.steer("POST", `/orders/${reference}/step`, {});

it.each<[number, string]>([
  [400, "this is no HTTP\r\n\r\n"],
  [400, "GET /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n"],
  [400, "GET /v1/orders HTTP/1.1\r\nConnection: close\r\n\r\n"],
  [431, `GET /v1/orders HTTP/1.1\r\nHost: a\r\nX-Long: ${"x".repeat(70_000)}\r\n\r\n`],
  [401, "GET /v1/orders HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nConnection: close\r\n\r\n"],
])(
  "answers %i with the rates and in JSON to what is no HTTP, or an expectation: %j",
  async (status, text) => {
    const answer = await sendRaw(world.sandbox.port, text);
    expect(answer.status).toBe(status);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "ratelimit-policy": expect.stringContaining('"sustained";q=200;w=10') as string,
      ratelimit: expect.stringContaining('"sustained";r=200') as string,
      "content-type": "application/json; charset=utf-8",
    });
    expect(JSON.parse(answer.body)).toMatchObject({
      error: { code: expect.any(String), message: expect.any(String) },
      request_id: expect.stringMatching(/^req_/),
    });
  },
);

it("refuses a body that is not JSON, lacks a field, is too long, or is not valid text", async () => {
  const bodies: [string, number][] = [
    ["{", 400],
    ["", 422],
    ["[]", 422],
    [JSON.stringify(orderBody({ branch: 7 })), 422],
    // No path can contain these.
    ...["", ".", ".."].map((id): [string, number] => [
      JSON.stringify(orderBody({ externalOrderId: id })),
      422,
    ]),
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
  expect(await create({ externalOrderId: null, zoneCode: null })).toMatchObject({ externalOrderId: null });
});

// Those that are good, corrected, not found, ambiguous or vague in the usual way: the contract suite.
it.each<[object, object]>([
  [
    { street: "Javastr. 3", city: "ámsterdam", postcode: "1094HD" },
    { street: "Javastraat 3", city: "Amsterdam" },
  ],
  [{ street: "Overtoom 12-a" }, { street: "Overtoom 12-A" }],
  // Of a unique street the postcode is corrected; of one that exists twice it decides.
  [{ postcode: "9999 ZZ" }, { postcode: "1054 HN" }],
  [{ street: "Kerkstraat 12", postcode: "1097 jm" }, { postcode: "1097 JM" }],
])("finds the address %j as %j", async (given, normalized) => {
  const { json } = await world.ask("POST", "/v1/addresses/validate", { body: { ...anAddress(), ...given } });
  expect(json).toMatchObject({ valid: true, normalized });
});

it.each<[string, object]>([
  ["address_ambiguous", { street: "Kerkstraat 12" }],
  ["address_low_confidence", { street: "Overtoom" }],
  ["address_low_confidence", { street: "Overtoom 0" }],
  ["address_low_confidence", { street: "Overtom 12" }],
  ["address_not_found", { city: "Utrecht" }],
  ["address_not_found", { street: "", city: "", postcode: "" }],
])("answers %s for %j", async (reason, given) => {
  const { json } = await world.ask("POST", "/v1/addresses/validate", { body: { ...anAddress(), ...given } });
  expect(json).toMatchObject({ valid: false, reason });
});

it.each([["x".repeat(5_000)], ["Nergensweg\u0000 12"], ["\ud800"]])(
  "an address that an order cannot hold is checked with 200, and refused: %j",
  async (street) => {
    const address = anAddress({ street, postcode: "9999 ZZ" });
    const checked = await world.ask("POST", "/v1/addresses/validate", { body: address });
    expect(checked).toMatchObject({ status: 200, json: { valid: false, reason: "address_not_found" } });
    expect((await create({ customer: customer({ address }) })).error.code).toBe("invalid_request");
  },
);

it("finds an order by its reference rather than by another's externalOrderId", async () => {
  const { reference } = await create();
  await create({ externalOrderId: reference });
  expect((await world.ask("GET", `/v1/orders/${reference}`)).json.externalOrderId).toBe(null);
});

// Waits that meet every moment of the time for which a quote holds.
it.each([1, 30, 100])("quotes the times of an order made a second later, at speed %i", async (speed) => {
  const other = await makeTestSandbox({ clock: "virtual", speed });
  const body = { body: orderBody() };
  for (let count = 0; count < 22; count += 1) {
    const quoted = (await other.ask("POST", "/v1/orders/quote", body)).json;
    await other.sandbox.advance(1_000);
    const order = (await other.ask("POST", "/v1/orders", body)).json;
    expect(order.schedule.resolved).toEqual(quoted.schedule.resolved);
    await other.sandbox.advance((count * 1_370) % 15_000);
  }
  await other.close();
});

it("couriers must work at both times, by the local day, which has busy hours", async () => {
  const { resolved } = (await quote()).schedule;
  const [pickup = 0, delivery = 0] = [resolved.pickupTime, resolved.deliveryTime].map(
    (time: string) => Number(time.slice(11, 13)) * 60 + Number(time.slice(14, 16)),
  );
  const setShifts = (...shifts: [number, number][]) =>
    world.steer("POST", "/zones/AMS-C", {
      shifts: shifts.map(([fromMinute, untilMinute]) => ({ fromMinute, untilMinute })),
    });
  for (const shifts of [[], [[pickup + 1, 1_440]], [[0, delivery]]] as [number, number][][]) {
    await setShifts(...shifts);
    expect((await create()).error.code).toBe("no_shift_coverage");
  }
  await setShifts([pickup, pickup + 1], [delivery, delivery + 1]);
  expect(await create()).toMatchObject({ schedule: { resolved: { ...resolved, basis: "asap" } } });
  await setShifts([0, 1_440]);
  // From nine to twelve.
  await world.sandbox.advance(3 * 3_600_000);
  expect((await quote()).schedule.resolved.basis).toBe("busy_hours");
});

describe("a change of an order", () => {
  const phone = "+31 6 8765 4321";
  it.each<[string, object]>([
    ["alone", { phone }],
    ["with the address", { phone, address: anAddress() }],
    ["with the address in other words", { phone, address: { ...anAddress(), street: "  OVERTOOM  12" } }],
    ["with a part of the address", { phone, address: { postcode: "1054hn" } }],
  ])("of the phone %s moves no time; of the place it does", async (_, change) => {
    const before = await create();
    await world.sandbox.advance(3_600_000);
    const after = (await patch(before.reference, { customer: change })).json;
    expect(after.customer.phone).toBe(phone);
    expect([after.pickupTime, after.deliveryTime]).toEqual([before.pickupTime, before.deliveryTime]);
    const moved = { address: anAddress({ street: "Keizersgracht 12", postcode: "1015 CJ" }) };
    expect((await patch(before.reference, { customer: moved })).json.pickupTime).not.toBe(before.pickupTime);
  });

  it("is checked and routed as a creation, until the courier has the goods", async () => {
    const { reference } = await create({ zoneCode: "AMS-W" });
    const nowhere = customer({ address: { street: "Nowhere 1", city: "Atlantis", postcode: "0" } });
    const bad = await patch(reference, { customer: nowhere });
    expect([bad.status, bad.json.error.code]).toEqual([422, "address_not_found"]);
    await step(reference);
    const moved = (await patch(reference, { branch: "utrecht" })).json;
    expect(moved).toMatchObject({ status: "arrived_for_pickup", zone: { code: "UTR-1" } });
    await step(reference);
    const late = await patch(reference, { zoneCode: "UTR-1" });
    expect([late.status, late.json.error.code]).toEqual([422, "order_not_changeable"]);
  });
});

it("refuses a test endpoint with the address or the secret of the live one", async () => {
  const [first, second] = [0, 1].map(() => `whsec_${randomBytes(32).toString("base64")}`);
  const live = { mode: "live", url: "http://127.0.0.1:9/live", secret: first };
  const test = { mode: "test", url: "http://127.0.0.1:9/test", secret: second };
  await world.steer("POST", "/webhooks", live);
  for (const shared of [{ url: live.url }, { secret: first }])
    await expect(world.steer("POST", "/webhooks", { ...test, ...shared })).rejects.toThrow(/422/);
  await world.steer("POST", "/webhooks", test);
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
  await expect(other.steer("POST", "/clock", { advanceMs: 1 })).rejects.toThrow("409");
  const refusal = (await other.ask("GET", "/v1/orders/nobody")).json;
  expect(Object.keys(refusal).toSorted()).toEqual(["code", "message", "request_id"]);
  expect((await other.ask("GET", "/v1/orders?limit=500")).json.limit).toBe(200);
  const { reference, ...order } = (await other.ask("POST", "/v1/orders", { body: orderBody() })).json;
  expect(order).not.toHaveProperty("branch");
  await other.ask("PATCH", `/v1/orders/${reference}`, { body: { customer: { phone: "5" } } });
  for (let count = 0; count < 3; count += 1) await other.steer("POST", `/orders/${reference}/step`);
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
