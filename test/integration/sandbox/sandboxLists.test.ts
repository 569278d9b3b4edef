import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { listOrdersResponseSchema } from "../../../src/wire/api.ts";
import type { WireOrder } from "../../../src/wire/order.ts";
import { LIVE, makeTestSandbox, orderBody, TEST } from "../../support/providers/testSandbox.ts";
import type { TestSandbox } from "../../support/providers/testSandbox.ts";

let world: TestSandbox;
const orders: WireOrder[] = [];

const address = { street: "Voorstraat 3", city: "Utrecht", postcode: "3512 AN" };
const inUtrecht = { firstName: "Bram", phone: "2", address };

/** Seven orders, an hour apart, at two branches. */
beforeAll(async () => {
  world = await makeTestSandbox({ clock: "virtual" });
  for (let count = 0; count < 7; count += 1) {
    const answer = await world.ask("POST", "/v1/orders", {
      body: count % 2 === 0 ? orderBody() : orderBody({ branch: "utrecht", customer: inUtrecht }),
    });
    orders.push(answer.json);
    await world.steer("POST", "/clock", { advanceMs: 3_600_000 });
  }
  await world.ask("POST", "/v1/orders", { key: TEST, body: orderBody() });
});
afterAll(() => world.close());

const list = (query: Record<string, string | number>, key = LIVE) =>
  world.ask("GET", `/v1/orders?${new URLSearchParams(query as Record<string, string>).toString()}`, { key });
const references = async (query: Record<string, string | number>) => {
  const answer = await list(query);
  expect([answer.status, answer.text]).toEqual([200, answer.text]);
  return listOrdersResponseSchema.parse(answer.json).data.map((order) => order.reference);
};
const named = (...places: number[]) => places.map((place) => orders[place]!.reference);

describe("one page", () => {
  it("has full order objects without request_id, and the list's own fields", async () => {
    const answer = await list({});
    expect(Object.keys(answer.json).sort()).toEqual(["data", "hasMore", "limit", "offset", "request_id"]);
    expect(answer.json).toMatchObject({ hasMore: false, limit: 50, offset: 0 });
    for (const order of answer.json.data) expect(order).not.toHaveProperty("request_id");
    const one = await world.ask("GET", `/v1/orders/${orders[0]!.reference}`);
    const { request_id: _requestId, ...order } = one.json;
    expect(answer.json.data).toContainEqual(order);
  });

  it("shows one mode of one organization", async () => {
    expect((await list({})).json.data).toHaveLength(7);
    expect((await list({}, TEST)).json.data).toHaveLength(1);
    expect((await list({}, "dos_live_other")).json.data).toHaveLength(0);
  });

  it("reports whether there are more, even at the boundary", async () => {
    expect((await list({ limit: 6 })).json).toMatchObject({ hasMore: true, limit: 6 });
    expect((await list({ limit: 7 })).json).toMatchObject({ hasMore: false, limit: 7 });
    expect((await list({ limit: 3, offset: 4 })).json).toMatchObject({ hasMore: false, offset: 4 });
    expect((await list({ limit: 2, offset: 4 })).json).toMatchObject({ hasMore: true });
    expect((await list({ offset: 100 })).json).toMatchObject({ data: [], hasMore: false });
  });

  it("returns every order once across pages", async () => {
    const pages = await Promise.all([0, 2, 4, 6].map((offset) => references({ limit: 2, offset })));
    expect(pages.flat()).toEqual(await references({}));
  });
});

