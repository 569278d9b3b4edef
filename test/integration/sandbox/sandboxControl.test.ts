import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SCENARIOS } from "../../../src/sandbox/control/scenarios.ts";
import { ask } from "../../support/http/serve.ts";
import {
  makeTestSandbox,
  receiveEvents,
  SANDBOX_SECRET,
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
const typesReceived = () => live.received.map(({ event }) => event.type);

describe("scenarios", () => {
  it.each(SCENARIOS.map(({ name }) => name))("%s happens to the named order", async (name) => {
    const reference = await aNewOrder();
    const report = await trigger(name, { reference });
    expect(report).toMatchObject({ scenario: name, reference, from: "created" });
    expect(report.expect.length).toBeGreaterThan(20);
    await world.sandbox.advance(86_400_000);
    const order = await get(reference);
    expect(order.status).toBe(report.to);
  });

  it("lose the event of an order of which a receiver knows, whatever share of events is lost", async () => {
    await world.steer("POST", "/faults", { loseShare: 1 });
    const { reference } = await trigger("lost-webhook");
    await world.sandbox.idle();
    expect((await get(reference)).status).toBe("picked_up");
    expect(typesReceived()).toEqual(["order.arrived_for_pickup"]);
  });

  it("do what their names say: duplicate, out of order", async () => {
    await trigger("duplicate");
    await world.sandbox.idle();
    expect(typesReceived()).toEqual(Array(3).fill("order.arrived_for_pickup"));
    live.received.splice(0);
    await trigger("out-of-order");
    await world.sandbox.advance(4_000);
    expect(typesReceived()).toEqual(["order.picked_up", "order.arrived_for_pickup"]);
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
  const page = async () => {
    const answer = await world.ask("GET", "/_sandbox", { key: null });
    expect(answer.status).toBe(200);
    return answer;
  };
  const submit = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    world.ask("POST", `/_sandbox${path}`, {
      key: null,
      body: new URLSearchParams(form).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });

  it("uses and allows no script, and shows orders and events", async () => {
    const { reference } = await trigger("duplicate");
    await world.sandbox.idle();
    const { text, headers } = await page();
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
    const started_ = await submit("/scenarios", { scenario: "lost-webhook", reference: "" });
    expect(decodeURIComponent(started_.headers.get("location")!)).toMatch(/lost-webhook: order DO-/);
  });

  it("cannot be controlled by another site", async () => {
    const answer = await submit("/orders", {}, { "sec-fetch-site": "cross-site" });
    expect(decodeURIComponent(answer.headers.get("location")!)).toContain("does not answer other sites");
    const json = await world.ask("POST", "/_sandbox/orders", {
      key: null,
      body: "{}",
      headers: { "sec-fetch-site": "cross-site", "content-type": "application/json" },
    });
    expect(json.status).toBe(403);
    expect((await submit("/dials", { speed: "0" }, { "sec-fetch-site": "same-origin" })).status).toBe(303);
  });
});

describe("the control interface", () => {
  it.each<[string, Record<string, string>]>([
    ["a name of another site that resolves to this machine", { host: "attacker.example" }],
    ["the page of another site", { origin: "https://attacker.example" }],
    ["a page without an origin", { origin: "null" }],
    ["a proxy", { "x-forwarded-proto": "https" }],
  ])("does nothing for %s", async (_, headers) => {
    for (const [path, body] of [
      [
        "/webhooks",
        { organization: "sandbox", mode: "live", url: "http://127.0.0.1:9/", secret: "whsec_AAAA" },
      ],
      ["/faults", { loseShare: 1 }],
    ] as const) {
      const answer = await ask(`${world.url}/_sandbox${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
      expect([path, answer.status]).toEqual([path, 403]);
    }
    expect((await world.steer("GET", "/state")).faults).toEqual({});
  });

  it("counts requests by endpoint and answer", async () => {
    await world.ask("GET", "/v1/orders?limit=0");
    await world.ask("GET", "/v1/branches", { key: null });
    const { requests } = await world.steer("GET", "/state");
    expect(requests).toEqual({ "listOrders 422": 1, "listBranches 401": 1 });
  });
});
