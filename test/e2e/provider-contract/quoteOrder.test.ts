import { afterAll, describe, expect, it } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import {
  clockNow,
  countOrders,
  openTarget,
  orderFor,
  orderTo,
} from "../../support/contract/contractTarget.ts";

/** The spec, "POST /v1/orders/quote : preview an order". */
const target = await openTarget();
const { live, test, figures, world } = target;
afterAll(() => target.close());

describe("POST /v1/orders/quote", () => {
  it("answers 200 with fleet, zone, distance, schedule and request_id", async () => {
    const answer = await test.ask("POST", "/v1/orders/quote", orderFor());
    expect(answer.status).toBe(200);
    const quote = await test.client.quoteOrder(orderFor());
    expect(quote.request_id).not.toBe("");
    expect(quote.schedule.mode).toBe("asap");
    const { pickupTime, deliveryTime } = quote.schedule.resolved;
    expect(parseInstant(pickupTime)).toBeGreaterThan(clockNow());
    expect(parseInstant(deliveryTime)).toBeGreaterThan(parseInstant(pickupTime));
  });

  it("names the zone and fleet of the branch's routesTo, or of any connected zone, which an order accepts, too", async () => {
    const { branch, zoneCode } = world.secondZone;
    const found = (await test.client.listBranches()).data.find(({ reference }) => reference === branch);
    const byDefault = await test.client.quoteOrder(orderFor({ branch }));
    expect(byDefault.zone).toEqual(found?.routesTo?.zone);
    expect(byDefault.fleet).toEqual(found?.routesTo?.fleet);
    const { connectedZones = [] } = found ?? {};
    expect(connectedZones.map(({ code }) => code)).toContain(zoneCode);
    for (const { code, name } of connectedZones)
      expect((await test.client.quoteOrder(orderFor({ branch, zoneCode: code }))).zone).toEqual({
        code,
        name,
      });
    await test.client.createOrder(orderFor({ branch, zoneCode }));
  });

  it("states the distance in kilometres with at most two decimals", async () => {
    const { distance } = await test.client.quoteOrder(orderFor());
    expect(distance).toBeGreaterThan(0);
    expect(Number(distance.toFixed(2))).toBe(distance);
  });

  it("stores nothing, whether it succeeds or is refused", async () => {
    const since = clockNow();
    const before = await countOrders(test, since);
    const order = orderFor();
    await test.client.quoteOrder(order);
    const refused = orderTo(world.addresses.notFound, { externalOrderId: order.externalOrderId });
    await expect(test.client.quoteOrder(refused)).rejects.toMatchObject({ code: "address_not_found" });
    expect(await countOrders(test, since)).toBe(before);
    await expect(test.client.getOrder(order.externalOrderId)).rejects.toMatchObject({ status: 404 });
  });

  it("records no charge, even with a live key", async () => {
    const before = await figures("sandbox");
    await live.client.quoteOrder(orderFor());
    const after = await figures("sandbox");
    expect({ orders: after.orders, charges: after.charges }).toEqual({
      orders: before.orders,
      charges: before.charges,
    });
  });

  it("ignores externalOrderId: no 409 for a used one, and a new one stays free", async () => {
    const order = orderFor();
    await test.client.quoteOrder(order);
    await test.client.createOrder(order);
    expect((await test.client.quoteOrder(order)).schedule.mode).toBe("asap");
  });

  /** Conditions may change between the two, as when a minute ends; then the next pair agrees. */
  const compare = async (pair: () => Promise<readonly [unknown, unknown]>) => {
    const first = await pair();
    return JSON.stringify(first[0]) === JSON.stringify(first[1]) ? first : pair();
  };

  it("returns the times that an order with the same body gets", async () => {
    const { client } = test;
    const [quoted, agreed] = await compare(async () => {
      const order = orderFor();
      const { schedule } = await client.quoteOrder(order);
      return [schedule.resolved, (await client.createOrder(order)).schedule.resolved];
    });
    expect(quoted).toEqual(agreed);
  });

  it("answers test and live keys in the same way", async () => {
    const [ofTest, ofLive] = await compare(async () => {
      const order = orderFor();
      const { request_id: _, ...inTest } = await test.client.quoteOrder(order);
      const { request_id: __, ...inLive } = await live.client.quoteOrder(order);
      return [inTest, inLive];
    });
    expect(ofTest).toEqual(ofLive);
  });
});

it("errors of POST /v1/orders/quote are those of creation: branch, address and coverage", async () => {
  const refused = [
    orderFor({ branch: world.unconnectedBranch }),
    orderFor({ branch: world.closedBranch }),
    orderFor({ branch: "no-such-branch" }),
    orderFor(world.uncoveredZone),
    orderFor({ zoneCode: "no-such-zone" }),
    orderTo(world.addresses.notFound),
    orderTo(world.addresses.ambiguous),
    orderTo(world.addresses.lowConfidence),
  ];
  for (const order of refused) {
    const quoted = await test.ask("POST", "/v1/orders/quote", order);
    const created = await test.ask("POST", "/v1/orders", order);
    expect([quoted.status, quoted.code]).toEqual([created.status, created.code]);
    expect(quoted.status).toBeGreaterThanOrEqual(400);
  }
});
