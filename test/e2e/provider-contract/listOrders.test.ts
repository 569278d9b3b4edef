import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import type { ListOrdersQuery, ShownOrder } from "../../support/contract/contractClient.ts";
import { isRefused, openTarget, orderFor } from "../../support/contract/contractTarget.ts";

/** The spec, "GET /v1/orders : list orders". */
/** More than a default page, at two branches, some in later statuses. In the sequence of creation. */
let made: ShownOrder[];

const ORDERS = 55;
const SECOND = 1_000_000_000n;

const target = await openTarget();
const { test, world, live, other } = target;
beforeAll(async () => {
  made = [];
  for (let index = 0; index < ORDERS; index += 1) {
    const branch = index % 5 === 0 ? world.secondBranch : world.branch;
    const { reference } = await test.client.createOrder(orderFor({ branch }));
    if (index % 11 === 0) await advanceTo(reference, "picked_up");
    else if (index % 11 === 1) await test.client.cancelOrder(reference);
    made.push(await test.client.getOrder(reference));
  }
});
afterAll(() => target.close());

async function advanceTo(reference: string, status: string): Promise<void> {
  for (let steps = 0; steps < 10; steps += 1) {
    if ((await test.client.advanceTestOrder(reference)).status === status) return;
  }
  throw new Error(`the order never reached ${status}`);
}

async function list(query: ListOrdersQuery): Promise<ShownOrder[]> {
  const orders: ShownOrder[] = [];
  for (let offset = 0; ; offset += 200) {
    const page = await test.client.listOrders({ limit: 200, ...query, offset });
    orders.push(...page.data);
    if (!page.hasMore) return orders;
  }
}

const references = (orders: readonly ShownOrder[]) => orders.map(({ reference }) => reference).sort();
const listReferences = async (query: ListOrdersQuery) => references(await list(query));
const madeWhere = (test: (order: ShownOrder) => boolean) => references(made.filter(test));
const planned = (order: ShownOrder, field: "pickupTime" | "deliveryTime") => parseInstant(order[field] ?? "");

describe("the response of GET /v1/orders", () => {
  it("is data, hasMore, limit, offset and request_id, with 200", async () => {
    const answer = await test.ask("GET", "/v1/orders");
    expect(answer.status).toBe(200);
    expect(Object.keys(answer.body).sort()).toEqual(["data", "hasMore", "limit", "offset", "request_id"]);
  });

  it("has full order objects without a request_id in them", async () => {
    const since = parseInstant(made[0]!.updatedAt);
    const period = { updatedSince: since, updatedUntil: since + 3_600n * SECOND };
    const answer = await test.client.listOrders({ ...period, limit: 200 });
    for (const order of answer.data) expect(order).not.toHaveProperty("request_id");
    const first = made[0]!;
    const listed = answer.data.find(({ reference }) => reference === first.reference);
    const { request_id: _, ...read } = (await test.ask("GET", `/v1/orders/${first.reference}`)).body;
    expect(listed).toEqual(read);
  });

  it("has every order of the mode, whatever its status", async () => {
    expect(await listReferences({})).toEqual(references(made));
  });

  it("has no order of the other mode, or of another organization", async () => {
    const { reference } = await live.client.createOrder(orderFor());
    expect(references((await live.client.listOrders({})).data)).toEqual([reference]);
    expect(await listReferences({})).not.toContain(reference);
    expect((await other.client.listOrders({})).data).toEqual([]);
  });
});

