import { afterAll, afterEach, describe, expect, it } from "vitest";
import { openTarget, orderFor, orderTo, type Caller } from "../../support/contract/contractTarget.ts";

/**
 * The spec, "What the service does" 4 and 7 to 10, and "Limits", "Subscription effects". All of it is set in the
 * dashboard, so only a sandbox can be tested. The endpoints' own files test the rest.
 */
const target = await openTarget();
afterAll(() => target.close());
afterEach(async () => {
  await target.steer("POST", "/organizations/sandbox", { plan: "advanced" });
  await target.steer("POST", "/organizations/standard", { plan: "standard" });
  await target.steer("POST", "/organizations/sandbox", { subscription: "active" });
  await target.steer("POST", "/organizations/standard", { subscription: "active" });
});

const WARNING = "service-subscription-state";

/** Orders for `askEverything`, made while the subscription is active. */
const makeOrders = () =>
  Promise.all(
    Array.from({ length: 4 }, async () => {
      const { reference } = await target.test.client.createOrder(orderFor(target.world));
      return reference;
    }),
  );
/** Everything except creations and quotes. */
const askEverything = async ([read, cancelled, advanced, changed]: readonly string[]) => {
  const ask: Caller["ask"] = (...request) => target.test.ask(...request);
  return {
    get: await ask("GET", `/v1/orders/${read}`),
    list: await ask("GET", "/v1/orders"),
    cancel: await ask("POST", `/v1/orders/${cancelled}/cancel`),
    advance: await ask("POST", `/v1/test/orders/${advanced}/advance`),
    change: await ask("PATCH", `/v1/orders/${changed}`, {}),
    validate: await ask("POST", "/v1/addresses/validate", target.world.addresses.valid),
    branches: await ask("GET", "/v1/branches"),
  };
};

describe("test mode", () => {
  it("checks and routes as for live orders, with the same refusals", async () => {
    const { world, test, live } = target;
    const refused = [
      orderFor(world, { branch: world.unconnectedBranch }),
      orderFor(world, world.uncoveredZone),
      orderTo(world, world.addresses.ambiguous),
    ];
    for (const order of refused) {
      const inTest = await test.ask("POST", "/v1/orders", order);
      expect(inTest.status).toBeGreaterThanOrEqual(400);
      // Refused, so that no courier is sent; still not sent to a foreign provider.
      const inLive = await live.ask("POST", "/v1/orders", order);
      expect([inLive.status, inLive.code]).toEqual([inTest.status, inTest.code]);
    }
  });

  it("records no charge, and a live order records one", async () => {
    const { world, test, live } = target;
    const charges = async () => (await target.figures("sandbox")).charges;
    const before = await charges();
    await test.client.createOrder(orderFor(world));
    expect(await charges()).toBe(before);
    await live.client.createOrder(orderFor(world));
    expect(await charges()).toBe(before + 1);
    await expect(live.client.createOrder(orderFor(world, world.uncoveredZone))).rejects.toMatchObject({
      code: "no_shift_coverage",
    });
    expect(await charges()).toBe(before + 1);
  });
});

describe("prerequisites of creating orders", () => {
  it("a plan", async () => {
    await target.steer("POST", "/organizations/sandbox", { plan: "none" });
    const answer = await target.test.ask("POST", "/v1/orders", orderFor(target.world));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  });

  it("a branch whose main address has coordinates", async () => {
    const branch = target.world.secondBranch;
    await target.test.client.createOrder(orderFor(target.world, { branch }));
    await target.steer("POST", `/branches/${branch}`, { located: false });
    const answer = await target.test.ask("POST", "/v1/orders", orderFor(target.world, { branch }));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  });
});

describe("plans", () => {
  it("Standard creates, reads, lists, changes and cancels orders, checks addresses and lists branches, in test mode", async () => {
    const { world, standard } = target;
    const branch = world.standardBranch;
    const { reference } = await standard.client.createOrder(orderFor(world, { branch }));
    await standard.client.getOrder(reference);
    expect((await standard.client.listOrders({})).data.length).toBeGreaterThan(0);
    await standard.client.advanceTestOrder(reference);
    await standard.client.cancelOrder(reference);
    await standard.client.validateAddress(world.addresses.valid);
    expect((await standard.client.listBranches()).data.length).toBeGreaterThan(0);
  });

  it("are checked for each request", async () => {
    const { world, standard } = target;
    const order = orderFor(world, { branch: world.standardBranch });
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject({ code: "feature_not_available" });
    await target.steer("POST", "/organizations/standard", { plan: "advanced" });
    expect((await standard.client.quoteOrder(order)).schedule.mode).toBe("asap");
    await target.steer("POST", "/organizations/standard", { plan: "standard" });
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject({ code: "feature_not_available" });
  });
});

it("subscription past_due works as active, with a warning header only then, and only on creation and quote", async () => {
  const { world, test, live } = target;
  const warnings = async () => {
    const asked = [test, live].flatMap(({ ask }) =>
      ["/v1/orders", "/v1/orders/quote"].map((path) => ask("POST", path, orderFor(world))),
    );
    return (await Promise.all(asked)).map(({ headers }) => headers.get(WARNING));
  };
  expect(await warnings()).toEqual([null, null, null, null]);
  await target.steer("POST", "/organizations/sandbox", { subscription: "past_due" });
  expect(await warnings()).toEqual(["past_due", "past_due", "past_due", "past_due"]);
  for (const [name, answer] of Object.entries(await askEverything(await makeOrders()))) {
    expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
  }
});

describe.each(["unpaid", "canceled"] as const)("subscription %s", (subscription) => {
  it("refuses creation with 402 subscription_inactive, in both modes, and stores nothing", async () => {
    const { world, test, live } = target;
    await target.steer("POST", "/organizations/sandbox", { subscription });
    for (const caller of [test, live]) {
      const order = orderFor(world);
      await expect(caller.client.createOrder(order)).rejects.toMatchObject({
        status: 402,
        code: "subscription_inactive",
      });
      await expect(caller.client.getOrder(order.externalOrderId)).rejects.toMatchObject({
        status: 404,
      });
    }
  });

  it("still allows reading, listing, changing, cancelling and advancing, without the header", async () => {
    const orders = await makeOrders();
    await target.steer("POST", "/organizations/sandbox", { subscription });
    for (const [name, answer] of Object.entries(await askEverything(orders))) {
      expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
    }
    const refused = await target.test.ask("POST", "/v1/orders", orderFor(target.world));
    expect(refused.headers.get(WARNING)).toBeNull();
  });
});

it.each(["advanced", "standard"] as const)(
  "a quote on an unpaid subscription is 402 on the %s plan, not 403",
  async (plan) => {
    const { world, test } = target;
    await target.steer("POST", "/organizations/sandbox", { plan });
    await target.steer("POST", "/organizations/sandbox", { subscription: "unpaid" });
    await expect(test.client.quoteOrder(orderFor(world))).rejects.toMatchObject({
      status: 402,
      code: "subscription_inactive",
    });
  },
);
