import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { SCENARIOS } from "../../../src/sandbox/control/scenarios.ts";
import { ask } from "../../support/http/ask.ts";
import {
  LIVE,
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
} from "../../support/providers/testSandbox.ts";
import type { EventReceiver, TestSandbox } from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
let started: Promise<TestSandbox> | undefined;
let live: EventReceiver;
beforeEach(async () => {
  world = await (started ??= makeTestSandbox({ clock: "virtual" }));
  live = await receiveEvents();
  await world.steer("POST", "/reset", {});
  await world.steer("POST", "/webhooks", { mode: "live", url: live.url, secret: SANDBOX_SECRET });
});
afterAll(() => world.close());

const trigger = (name: string, given: object = {}) =>
  world.steer("POST", "/scenarios", { scenario: name, ...given });
const get = async (reference: string) => (await world.ask("GET", `/v1/orders/${reference}`)).json;
const eventsOf = (reference: string) => world.steer("GET", `/events?reference=${reference}`);
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

  it("create an order when none is named", async () => {
    const { reference } = await trigger("lost-webhook");
    await world.sandbox.idle();
    expect((await get(reference)).status).toBe("arrived_for_pickup");
    expect(await eventsOf(reference)).toMatchObject([{ sentAs: "lost", deliveries: [] }]);
    expect(live.received).toEqual([]);
  });

  it("lose the event of an order of which a receiver knows", async () => {
    const { reference } = await trigger("duplicate");
    await world.sandbox.idle();
    live.received.splice(0);
    expect(await trigger("lost-webhook")).toMatchObject({ reference, from: "arrived_for_pickup" });
    await world.sandbox.idle();
    expect((await get(reference)).status).toBe("picked_up");
    expect(live.received).toEqual([]);
    expect((await trigger("lost-webhook")).reference).not.toBe(reference);
  });

  it("do what their names say: duplicate, out of order, stale, bad signature", async () => {
    await trigger("duplicate");
    await world.sandbox.idle();
    expect(typesReceived()).toEqual(Array(3).fill("order.arrived_for_pickup"));
    live.received.splice(0);
    await trigger("out-of-order");
    await world.sandbox.advance(4_000);
    expect(typesReceived()).toEqual(["order.picked_up", "order.arrived_for_pickup"]);
    live.received.splice(0);
    await trigger("stale-redelivery");
    await world.sandbox.idle();
    expect(typesReceived()).toEqual([
      "order.arrived_for_pickup",
      "order.picked_up",
      "order.arrived_for_pickup",
    ]);
    expect(live.received[2]!.body).toEqual(live.received[0]!.body);
  });

  it("do what their names say: late and misstamped", async () => {
    const late = await trigger("late-commit");
    expect((await get(late.reference)).status).toBe("created");
    await world.sandbox.advance(9_000);
    expect((await get(late.reference)).status).toBe("arrived_for_pickup");
    const future = await trigger("future-timestamp");
    const stamped = parseInstant((await get(future.reference)).updatedAt);
    expect(stamped).toBeGreaterThan(world.sandbox.now() + 50_000_000_000n);
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

  it("escapes external text", async () => {
    const externalOrderId = `<img src=x onerror="alert(1)">`;
    await world.ask("POST", "/v1/orders", { body: orderBody({ externalOrderId }) });
    const answer = await world.ask("GET", `/_sandbox?notice=${encodeURIComponent("<b>hi</b>")}`, {
      key: null,
    });
    expect(answer.text).not.toContain("<img");
    expect(answer.text).not.toContain("<script");
    expect(answer.text).not.toContain("<b>hi");
    expect(answer.text).toContain("&lt;img src=x");
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
    const answer = await submit("/reset", {}, { "sec-fetch-site": "cross-site" });
    expect(decodeURIComponent(answer.headers.get("location")!)).toContain("does not answer other sites");
    const json = await world.ask("POST", "/_sandbox/reset", {
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

  it("lists itself, and refuses unknown paths, methods, bodies and fields", async () => {
    const help = await world.steer("GET", "/help");
    expect(help).toContainEqual(expect.objectContaining({ method: "POST", path: "/_sandbox/webhooks" }));
    await expect(world.steer("GET", "/nothing")).rejects.toThrow("404");
    await expect(world.steer("POST", "/state")).rejects.toThrow("404");
    await expect(world.steer("POST", "/orders", { count: 1, colour: "red" })).rejects.toThrow(/422.*colour/);
    await expect(world.steer("POST", "/organizations/nobody", { plan: "none" })).rejects.toThrow("404");
    const broken = await world.ask("POST", "/_sandbox/orders", { key: null, body: "{" });
    expect(broken.status).toBe(400);
  });

  it("keeps only webhook endpoints across a reset", async () => {
    await world.steer("POST", "/organizations/sandbox", { plan: "standard" });
    await world.steer("POST", "/faults", { loseShare: 1 });
    await aNewOrder();
    const state = await world.steer("POST", "/reset", {});
    expect(state.webhooks).toHaveLength(1);
    expect(state.faults).toEqual({});
    expect(state.organizations[1]).toMatchObject({ plan: "advanced", orders: 0 });
    expect((await world.ask("GET", "/v1/branches", { key: LIVE })).status).toBe(200);
  });

  it("counts requests by endpoint and answer", async () => {
    await world.ask("GET", "/v1/orders?limit=0");
    await world.ask("GET", "/v1/branches", { key: null });
    const { requests } = await world.steer("GET", "/state");
    expect(requests).toEqual({ "listOrders 422": 1, "listBranches 401": 1 });
  });
});