describe("limit and offset", () => {
  it("default to 50 and 0", async () => {
    const page = await test.client.listOrders({});
    expect(page).toMatchObject({ limit: 50, offset: 0, hasMore: true });
    expect(page.data).toHaveLength(50);
  });

  it("reach every order exactly once, and hasMore marks the end", async () => {
    const seen: string[] = [];
    for (let offset = 0; offset < 1_000; offset += 7) {
      const page = await test.client.listOrders({ limit: 7, offset });
      const { data } = page;
      expect(page).toMatchObject({ limit: 7, offset });
      expect(data.length === 7 || !page.hasMore).toBe(true);
      seen.push(...references(data));
      if (!page.hasMore) break;
    }
    expect(seen.sort()).toEqual(references(made));
    expect(new Set(seen).size).toBe(seen.length);
  });

  it("hasMore is false when the page ends with the last order", async () => {
    const total = (await list({})).length;
    const last = await test.client.listOrders({ limit: 5, offset: total - 5 });
    expect([last.data.length, last.hasMore]).toEqual([5, false]);
    const before = await test.client.listOrders({ limit: 5, offset: total - 6 });
    expect([before.data.length, before.hasMore]).toEqual([5, true]);
  });

  it("beyond the end give an empty page", async () => {
    const page = await test.client.listOrders({ offset: 1_000_000 });
    expect([page.data, page.hasMore]).toEqual([[], false]);
  });

  it("allow 200 orders, but no more", async () => {
    expect((await test.client.listOrders({ limit: 200 })).limit).toBe(200);
    const answer = await test.ask("GET", "/v1/orders?limit=201");
    expect(isRefused(answer) || Number(answer.body["limit"]) <= 200).toBe(true);
  });

  it.each(["limit=0", "limit=-1", "limit=x", "limit=1.5", "offset=-1", "offset=x", "sort=reference"])(
    "refuse %s, or take it for a default, without a failure",
    async (query) => {
      expect((await test.ask("GET", `/v1/orders?${query.toString()}`)).status).toBeLessThan(500);
    },
  );
});

describe("the update period", () => {
  it("includes its start and excludes its end", async () => {
    for (const { reference, updatedAt } of made.slice(0, 5)) {
      const at = parseInstant(updatedAt);
      expect(await listReferences({ updatedSince: at, updatedUntil: at + SECOND })).toContain(reference);
      expect(await listReferences({ updatedSince: at - SECOND, updatedUntil: at })).not.toContain(reference);
    }
  });

  it("finds exactly the orders within it", async () => {
    const instants = made
      .map(({ updatedAt }) => parseInstant(updatedAt))
      .sort((left, right) => (left < right ? -1 : 1));
    const [since, until] = [instants[10]!, instants[40]!];
    expect(await listReferences({ updatedSince: since, updatedUntil: until })).toEqual(
      madeWhere(({ updatedAt }) => parseInstant(updatedAt) >= since && parseInstant(updatedAt) < until),
    );
  });

  it("accepts any time zone offset for the same instant", async () => {
    const { updatedAt, reference } = made[7]!;
    const at = parseInstant(updatedAt);
    const inOffset = (instant: bigint, hours: number) =>
      formatInstant(instant + BigInt(hours) * 3_600n * SECOND).replace("Z", `+0${hours}:00`);
    const query = new URLSearchParams({
      updatedSince: inOffset(at, 5),
      updatedUntil: inOffset(at + SECOND, 2),
      limit: "200",
    });
    const answer = await test.ask("GET", `/v1/orders?${query.toString()}`);
    expect(answer.status).toBe(200);
    expect(JSON.stringify(answer.body["data"])).toContain(reference);
  });

  it("is refused with 422 if it has only a start, or only an end", async () => {
    for (const end of ["updatedSince", "updatedUntil"])
      expect((await test.ask("GET", `/v1/orders?${end}=2026-11-20T12:00:00Z`)).status).toBe(422);
  });

  it("refuses a value that is not a time with an offset", async () => {
    for (const time of ["yesterday", "2026-11-20T12:00:00", "", "1790000000"]) {
      const query = new URLSearchParams({ updatedSince: time, updatedUntil: "2026-11-20T12:00:00Z" });
      expect([time, isRefused(await test.ask("GET", `/v1/orders?${query.toString()}`))]).toEqual([
        time,
        true,
      ]);
    }
  });
});

