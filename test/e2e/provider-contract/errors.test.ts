import { afterAll, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import type { RawAnswer } from "../../support/contract/contractClient.ts";
import { openTarget, orderFor, orderTo, type ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "Errors": one row each. 429: limits.test.ts. */
const target = await openTarget();
afterAll(() => target.close());

const createAt = async (status: "picked_up" | "cancelled") => {
  const { client } = target.test;
  const { reference } = await client.createOrder(orderFor(target.world));
  if (status === "cancelled") await client.cancelOrder(reference);
  if (status === "picked_up") {
    await client.advanceTestOrder(reference);
    await client.advanceTestOrder(reference);
  }
  return reference;
};

const ask = (method: string, path: string, body?: unknown) => target.test.ask(method, path, body);
const create = (order: unknown) => ask("POST", "/v1/orders", order);

/** Null: the spec leaves it open. */
type Row = [status: number | null, code: string | null, when: string, ask: () => Promise<RawAnswer>];

const ROWS: Row[] = [
  [401, "invalid_api_key", "the key is missing", () => target.as(null).ask("GET", "/v1/orders")],
  [401, "invalid_api_key", "the key is unknown", () => target.as("dos_live_x").ask("GET", "/v1/orders")],
  [
    403,
    "feature_not_available",
    "a quote is asked for on the Standard plan",
    () => target.standard.ask("POST", "/v1/orders/quote", at({ branch: target.world.standardBranch })),
  ],
  [404, "order_not_found", "the reference is unknown", () => ask("GET", "/v1/orders/none")],
  [409, "duplicate_external_order_id", "the externalOrderId was used", () => createTwice()],
  [
    422,
    "branch_not_connected",
    "the branch has no primary connection",
    () => create(at({ branch: target.world.unconnectedBranch })),
  ],
  [422, "order_not_cancellable", "the order is beyond the allowed status", () => cancelAt("picked_up")],
  [422, "order_not_cancellable", "the order is cancelled already", () => cancelAt("cancelled")],
  [
    422,
    null,
    "a list has only updatedSince",
    () => ask("GET", "/v1/orders?updatedSince=2026-11-20T12:00:00Z"),
  ],
  [
    422,
    null,
    "a list has only updatedUntil",
    () => ask("GET", "/v1/orders?updatedUntil=2026-11-20T12:00:00Z"),
  ],
  [null, "address_not_found", "the address cannot be found", () => createTo("notFound")],
  [null, "address_ambiguous", "the address matches several places", () => createTo("ambiguous")],
  [null, "address_low_confidence", "the address is only approximate", () => createTo("lowConfidence")],
  [null, "no_shift_coverage", "no courier works", () => create(at(target.world.uncoveredZone))],
];

const at = (fields: { branch?: string; zoneCode?: string }) => orderFor(target.world, fields);
const createTo = (address: keyof ContractTarget["world"]["addresses"]) =>
  create(orderTo(target.world, target.world.addresses[address]));
const cancelAt = async (status: "picked_up" | "cancelled") =>
  ask("POST", `/v1/orders/${await createAt(status)}/cancel`);
async function createTwice(): Promise<RawAnswer> {
  const order = orderFor(target.world);
  await create(order);
  return create(order);
}

describe.each(ROWS)("%s %s when %s", (status, code, _, refuse) => {
  it("is answered with status, code, a message and request_id", async () => {
    const answer = await refuse();
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

it("no refusal repeats the customer", async () => {
  const { world, test } = target;
  const order = orderTo(world, world.addresses.notFound);
  const customer = { ...order.customer, firstName: "Zyxwv", phone: "+31 6 98765432" };
  const answer = await test.ask("POST", "/v1/orders", { ...order, customer });
  expect(JSON.stringify(answer.body)).not.toMatch(/Zyxwv|98765432/);
});

it.each(["/orders", "/branches", "/v2/orders", "/v1/v1/orders", "/orders/v1"])(
  "there is nothing without /v1 as the first segment: %s",
  async (path) => {
    const response = await fetch(target.baseUrl + path, {
      headers: { authorization: `Bearer ${target.test.apiKey}` },
    });
    expect(response.status).toBe(404);
    await response.body?.cancel();
  },
);

it("an unknown path is not reported as an order that was not found", async () => {
  const answer = await target.test.ask("GET", "/v1/no-such-endpoint");
  expect(answer.status).toBe(404);
  expect(answer.code).not.toBe("order_not_found");
});

it("the assumed PATCH /v1/orders/{reference} changes an order, even on the Standard plan", async () => {
  const { world, standard } = target;
  const branch = world.standardBranch;
  const { reference, updatedAt } = await standard.client.createOrder(orderFor(world, { branch }));
  const changed = await standard.client.updateOrder(reference, {
    customer: { firstName: "Grace", phone: "+31 6 9", address: world.addresses.valid },
  });
  expect(changed).toMatchObject({ reference, status: "created" });
  expect(parseInstant(changed.updatedAt)).toBeGreaterThanOrEqual(parseInstant(updatedAt));
  await expect(standard.client.updateOrder("no-such-order", {})).rejects.toMatchObject({
    code: "order_not_found",
  });
});
