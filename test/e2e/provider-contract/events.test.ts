import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { loadScheme } from "../../../src/signature/scheme.ts";
import { loadVerifier } from "../../../src/signature/verifier.ts";
import { openTarget, orderFor, type Caller } from "../../support/contract/contractTarget.ts";
import { receiveEvents } from "../../support/providers/testSandbox.ts";

/** The spec, "Events". */
const target = await openTarget();
const { live, test, steer, world } = target;
const receivers = { live: await receiveEvents(afterAll), test: await receiveEvents(afterAll) };
afterAll(() => target.close());

/** The envelope of an event, as a provider must send it. */
const envelopeSchema = z.looseObject({
  id: z.string(),
  type: z.string(),
  created: z.string(),
  livemode: z.boolean(),
  data: z.looseObject({ reference: z.string() }),
});

const secretOf = (name: string) => `whsec_${Buffer.from(name.padEnd(32, "!")).toString("base64")}`;
for (const mode of ["live", "test"] as const)
  await steer("POST", "/webhooks", {
    organization: "sandbox",
    mode,
    url: receivers[mode].url,
    secret: secretOf(mode),
  });
const forget = () => {
  for (const { received } of Object.values(receivers)) received.splice(0);
};
beforeEach(forget);
afterEach(async () => {
  await steer("POST", "/organizations/sandbox", { plan: "advanced" });
  await steer("POST", "/organizations/sandbox", { subscription: "active" });
});

const create = async (caller: Caller, branch = world.branch) =>
  (await caller.client.createOrder(orderFor({ branch }))).reference;

/** All events of an order, once everything has been sent, with the mode of their endpoint. */
async function eventsOf(reference: string) {
  await steer("POST", "/idle");
  return (["live", "test"] as const).flatMap((mode) =>
    receivers[mode].received
      .map(({ body, rawHeaders, event }) => ({ mode, body, rawHeaders, event: envelopeSchema.parse(event) }))
      .filter(({ event }) => event.data.reference === reference),
  );
}
const typesOf = async (reference: string) => (await eventsOf(reference)).map(({ event }) => event.type);

describe("an event", () => {
  it("has id, type, created with an offset, livemode and the order as data", async () => {
    const reference = await create(test);
    await test.client.cancelOrder(reference);
    const { updatedAt } = await test.client.getOrder(reference);
    const event = (await eventsOf(reference))
      .map((each) => each.event)
      .find(({ type }) => type === "order.cancelled");
    expect(event).toMatchObject({ livemode: false, data: { reference, status: "cancelled" } });
    expect(event?.id).toMatch(/\S/);
    expect(parseInstant(event?.created ?? "")).toBeGreaterThanOrEqual(
      parseInstant(updatedAt) - 1_000_000_000n,
    );
  });

  it("has the full order object as the API returns it, without a request_id", async () => {
    const reference = await create(test);
    await test.client.cancelOrder(reference);
    const { request_id: _, ...read } = await test.client.getOrder(reference);
    expect((await eventsOf(reference)).at(-1)?.event.data).toEqual(read);
  });

  it("has its own id, and shows the order as it was then, not as it is now", async () => {
    const reference = await create(test);
    for (let steps = 0; steps < 3; steps += 1) await test.client.advanceTestOrder(reference);
    expect((await test.client.getOrder(reference)).status).toBe("arrived_for_delivery");
    const events = await eventsOf(reference);
    const pickedUp = events.find(({ event }) => event.type === "order.picked_up");
    expect(pickedUp?.event.data["status"]).toBe("picked_up");
    expect(events.length).toBeGreaterThanOrEqual(3);
    expect(new Set(events.map(({ event }) => event.id)).size).toBe(events.length);
  });

  it("is signed with the endpoint's own secret (assumed: by Standard Webhooks)", async () => {
    const reference = await create(test);
    await test.client.cancelOrder(reference);
    const scheme = loadScheme("standard-webhooks");
    const nowSeconds = Date.now() / 1_000;
    const events = await eventsOf(reference);
    expect(events.length).toBeGreaterThan(0);
    for (const { body, rawHeaders: headersDistinct } of events) {
      const verdict = (secret: string) =>
        loadVerifier({ scheme, secrets: [secret] }).verify({ headersDistinct, body, nowSeconds }).valid;
      expect([verdict(secretOf("test")), verdict(secretOf("live"))]).toEqual([true, false]);
    }
  });
});

