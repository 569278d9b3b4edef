import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SCENARIOS } from "../../../src/sandbox/control/scenarios.ts";
import { ask } from "../../support/http/serve.ts";
import {
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  TEST,
  type EventReceiver,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
let live: EventReceiver;
beforeEach(async () => {
  live = await receiveEvents();
  const webhooks = { live: { url: live.url, secret: SANDBOX_SECRET } };
  world = await makeTestSandbox({ clock: "virtual", webhooks });
});
afterEach(() => world.close());

const trigger = (name: string, given: object = {}) =>
  world.steer("POST", "/scenarios", { scenario: name, ...given });
const get = async (reference: string) => (await world.ask("GET", `/v1/orders/${reference}`)).json;
const aNewOrder = async (): Promise<string> => (await world.steer("POST", "/orders", {})).references[0];

describe("scenarios", () => {
  const ARRIVED = "order.arrived_for_pickup";
  const RECEIVED: Record<string, readonly string[]> = {
    "lost-webhook": [ARRIVED],
    "lost-cancellation": [],
    duplicate: [ARRIVED, ARRIVED, ARRIVED],
    "out-of-order": ["order.picked_up", ARRIVED],
  };
  it.each(SCENARIOS.map(({ name }) => name))(
    "%s happens to the named order, whatever share of events is lost",
    async (name) => {
      await world.steer("POST", "/faults", { loseShare: 1 });
      const reference = await aNewOrder();
      const report = await trigger(name, { reference });
      expect(report).toMatchObject({ scenario: name, reference, from: "created" });
      expect(report.expect.length).toBeGreaterThan(20);
      await world.sandbox.advance(4_000);
      expect((await get(reference)).status).toBe(report.to);
      expect(live.received.map(({ event }) => event.type)).toEqual(RECEIVED[name]);
    },
  );

  it("of a lost event leave a poll a minute to find the change, however fast the fleet is", async () => {
    await world.steer("POST", "/dials", { speed: 10_000 });
    const { reference } = await trigger("lost-webhook");
    await world.sandbox.advance(59_000);
    expect((await get(reference)).status).toBe("picked_up");
    await world.sandbox.advance(2_000);
    expect((await get(reference)).status).toBe("delivered");
  });

  it("reject an unknown name, order or field and an order that is too far along, and change nothing", async () => {
    const reference = await aNewOrder();
    await expect(trigger("lost-webhok", { reference })).rejects.toThrow(
      /404.*scenario_not_found.*lost-webhook/,
    );
    await expect(trigger("lost-webhook", { reference: "DO-00000000" })).rejects.toThrow("order_not_found");
    await expect(trigger("duplicate", { reference, copies: 3 })).rejects.toThrow("422");
    expect((await get(reference)).status).toBe("created");
    for (let count = 0; count < 3; count += 1) await world.steer("POST", `/orders/${reference}/step`, {});
    await expect(trigger("out-of-order", { reference })).rejects.toThrow("order_not_advanceable");
    expect((await get(reference)).status).toBe("arrived_for_delivery");
  });
});

describe("the page", () => {
  const submit = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    world.ask("POST", `/_sandbox${path}`, {
      key: null,
      body: new URLSearchParams(form).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });

  it("uses and allows no script, and shows orders and events", async () => {
    const { reference } = await trigger("duplicate");
    await world.sandbox.idle();
    const { status, text, headers } = await world.ask("GET", "/_sandbox", { key: null });
    expect(status).toBe(200);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("x-order-mirror-sandbox")).toBe("1");
    expect(text).not.toMatch(/<script|javascript:|onclick|style="/i);
    expect(text).toContain(reference);
    expect(text).toContain("order.arrived_for_pickup");
    const style = await world.ask("GET", "/_sandbox/style.css", { key: null });
    expect([style.status, style.headers.get("content-type")]).toEqual([200, "text/css; charset=utf-8"]);
  });

  it("accepts forms, ignores empty fields, and shows the result", async () => {
    const moved = await submit("/faults", { loseShare: "0.25", delayMs: "" });
    expect([moved.status, moved.headers.get("location")]).toEqual([303, "/_sandbox?notice=Done."]);
    expect((await world.steer("GET", "/state")).faults).toEqual({ loseShare: 0.25 });
    const wrong = await submit("/faults", { loseShare: "lots" });
    expect(decodeURIComponent(wrong.headers.get("location")!)).toContain("loseShare");
    const triggered = await submit("/scenarios", { scenario: "lost-webhook", reference: "" });
    expect(decodeURIComponent(triggered.headers.get("location")!)).toMatch(/lost-webhook: order DO-/);
  });

  it("cannot be controlled by another site", async () => {
    const answer = await submit("/orders", {}, { "sec-fetch-site": "cross-site" });
    expect(decodeURIComponent(answer.headers.get("location")!)).toContain("does not answer other sites");
    const read = (site: string) =>
      world.ask("GET", "/_sandbox/state", { key: null, headers: { "sec-fetch-site": site } });
    const statuses = [read("cross-site"), read("same-origin"), read("none")].map(
      async (each) => (await each).status,
    );
    // The last is an address that a person typed.
    expect(await Promise.all(statuses)).toEqual([403, 200, 200]);
  });
});

describe("the control interface", () => {
  it("does nothing for another site's page or name, or a proxy", async () => {
    for (const headers of [
      { host: "attacker.example" },
      { origin: "https://attacker.example" },
      { origin: "null" },
      { "x-forwarded-proto": "https" },
    ]) {
      const answer = await ask(`${world.url}/_sandbox/faults`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers } as Record<string, string>,
        body: '{"loseShare":1}',
      });
      expect([headers, answer.status]).toEqual([headers, 403]);
    }
    expect((await world.steer("GET", "/state")).faults).toEqual({});
  });

  it("answers 404 to an unknown name", async () => {
    const organization = "nobody";
    const webhook = { organization, mode: "live", url: "http://127.0.0.1:9/", secret: SANDBOX_SECRET };
    for (const [method, path, body] of [
      ["POST", "/orders", { organization }],
      ["GET", "/orders?organization=nobody", undefined],
      ["POST", "/seed", { orders: 1, organization }],
      ["POST", "/organizations/nobody", {}],
      ["POST", "/keys", { organization }],
      ["POST", "/keys/nobody/revoke", {}],
      ["POST", "/webhooks", webhook],
      ["POST", "/branches/nowhere", {}],
      ["POST", "/branches/centrum", { primary: "nowhere" }],
      ["POST", "/zones/nowhere", { shifts: [] }],
      ["POST", "/orders/nothing/step", {}],
      ["POST", "/nothing", {}],
    ] as const)
      await expect(world.steer(method, path, body)).rejects.toThrow(`${method} ${path}: 404 `);
  });

  it("answers 422 to text that no order has, a past that is none, and orders where no branch takes any", async () => {
    const refuse = (path: string, body?: object) =>
      expect(world.steer(body ? "POST" : "GET", path, body)).rejects.toThrow(`${path}: 422 `);
    await refuse("/orders/a%00b/step", {});
    await refuse("/events?reference=%00");
    await refuse("/scenarios", { scenario: "duplicate", reference: "\0" });
    await refuse("/seed", { orders: 1, since: "2025-12-02T00:00:00Z", until: "2025-12-01T00:00:00Z" });
    await refuse("/seed", { orders: 1, until: "2027-01-01T00:00:00Z" });
    const organization = "standard";
    await world.steer("POST", "/branches/markt", { organization, closed: true });
    await world.steer("POST", "/branches/winkel", { organization, located: false });
    for (const path of ["/orders", "/seed"])
      await refuse(path, { ...(path === "/seed" && { orders: 1 }), organization });
  });

  it("keeps each of two changes made at once, and one of two that exclude each other", async () => {
    const secret = SANDBOX_SECRET.toLowerCase();
    const webhook = { url: "http://127.0.0.1:9/", secret };
    const answers = await Promise.allSettled([
      world.steer("POST", "/branches/centrum", { closed: true }),
      world.steer("POST", "/branches/centrum", { primary: "AMS-W" }),
      world.steer("POST", "/webhooks", { ...webhook, mode: "live", name: "second" }),
      world.steer("POST", "/webhooks", { ...webhook, mode: "test" }),
    ]);
    expect(answers.filter(({ status }) => status === "rejected")).toHaveLength(1);
    const connections = [false, true].map((isPrimary) => ({ isPrimary }));
    const { organizations } = await world.steer("GET", "/state");
    expect(organizations[1].branches[0]).toMatchObject({ closed: true, connections });
  });

  it("counts requests by endpoint and answer", async () => {
    await world.ask("GET", "/v1/orders?limit=0");
    await world.ask("GET", "/v1/branches", { key: null });
    const { requests } = await world.steer("GET", "/state");
    expect(requests).toEqual({ "listOrders 422": 1, "listBranches 401": 1 });
  });

  it("makes and revokes keys", async () => {
    const { apiKey: key } = await world.steer("POST", "/keys", { mode: "test" });
    expect(key).toMatch(/^dos_test_/);
    const made = await world.ask("POST", "/v1/orders", { key, body: orderBody() });
    expect(made.json.livemode).toBe(false);
    await world.steer("POST", `/keys/${key}/revoke`);
    expect((await world.ask("GET", "/v1/orders", { key })).json.error.code).toBe("invalid_api_key");
    expect((await world.ask("GET", `/v1/orders/${made.json.reference}`, { key: TEST })).status).toBe(200);
  });

  it("takes the coordinates of a branch, gives them back, and connects it with a zone", async () => {
    const quote = async (branch = "centrum") =>
      (await world.ask("POST", "/v1/orders/quote", { body: orderBody({ branch }) })).json;
    const { distance } = await quote();
    await world.steer("POST", "/branches/centrum", { located: false });
    expect((await quote()).error.code).toBe("branch_not_located");
    await world.steer("POST", "/branches/centrum", { located: true });
    expect((await quote()).distance).toBe(distance);
    await world.steer("POST", "/branches/den-haag", { primary: "AMS-W" });
    expect((await quote("den-haag")).zone.code).toBe("AMS-W");
  });

  it("turns the business's traffic on and off", async () => {
    const countAfterMinute = async (ordersPerMinute: number) => {
      await world.steer("POST", "/dials", { ordersPerMinute });
      await world.steer("POST", "/clock", { advanceMs: 60_000 });
      return (await world.steer("GET", "/orders")).orders.length as number;
    };
    expect([await countAfterMinute(6), await countAfterMinute(0)]).toEqual([6, 6]);
  });
});
