import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTarget, orderFor, orderTo } from "../../support/contract/contractTarget.ts";
import type { ContractTarget, RawAnswer } from "../../support/contract/contractTarget.ts";

/** The spec, "Errors": one row each. 429: limits.test.ts. */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

const createAt = async (status: "created" | "picked_up" | "cancelled") => {
  const { client } = target.test;
  const { reference } = (await client.createOrder(orderFor(target.world))).snapshot.fields;
  if (status === "cancelled") await client.cancelOrder(reference);
  if (status === "picked_up") {
    await client.advanceTestOrder(reference);
    await client.advanceTestOrder(reference);
  }
  return reference;
};

type Row = [status: number | null, code: string | null, when: string, ask: () => Promise<RawAnswer>];

const ROWS: Row[] = [
  [401, "invalid_api_key", "the key is missing", () => target.as(null).ask("GET", "/v1/orders")],
  [401, "invalid_api_key", "the key is unknown", () => target.as("dos_live_x").ask("GET", "/v1/orders")],
  [
    403,
    "feature_not_available",
    "a quote is asked for on the Standard plan",
    () =>
      target.standard.ask(
        "POST",
        "/v1/orders/quote",
        orderFor(target.world, { branch: target.world.standardBranch }),
      ),
  ],
  [404, "order_not_found", "the reference is unknown", () => target.test.ask("GET", "/v1/orders/none")],
  [
    404,
    "order_not_found",
    "the order is of the other mode",
    async () => target.live.ask("GET", `/v1/orders/${await createAt("created")}`),
  ],
  [
    404,
    "order_not_found",
    "the order is of another organization",
    async () => target.other.ask("GET", `/v1/orders/${await createAt("created")}`),
  ],
  [
    409,
    "duplicate_external_order_id",
    "the externalOrderId was used",
    async () => {
      const order = orderFor(target.world);
      await target.test.client.createOrder(order);
      return target.test.ask("POST", "/v1/orders", order);
    },
  ],
  [
    422,
    "branch_not_connected",
    "the branch has no primary connection",
    () =>
      target.test.ask(
        "POST",
        "/v1/orders",
        orderFor(target.world, { branch: target.world.unconnectedBranch }),
      ),
  ],
  [
    422,
    "order_not_cancellable",
    "the order is beyond the allowed status",
    async () => target.test.ask("POST", `/v1/orders/${await createAt("picked_up")}/cancel`),
  ],
  [
    422,
    "order_not_cancellable",
    "the order is cancelled already",
    async () => target.test.ask("POST", `/v1/orders/${await createAt("cancelled")}/cancel`),
  ],
  [
    422,
    null,
    "a list has only updatedSince",
    () => target.test.ask("GET", "/v1/orders?updatedSince=2026-11-20T12:00:00Z"),
  ],
  [
    422,
    null,
    "a list has only updatedUntil",
    () => target.test.ask("GET", "/v1/orders?updatedUntil=2026-11-20T12:00:00Z"),
  ],
  [
    null,
    "address_not_found",
    "the address cannot be found",
    () => target.test.ask("POST", "/v1/orders", orderTo(target.world, target.world.addresses.notFound)),
  ],
  [
    null,
    "address_ambiguous",
    "the address matches several places",
    () => target.test.ask("POST", "/v1/orders", orderTo(target.world, target.world.addresses.ambiguous)),
  ],
  [
    null,
    "address_low_confidence",
    "the address is resolved only approximately",
    () => target.test.ask("POST", "/v1/orders", orderTo(target.world, target.world.addresses.lowConfidence)),
  ],
  [
    null,
    "no_shift_coverage",
    "no courier shift covers the order",
    () => target.test.ask("POST", "/v1/orders", orderFor(target.world, target.world.uncoveredZone)),
  ],
];

describe.each(ROWS)("%s %s when %s (null: the spec leaves it open)", (status, code, _, ask) => {
  it("is answered with status, code, a message and request_id", async () => {
    const answer = await ask();
    const allowed = status === null ? answer.status >= 400 && answer.status < 500 : answer.status === status;
    expect([answer.status, allowed]).toEqual([answer.status, true]);
    expect(code === null ? typeof answer.code : answer.code).toBe(code ?? "string");
    expect(answer.body).toMatchObject({
      error: { message: expect.any(String) },
      request_id: expect.any(String),
    });
    expect(answer.headers.get("content-type")).toMatch(/^application\/json/);
  });
});

describe("402 subscription_inactive when the subscription is unpaid or canceled", () => {
  it.each(["unpaid", "canceled"] as const)("%s", async (subscription) => {
    await target.control.setSubscription("sandbox", subscription);
    const answer = await target.test.ask("POST", "/v1/orders", orderFor(target.world));
    await target.control.setSubscription("sandbox", "active");
    expect([answer.status, answer.code]).toEqual([402, "subscription_inactive"]);
  });
});

it("no refusal repeats the customer", async () => {
  const { world, test } = target;
  const order = orderTo(world, world.addresses.notFound);
  const customer = { ...order.customer, firstName: "Zyxwv", phone: "+31 6 98765432" };
  const answer = await test.ask("POST", "/v1/orders", { ...order, customer });
  expect(JSON.stringify(answer.body)).not.toMatch(/Zyxwv|98765432/);
});