describe("events are sent", () => {
  it("for every step of a test order, as the real event of its status", async () => {
    const reference = await create(test);
    await eventsOf(reference);
    for (const status of ["arrived_for_pickup", "picked_up", "arrived_for_delivery"]) {
      forget();
      await test.client.advanceTestOrder(reference);
      const events = await eventsOf(reference);
      expect(events.map(({ event }) => event.data["status"])).toEqual([status]);
      expect(events[0]?.event.type).toMatch(/^order\.\w+$/);
    }
  });

  it("as order.picked_up when a live order is picked up", async () => {
    const reference = await create(live);
    await steer("POST", `/orders/${reference}/step`);
    await steer("POST", `/orders/${reference}/step`);
    const events = (await eventsOf(reference)).filter(({ event }) => event.type === "order.picked_up");
    expect(events.map(({ event }) => [event.livemode, event.data["status"]])).toEqual([[true, "picked_up"]]);
  });

  it.each<[string, (reference: string) => Promise<unknown>]>([
    ["business", (reference) => live.client.cancelOrder(reference)],
    ["fleet", (reference) => steer("POST", `/orders/${reference}/cancel`)],
  ])("as order.cancelled when the %s cancels", async (_, cancel) => {
    const reference = await create(live);
    await cancel(reference);
    expect((await typesOf(reference)).filter((type) => type === "order.cancelled")).toHaveLength(1);
  });

  it("not for a cancellation that is refused", async () => {
    const reference = await create(test);
    await test.client.cancelOrder(reference);
    await eventsOf(reference);
    forget();
    await expect(test.client.cancelOrder(reference)).rejects.toMatchObject({ status: 422 });
    expect(await typesOf(reference)).toEqual([]);
  });

  it("to the endpoint of their mode only", async () => {
    const inTest = await create(test);
    await test.client.cancelOrder(inTest);
    const inLive = await create(live);
    await live.client.cancelOrder(inLive);
    const modesOf = async (reference: string) => [
      ...new Set((await eventsOf(reference)).map(({ mode }) => mode)),
    ];
    expect([await modesOf(inTest), await modesOf(inLive)]).toEqual([["test"], ["live"]]);
    for (const [mode, { received }] of Object.entries(receivers))
      for (const { event } of received) expect(event.livemode).toBe(mode === "live");
  });
});

describe("the plan", () => {
  it("Standard cannot add an endpoint", async () => {
    const endpoint = { organization: "standard", mode: "test", secret: secretOf("x") } as const;
    const adding = steer("POST", "/webhooks", { ...endpoint, url: "http://127.0.0.1:9/" });
    await expect(adding).rejects.toThrow("feature_not_available");
  });

  it("is checked for each event: a downgrade stops events immediately, and an upgrade starts them", async () => {
    const reference = await create(test);
    await steer("POST", "/organizations/sandbox", { plan: "standard" });
    await eventsOf(reference);
    forget();
    await test.client.advanceTestOrder(reference);
    expect(await typesOf(reference)).toEqual([]);
    await steer("POST", "/organizations/sandbox", { plan: "advanced" });
    await test.client.advanceTestOrder(reference);
    expect(await typesOf(reference)).toEqual(["order.picked_up"]);
  });

  it.each(["past_due", "unpaid", "canceled"] as const)(
    "keeps sending while the subscription is %s",
    async (subscription) => {
      const reference = await create(test);
      await steer("POST", "/organizations/sandbox", { subscription });
      await test.client.cancelOrder(reference);
      expect(await typesOf(reference)).toContain("order.cancelled");
    },
  );
});
