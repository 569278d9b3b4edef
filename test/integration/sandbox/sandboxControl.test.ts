import { afterAll, afterEach, describe, expect, it } from "vitest";
import { NO_FAULTS } from "../../../src/sandbox/control/faults.ts";
import { SCENARIOS } from "../../../src/sandbox/control/scenarios.ts";
import { ask } from "../../support/http/serve.ts";
import {
  findBarriers,
  findChromium,
  NO_BROWSER,
  openBrowser,
  openTab,
  overflow,
} from "../../support/pages/browser.ts";
import {
  makeTestSandbox,
  orderBody,
  receiveEvents,
  SANDBOX_SECRET,
  TEST,
} from "../../support/providers/testSandbox.ts";

const MIRROR = "http://127.0.0.1:9/ops/orders";
const live = await receiveEvents(afterAll);
const world = await makeTestSandbox({
  clock: "virtual",
  webhooks: { live: { url: live.url, secret: SANDBOX_SECRET } },
  mirrorPageOf: ({ mode, reference }) => `${MIRROR}/${mode}/${reference}`,
});
afterAll(() => world.close());
afterEach(async () => {
  world.sandbox.setFaults(NO_FAULTS);
  await world.steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
});

const post = (path: string, body: object = {}) => world.steer("POST", path, body);
const trigger = (scenario: string, given: object = {}) => post("/scenarios", { scenario, ...given });
const get = async (reference: string) => (await world.ask("GET", `/v1/orders/${reference}`)).json;
const aNewOrder = async (given: object = {}): Promise<string> => (await post("/orders", given)).references[0];

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
      await post("/faults", { loseShare: 1 });
      const reference = await aNewOrder();
      const report = await trigger(name, { reference });
      expect(report).toMatchObject({ scenario: name, reference, from: "created" });
      expect(report.expect.length).toBeGreaterThan(20);
      await world.sandbox.advance(4_000);
      expect((await get(reference)).status).toBe(report.to);
      const received = live.received.filter(({ event }) => event.data.reference === reference);
      expect(received.map(({ event }) => event.type)).toEqual(RECEIVED[name]);
    },
  );

  it("of a lost event leave a poll a minute to find the change, however fast the fleet is", async () => {
    await post("/dials", { speed: 10_000 });
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
    for (let count = 0; count < 3; count += 1) await post(`/orders/${reference}/step`);
    await expect(trigger("out-of-order", { reference })).rejects.toThrow("order_not_advanceable");
    expect((await get(reference)).status).toBe("arrived_for_delivery");
  });
});

