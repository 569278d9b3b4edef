import { afterAll, afterEach, describe, expect, it } from "vitest";
import {
  isRefused,
  openTarget,
  orderFor,
  orderTo,
  type Caller,
} from "../../support/contract/contractTarget.ts";

/**
 * The spec, "What the service does" 4 and 7 to 10, and "Limits", "Subscription effects". All of it is set in the
 * dashboard, so only a sandbox can be tested. The endpoints' own files test the rest.
 */
const target = await openTarget();
const { live, test, standard, steer, world, figures } = target;
afterAll(() => target.close());
afterEach(async () => {
  await steer("POST", "/organizations/sandbox", { plan: "advanced" });
  await steer("POST", "/organizations/standard", { plan: "standard" });
  await steer("POST", "/organizations/sandbox", { subscription: "active" });
  await steer("POST", "/organizations/standard", { subscription: "active" });
});

const WARNING = "service-subscription-state";

/** Orders for `askEverything`, made while the subscription is active. */
const makeOrders = () =>
  Promise.all(
    Array.from({ length: 4 }, async () => {
      const { reference } = await test.client.createOrder(orderFor());
      return reference;
    }),
  );
/** Everything except creations and quotes. */
const askEverything = async ([read, cancelled, advanced, changed]: readonly string[]) => {
  const ask: Caller["ask"] = (...request) => test.ask(...request);
  return {
    get: await ask("GET", `/v1/orders/${read}`),
    list: await ask("GET", "/v1/orders"),
    cancel: await ask("POST", `/v1/orders/${cancelled}/cancel`),
    advance: await ask("POST", `/v1/test/orders/${advanced}/advance`),
    change: await ask("PATCH", `/v1/orders/${changed}`, {}),
    validate: await ask("POST", "/v1/addresses/validate", world.addresses.valid),
    branches: await ask("GET", "/v1/branches"),
  };
};

describe("test mode", () => {
  it("checks and routes as for live orders, with the same refusals", async () => {
    const refused = [
      orderFor({ branch: world.unconnectedBranch }),
      orderFor(world.uncoveredZone),
      orderTo(world.addresses.ambiguous),
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
    const charges = async () => (await figures("sandbox")).charges;
    const before = await charges();
    await test.client.createOrder(orderFor());
    expect(await charges()).toBe(before);
    await live.client.createOrder(orderFor());
    expect(await charges()).toBe(before + 1);
    await expect(live.client.createOrder(orderFor(world.uncoveredZone))).rejects.toMatchObject({
      code: "no_shift_coverage",
    });
    expect(await charges()).toBe(before + 1);
  });
});

describe("prerequisites of creating orders", () => {
  it("a plan", async () => {
    await steer("POST", "/organizations/sandbox", { plan: "none" });
    const answer = await test.ask("POST", "/v1/orders", orderFor());
    expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
  });

  it("a branch whose main address has coordinates", async () => {
    const branch = world.secondBranch;
    await test.client.createOrder(orderFor({ branch }));
    await steer("POST", `/branches/${branch}`, { located: false });
    const answer = await test.ask("POST", "/v1/orders", orderFor({ branch }));
    expect([answer.status, isRefused(answer)]).toEqual([answer.status, true]);
  });
});

describe("plans", () => {
  it("Standard creates, reads, lists, changes and cancels orders, checks addresses and lists branches, in test mode", async () => {
    const branch = world.standardBranch;
    const { reference } = await standard.client.createOrder(orderFor({ branch }));
    await standard.client.getOrder(reference);
    expect((await standard.client.listOrders({})).data.length).toBeGreaterThan(0);
    await standard.client.advanceTestOrder(reference);
    await standard.client.cancelOrder(reference);
    await standard.client.validateAddress(world.addresses.valid);
    expect((await standard.client.listBranches()).data.length).toBeGreaterThan(0);
  });

  it("are checked for each request", async () => {
    const order = orderFor({ branch: world.standardBranch });
    const refusal = { status: 403, code: "feature_not_available" };
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject(refusal);
    await steer("POST", "/organizations/standard", { plan: "advanced" });
    expect((await standard.client.quoteOrder(order)).schedule.mode).toBe("asap");
    await steer("POST", "/organizations/standard", { plan: "standard" });
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject(refusal);
  });
});

it("subscription past_due works as active, with a warning header only then, and only on creation and quote", async () => {
  const warnings = async () => {
    const asked = [test, live].flatMap(({ ask }) =>
      ["/v1/orders", "/v1/orders/quote"].map((path) => ask("POST", path, orderFor())),
    );
    return (await Promise.all(asked)).map(({ headers }) => headers.get(WARNING));
  };
  expect(await warnings()).toEqual([null, null, null, null]);
  await steer("POST", "/organizations/sandbox", { subscription: "past_due" });
  expect(await warnings()).toEqual(["past_due", "past_due", "past_due", "past_due"]);
  for (const [name, answer] of Object.entries(await askEverything(await makeOrders()))) {
    expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
  }
});

describe.each(["unpaid", "canceled"] as const)("subscription %s", (subscription) => {
  it("refuses creation with 402 subscription_inactive, in both modes, and stores nothing", async () => {
    await steer("POST", "/organizations/sandbox", { subscription });
    for (const caller of [test, live]) {
      const order = orderFor();
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
    await steer("POST", "/organizations/sandbox", { subscription });
    for (const [name, answer] of Object.entries(await askEverything(orders))) {
      expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
    }
    const refused = await test.ask("POST", "/v1/orders", orderFor());
    expect(refused.headers.get(WARNING)).toBeNull();
  });
});

it.each(["advanced", "standard"] as const)(
  "a quote on an unpaid subscription is 402 on the %s plan, not 403",
  async (plan) => {
    await steer("POST", "/organizations/sandbox", { plan });
    await steer("POST", "/organizations/sandbox", { subscription: "unpaid" });
    await expect(test.client.quoteOrder(orderFor())).rejects.toMatchObject({
      status: 402,
      code: "subscription_inactive",
    });
  },
);