describe("filters", () => {
  it("updatedSince is inclusive, updatedUntil exclusive", async () => {
    const updatedSince = orders[2]!.updatedAt;
    const updatedUntil = orders[4]!.updatedAt;
    expect(await references({ updatedSince, updatedUntil })).toEqual(named(2, 3));
    expect(await references({ updatedSince, updatedUntil: updatedSince })).toEqual([]);
  });

  it("updatedSince and updatedUntil come together or not at all", async () => {
    for (const name of ["updatedSince", "updatedUntil"]) {
      const answer = await list({ [name]: orders[2]!.updatedAt });
      expect([answer.status, answer.json.error.code]).toEqual([422, "updated_period_incomplete"]);
      expect(answer.json.request_id).toMatch(/^req_/);
    }
  });

  it.each([
    ["pickup", "pickupTime"],
    ["delivery", "deliveryTime"],
  ] as const)("%s periods filter planned times, each bound also alone", async (name, field) => {
    const from = String(orders[2]![field]);
    const until = String(orders[5]![field]);
    expect(await references({ [`${name}From`]: from, [`${name}Until`]: until })).toEqual(named(2, 3, 4));
    expect(await references({ [`${name}From`]: from })).toEqual(named(2, 3, 4, 5, 6));
    expect(await references({ [`${name}Until`]: until })).toEqual(named(0, 1, 2, 3, 4));
  });

  it("combine with AND", async () => {
    const { branch } = orders[1]! as WireOrder & { branch: { id: string } };
    const pickupFrom = String(orders[2]!.pickupTime);
    expect(await references({ branch: "utrecht" })).toEqual(named(1, 3, 5));
    expect(await references({ branch: branch.id, pickupFrom })).toEqual(named(3, 5));
    expect(await references({ branch: "utrecht", pickupFrom, status: "cancelled" })).toEqual([]);
    expect(await references({ branch: "utrecht", pickupFrom, status: "created" })).toEqual(named(3, 5));
  });

  it("take a closed branch, and refuse one that does not exist", async () => {
    expect(await references({ branch: "leiden" })).toEqual([]);
    for (const branch of ["noord", "Utrecht", "00000000-0000-4000-8000-000000000000"]) {
      const answer = await list({ branch });
      expect([answer.status, answer.json.error.code]).toEqual([422, "branch_not_found"]);
    }
  });

  it("accept any time zone offset, to the nanosecond", async () => {
    const utc = "2026-01-05T10:00:00.002000000Z";
    expect(orders[2]!.updatedAt).toBe("2026-01-05T11:00:00.002+01:00");
    const updatedUntil = "2027-01-01T00:00:00Z";
    expect(await references({ updatedSince: utc, updatedUntil })).toEqual(named(2, 3, 4, 5, 6));
    const justAfter = "2026-01-05T10:00:00.002000001Z";
    expect(await references({ updatedSince: justAfter, updatedUntil })).toEqual(named(3, 4, 5, 6));
  });

  it("refuse invalid values", async () => {
    const wrong: Record<string, string>[] = [
      { status: "on_fire" },
      { status: "" },
      { sort: "createdAt" },
      { limit: "0" },
      { limit: "201" },
      { limit: "ten" },
      { limit: "1.5" },
      { offset: "-1" },
      { pickupFrom: "yesterday" },
      { pickupFrom: "2026-01-05T10:00:00" },
      { updatedSince: "2026-01-05T10:00:00Z", updatedUntil: "2026-13-05T10:00:00Z" },
    ];
    for (const query of wrong) {
      const answer = await list(query);
      expect([answer.status, answer.json.error.code, query]).toEqual([422, "invalid_request", query]);
    }
    const twice = await world.ask("GET", "/v1/orders?limit=1&limit=2");
    expect(twice.status).toBe(422);
    expect((await list({ limit: 200 })).status).toBe(200);
  });

  it("explain how to write an offset whose + became a space", async () => {
    const answer = await world.ask("GET", "/v1/orders?pickupFrom=2026-01-05T10:00:00+01:00");
    expect(answer.status).toBe(422);
    expect(answer.json.error.message).toContain("%2B");
  });
});

describe("sorting", () => {
  it("is by updatedAt, or by the planned pickup time", async () => {
    await world.ask("POST", `/v1/orders/${orders[0]!.reference}/cancel`);
    expect(await references({})).toEqual(named(1, 2, 3, 4, 5, 6, 0));
    expect(await references({ sort: "updatedAt" })).toEqual(named(1, 2, 3, 4, 5, 6, 0));
    expect(await references({ sort: "pickupTime" })).toEqual(named(0, 1, 2, 3, 4, 5, 6));
  });
});