describe.each([
  ["pickup", "pickupTime", "pickupFrom", "pickupUntil"],
  ["delivery", "deliveryTime", "deliveryFrom", "deliveryUntil"],
] as const)("the %s period", (_, field, from, until) => {
  it("may have only a start, which it includes, only an end, which it excludes, or both", async () => {
    const { reference } = made[20]!;
    const at = planned(made[20]!, field);
    expect(await listReferences({ [from]: at })).toEqual(madeWhere((order) => planned(order, field) >= at));
    expect(await listReferences({ [from]: at + SECOND })).not.toContain(reference);
    expect(await listReferences({ [until]: at })).toEqual(madeWhere((order) => planned(order, field) < at));
    expect(await listReferences({ [until]: at + SECOND })).toContain(reference);
    expect(await listReferences({ [from]: at, [until]: at + SECOND })).toContain(reference);
    expect(await listReferences({ [from]: at - SECOND, [until]: at })).not.toContain(reference);
  });
});

it("the pickup period filters the planned time, not the actual one", async () => {
  const order = made.find(({ realPickupTime }) => typeof realPickupTime === "string");
  const real = parseInstant(order?.realPickupTime ?? "");
  expect(planned(order!, "pickupTime")).not.toBe(real);
  const around = { pickupFrom: real - SECOND, pickupUntil: real + SECOND };
  expect(await listReferences(around)).not.toContain(order!.reference);
});

describe("status and branch", () => {
  it.each(["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "cancelled"])(
    "status %s finds the orders with it and no others",
    async (status) => {
      expect(await listReferences({ status })).toEqual(madeWhere((order) => order.status === status));
    },
  );

  it("branch finds the branch's orders, by reference and by id", async () => {
    const branch = world.secondBranch;
    const id =
      (await test.client.listBranches()).data.find(({ reference }) => reference === branch)?.id ?? "";
    const expected = references(made.filter((_, index) => index % 5 === 0));
    expect(await listReferences({ branch })).toEqual(expected);
    expect(await listReferences({ branch: id })).toEqual(expected);
    expect(await listReferences({ branch: id.toUpperCase() })).toEqual(expected);
  });

  it("branch may be closed", async () => {
    const answer = await test.ask("GET", `/v1/orders?branch=${world.closedBranch}`);
    expect(answer.status).toBe(200);
  });

  it("branch that matches none causes an error, not an empty page", async () => {
    const { secondBranch, standardBranch } = world;
    const unmatched = ["no-such-branch", crypto.randomUUID(), secondBranch.toUpperCase(), standardBranch];
    for (const branch of unmatched) {
      const answer = await test.ask("GET", `/v1/orders?branch=${branch}`);
      expect([branch, isRefused(answer)]).toEqual([branch, true]);
    }
  });

  it("are combined with AND, and with the periods", async () => {
    const { branch } = world;
    const at = planned(made[20]!, "pickupTime");
    const [since, until] = [parseInstant(made[0]!.updatedAt), parseInstant(made.at(-1)!.updatedAt)];
    const query = { branch, status: "cancelled", pickupFrom: at, updatedSince: since, updatedUntil: until };
    expect(await listReferences(query)).toEqual(
      references(
        made.filter(
          (order, index) =>
            index % 5 !== 0 &&
            order.status === "cancelled" &&
            planned(order, "pickupTime") >= at &&
            parseInstant(order.updatedAt) >= since &&
            parseInstant(order.updatedAt) < until,
        ),
      ),
    );
  });
});

describe("sort", () => {
  const isMonotone = (instants: readonly bigint[]) => {
    const steps = instants.slice(1).map((instant, index) => instant - instants[index]!);
    return steps.every((step) => step >= 0n) || steps.every((step) => step <= 0n);
  };

  it("is by updatedAt by default", async () => {
    const orders = await list({});
    expect(isMonotone(orders.map(({ updatedAt }) => parseInstant(updatedAt)))).toBe(true);
    expect(orders).toEqual(await list({ sort: "updatedAt" }));
  });

  it("by pickupTime uses the planned time", async () => {
    const orders = await list({ sort: "pickupTime" });
    expect(isMonotone(orders.map((order) => planned(order, "pickupTime")))).toBe(true);
    expect(references(orders)).toEqual(references(made));
  });
});
