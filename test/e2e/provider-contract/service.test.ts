import { afterAll, afterEach, describe, expect, it } from "vitest";
import { openTarget, orderFor, orderTo, type Caller } from "../../support/contract/contractTarget.ts";

/**
 * The spec, "What the service does" 4 and 7 to 10, and "Limits", "Subscription effects". All of it is set in the
 * dashboard, so only a sandbox can be tested. The endpoints' own files test the rest.
 */
const target = await openTarget();
afterAll(() => target.close());
afterEach(async () => {
  await target.control.setPlan("sandbox", "advanced");
  await target.control.setPlan("standard", "standard");
  await target.control.setSubscription("sandbox", "active");
  await target.control.setSubscription("standard", "active");
});

const WARNING = "service-subscription-state";

/** Each request has its own order, so that it can be repeated. */
const askEverything = async (caller: Caller) => {
  const { world } = target;
  const made = async () => {
    const { reference } = await orderBefore(caller);
    return reference;
  };
  return {
    get: await caller.ask("GET", `/v1/orders/${await made()}`),
    list: await caller.ask("GET", "/v1/orders"),
    cancel: await caller.ask("POST", `/v1/orders/${await made()}/cancel`),
    advance: await caller.ask("POST", `/v1/test/orders/${await made()}/advance`),
    change: await caller.ask("PATCH", `/v1/orders/${await made()}`, {}),
    validate: await caller.ask("POST", "/v1/addresses/validate", world.addresses.valid),
    branches: await caller.ask("GET", "/v1/branches"),
  };
};

/** Orders created while the subscription is active, for tests while it is not. */
const stock: { reference: string }[] = [];
const orderBefore = async (caller: Caller) => {
  const kept = stock.pop();
  if (kept !== undefined) return kept;
  const { snapshot } = await caller.client.createOrder(orderFor(target.world));
  return { reference: snapshot.fields.reference };
};
const fillStock = async () => {
  for (let index = 0; index < 4; index += 1) {
    const { snapshot } = await target.test.client.createOrder(orderFor(target.world));
    stock.push({ reference: snapshot.fields.reference });
  }
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
    const { world, test, live, control } = target;
    const charges = async () => (await control.figures("sandbox")).charges;
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
    await target.control.setPlan("sandbox", "none");
    const answer = await target.test.ask("POST", "/v1/orders", orderFor(target.world));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  });

  it("a branch whose main address has coordinates", async () => {
    const branch = target.world.secondBranch;
    await target.test.client.createOrder(orderFor(target.world, { branch }));
    await target.control.unlocateBranch(branch);
    const answer = await target.test.ask("POST", "/v1/orders", orderFor(target.world, { branch }));
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  });

  it("a primary connection, even when there is another one", async () => {
    const { control, world, test } = target;
    const { branch } = world.secondZone;
    const primary = (await test.client.quoteOrder(orderFor(world, { branch }))).zone.code;
    await control.deactivatePrimary(branch);
    await expect(test.client.createOrder(orderFor(world, { branch }))).rejects.toMatchObject({
      code: "branch_not_connected",
    });
    await control.connectPrimary(branch, primary);
    await test.client.createOrder(orderFor(world, { branch }));
  });
});

describe("plans", () => {
  it("Standard creates, reads, lists, changes and cancels orders, checks addresses and lists branches, in test mode", async () => {
    const { world, standard } = target;
    const branch = world.standardBranch;
    const { snapshot } = await standard.client.createOrder(orderFor(world, { branch }));
    const { reference } = snapshot.fields;
    await standard.client.getOrder(reference);
    expect((await standard.client.listOrders({})).elements.length).toBeGreaterThan(0);
    await standard.client.advanceTestOrder(reference);
    await standard.client.cancelOrder(reference);
    await standard.client.validateAddress(world.addresses.valid);
    expect((await standard.client.listBranches()).data.length).toBeGreaterThan(0);
  });

  it("are checked for each request", async () => {
    const { world, standard, control } = target;
    const order = orderFor(world, { branch: world.standardBranch });
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject({ code: "feature_not_available" });
    await control.setPlan("standard", "advanced");
    expect((await standard.client.quoteOrder(order)).schedule.mode).toBe("asap");
    await control.setPlan("standard", "standard");
    await expect(standard.client.quoteOrder(order)).rejects.toMatchObject({ code: "feature_not_available" });
  });
});

it("subscription past_due works as before, with a warning header only on creation and quote", async () => {
  const { world, test, live, control } = target;
  await control.setSubscription("sandbox", "past_due");
  expect((await test.client.createOrder(orderFor(world))).subscriptionState).toBe("past_due");
  expect((await live.client.createOrder(orderFor(world))).subscriptionState).toBe("past_due");
  expect((await test.client.quoteOrder(orderFor(world))).subscriptionState).toBe("past_due");
  for (const [name, answer] of Object.entries(await askEverything(test))) {
    expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
  }
});

describe.each(["unpaid", "canceled"] as const)("subscription %s", (subscription) => {
  it("refuses creation with 402 subscription_inactive, in both modes, and stores nothing", async () => {
    const { world, test, live, control } = target;
    await control.setSubscription("sandbox", subscription);
    for (const caller of [test, live]) {
      const order = orderFor(world);
      await expect(caller.client.createOrder(order)).rejects.toMatchObject({
        status: 402,
        code: "subscription_inactive",
      });
      await expect(caller.client.getOrder(order.externalOrderId ?? "")).rejects.toMatchObject({
        status: 404,
      });
    }
  });

  it("still allows reading, listing, changing, cancelling and advancing, without the header", async () => {
    await fillStock();
    await target.control.setSubscription("sandbox", subscription);
    for (const [name, answer] of Object.entries(await askEverything(target.test))) {
      expect([name, answer.status, answer.headers.get(WARNING)]).toEqual([name, 200, null]);
    }
    const refused = await target.test.ask("POST", "/v1/orders", orderFor(target.world));
    expect(refused.headers.get(WARNING)).toBeNull();
  });
});

it.each(["advanced", "standard"] as const)(
  "a quote on an unpaid subscription is 402 on the %s plan, not 403",
  async (plan) => {
    const { world, test, control } = target;
    await control.setPlan("sandbox", plan);
    await control.setSubscription("sandbox", "unpaid");
    await expect(test.client.quoteOrder(orderFor(world))).rejects.toMatchObject({
      status: 402,
      code: "subscription_inactive",
    });
  },
);

it("the warning header is absent while the subscription is active", async () => {
  const { world, test } = target;
  expect((await test.client.createOrder(orderFor(world))).subscriptionState).toBeNull();
  expect((await test.client.quoteOrder(orderFor(world))).subscriptionState).toBeNull();
});