describe("the page", () => {
  const look = async () => world.ask("GET", "/_sandbox", { key: null });
  const submit = async (path: string, form: Record<string, string>, headers: Record<string, string> = {}) => {
    const answer = await world.ask("POST", `/_sandbox${path}`, {
      key: null,
      body: new URLSearchParams(form).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });
    return [answer.status, decodeURIComponent(answer.headers.get("location") ?? "")];
  };

  it("allows no script, and links the orders of its business and their events to the mirror", async () => {
    const { reference } = await trigger("duplicate");
    const test = await aNewOrder({ mode: "test" });
    const ofOther = await aNewOrder({ organization: "other" });
    await post(`/orders/${ofOther}/step`);
    const { status, text, headers } = await look();
    expect(status).toBe(200);
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("x-order-mirror-sandbox")).toBe("1");
    expect(text).not.toMatch(/<script|javascript:|onclick|style="/i);
    expect(text).toContain("order.arrived_for_pickup");
    expect(text).toContain(`>${ofOther}<`);
    const linked = [...text.matchAll(/href="([^"]+)\/(live|test)\/(DO-\w+)"/g)].map(([, ...parts]) => parts);
    expect(linked.filter(([, , each]) => each === reference)).toEqual(
      Array(2).fill([MIRROR, "live", reference]),
    );
    expect(linked).toContainEqual([MIRROR, "test", test]);
    expect(linked.flat()).not.toContain(ofOther);
  });

  it("accepts forms, ignores empty fields, and shows the result", async () => {
    expect(await submit("/faults", { loseShare: "0.25", delayMs: "" })).toEqual([
      303,
      "/_sandbox?notice=Done.",
    ]);
    expect((await world.steer("GET", "/state")).faults).toEqual({ loseShare: 0.25 });
    expect((await submit("/faults", { loseShare: "lots" }))[1]).toContain("loseShare");
    const triggered = await submit("/scenarios", { scenario: "lost-webhook", reference: "" });
    expect(triggered[1]).toMatch(/lost-webhook: order DO-/);
  });

  it("cannot be controlled by another site", async () => {
    const [, notice] = await submit("/orders", {}, { "sec-fetch-site": "cross-site" });
    expect(notice).toContain("does not answer other sites");
    // The last is an address that a person typed.
    for (const [site, status] of [
      ["cross-site", 403],
      ["same-origin", 200],
      ["none", 200],
    ] as const) {
      const headers = { "sec-fetch-site": site };
      expect((await world.ask("GET", "/_sandbox/state", { key: null, headers })).status).toBe(status);
    }
  });

  it.skipIf(findChromium() === undefined)(
    `has no barriers, overflow, errors or external requests, at a desk, with a phone and in the dark (else ${NO_BROWSER})`,
    async () => {
      await post("/seed", { orders: 20 });
      const browser = await openBrowser();
      if (browser === undefined) throw new Error(NO_BROWSER);
      const { page, troubles } = await openTab(browser, world.url);
      await page.goto("/_sandbox");
      for (const [width, colorScheme] of [
        [1280, "light"],
        [360, "dark"],
      ] as const) {
        await page.setViewportSize({ width, height: 800 });
        await page.emulateMedia({ colorScheme });
        expect(await findBarriers(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
      }
      expect(await page.getByLabel("Sorting of order lists").inputValue()).toBe("ascending");
      expect(troubles).toEqual([]);
      await browser.close();
    },
  );
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
    const organization = "standard";
    await post("/branches/markt", { organization, closed: true });
    await post("/branches/winkel", { organization, located: false });
    for (const [method, path, body] of [
      ["POST", "/orders/a%00b/step", {}],
      ["GET", "/events?reference=%00", undefined],
      ["POST", "/scenarios", { scenario: "duplicate", reference: "\0" }],
      ["POST", "/seed", { orders: 1, since: "2025-12-02T00:00:00Z", until: "2025-12-01T00:00:00Z" }],
      ["POST", "/seed", { orders: 1, until: "2027-01-01T00:00:00Z" }],
      ["POST", "/seed", { orders: 1, organization }],
      ["POST", "/orders", { organization }],
    ] as const)
      await expect(world.steer(method, path, body)).rejects.toThrow(`${method} ${path}: 422 `);
  });

  it("keeps each of two changes made at once, and one of two that exclude each other", async () => {
    const secret = SANDBOX_SECRET.toLowerCase();
    const webhook = { organization: "other", url: "http://127.0.0.1:9/", secret };
    const answers = await Promise.allSettled([
      post("/branches/centrum", { closed: true }),
      post("/branches/centrum", { primary: "AMS-W" }),
      post("/webhooks", { ...webhook, mode: "live" }),
      post("/webhooks", { ...webhook, mode: "test" }),
    ]);
    expect(answers.filter(({ status }) => status === "rejected")).toHaveLength(1);
    const connections = [false, true].map((isPrimary) => ({ isPrimary }));
    expect(await post("/branches/centrum")).toMatchObject({ closed: true, connections });
    await post("/branches/centrum", { closed: false, primary: "AMS-C" });
  });

  it("counts requests by endpoint and answer", async () => {
    await world.ask("GET", "/v1/orders?limit=0");
    await world.ask("GET", "/v1/branches", { key: null });
    const { requests } = await world.steer("GET", "/state");
    expect(requests).toMatchObject({ "listOrders 422": 1, "listBranches 401": 1 });
  });

  it("makes and revokes keys", async () => {
    const { apiKey: key } = await post("/keys", { mode: "test" });
    expect(key).toMatch(/^dos_test_/);
    const made = await world.ask("POST", "/v1/orders", { key, body: orderBody() });
    expect(made.json.livemode).toBe(false);
    await post(`/keys/${key}/revoke`);
    expect((await world.ask("GET", "/v1/orders", { key })).json.error.code).toBe("invalid_api_key");
    expect((await world.ask("GET", `/v1/orders/${made.json.reference}`, { key: TEST })).status).toBe(200);
  });

  it("takes the coordinates of a branch, gives them back, and connects it with a zone", async () => {
    const quote = async (branch = "centrum") =>
      (await world.ask("POST", "/v1/orders/quote", { body: orderBody({ branch }) })).json;
    const { distance } = await quote();
    await post("/branches/centrum", { located: false });
    expect((await quote()).error.code).toBe("branch_not_located");
    await post("/branches/centrum", { located: true });
    expect((await quote()).distance).toBe(distance);
    await post("/branches/den-haag", { primary: "AMS-W" });
    expect((await quote("den-haag")).zone.code).toBe("AMS-W");
  });

  it("turns the business's traffic on and off", async () => {
    const makeInAMinute = async (ordersPerMinute: number) => {
      const count = async () => (await world.steer("GET", "/orders")).orders.length as number;
      const before = await count();
      await post("/dials", { ordersPerMinute });
      await post("/clock", { advanceMs: 60_000 });
      return (await count()) - before;
    };
    expect([await makeInAMinute(6), await makeInAMinute(0)]).toEqual([6, 0]);
  });
});
