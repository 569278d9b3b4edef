import { afterAll, describe, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";

/** The spec, "Resources and their fields". The order object is checked wherever one is read: contractClient.ts. */
const target = await openTarget();
const { live, test, steer, world, other, standard } = target;
afterAll(() => target.close());

it("every response has a new request_id", async () => {
  const answers = [];
  for (let index = 0; index < 5; index += 1) {
    answers.push(await test.ask("GET", "/v1/branches"));
    answers.push(await test.ask("GET", "/v1/orders/no-such-order"));
  }
  const ids = answers.map(({ body }) => body["request_id"]);
  expect(new Set(ids).size).toBe(10);
  expect(ids.every((id) => typeof id === "string" && id !== "")).toBe(true);
});

it("the customer may have a phone number in any form", async () => {
  for (const phone of ["+31 (0)6 12-34-56-78", "0612345678", "020 / 123 ext. 4"]) {
    const { customer, ...order } = orderFor();
    const answer = await test.ask("POST", "/v1/orders", {
      ...order,
      customer: { ...customer, phone },
    });
    expect([phone, answer.status]).toEqual([phone, 201]);
  }
});

it("no endpoint returns a price", async () => {
  const { reference } = await test.client.createOrder(orderFor());
  const answers = [
    await test.ask("GET", `/v1/orders/${reference}`),
    await test.ask("GET", "/v1/orders"),
    await test.ask("GET", "/v1/branches"),
    await test.ask("POST", "/v1/orders/quote", orderFor()),
    await test.ask("POST", "/v1/addresses/validate", world.addresses.valid),
    await test.ask("POST", `/v1/orders/${reference}/cancel`),
  ];
  for (const { body } of answers) {
    expect(JSON.stringify(body)).not.toMatch(/"[^"]*(?:price|cost|amount|currency)[^"]*":/i);
  }
});

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const branches = async () => (await test.client.listBranches()).data;

describe("GET /v1/branches", () => {
  it("answers 200 with data, hasMore and request_id, and lists no closed branch", async () => {
    const answer = await test.ask("GET", "/v1/branches");
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      data: expect.any(Array),
      hasMore: expect.any(Boolean),
      request_id: expect.any(String),
    });
    expect((await branches()).map(({ reference }) => reference)).not.toContain(world.closedBranch);
  });

  it("lists only the organization's own branches, the same for both modes", async () => {
    const inLive = (await live.client.listBranches()).data;
    expect(inLive).toEqual(await branches());
    const ids = new Set((await branches()).map(({ id }) => id));
    for (const elsewhere of [other, standard]) {
      const { data } = await elsewhere.client.listBranches();
      expect(data.length).toBeGreaterThan(0);
      expect(data.filter(({ id }) => ids.has(id))).toEqual([]);
    }
  });
});

describe("a branch", () => {
  it("has a UUID as its id, and a unique reference that is none, or null until one is set", async () => {
    const listed = await branches();
    for (const { id } of listed) expect(id).toMatch(UUID);
    const references = listed.flatMap(({ reference }) => (reference === null ? [] : [reference]));
    expect(new Set(references).size).toBe(references.length);
    expect(references.length).toBeLessThan(listed.length);
    for (const reference of references) expect(reference).not.toMatch(UUID);
  });

  it("routes to its primary connection, or to null without one", async () => {
    for (const { routesTo, connectedZones } of await branches()) {
      const primaries = connectedZones.filter(({ isPrimary }) => isPrimary);
      expect(primaries.length).toBeLessThanOrEqual(1);
      expect(routesTo?.zone ?? null).toEqual(
        primaries[0] === undefined ? null : { code: primaries[0].code, name: primaries[0].name },
      );
    }
    const unconnected = (await branches()).find(({ reference }) => reference === world.unconnectedBranch);
    expect(unconnected?.routesTo).toBeNull();
  });

  it("with a null reference is identified by its id", async () => {
    const unnamed = (await branches()).find(
      ({ reference, routesTo }) => reference === null && routesTo !== null,
    );
    expect(unnamed === undefined).toBe(false);
    const order = orderFor({ branch: unnamed?.id ?? "" });
    expect((await test.client.createOrder(order)).fleet).toEqual(unnamed?.routesTo?.fleet);
  });

  it("gets no other primary connection when its own is deactivated", async () => {
    const branch = world.secondZone.branch;
    const before = (await branches()).find(({ reference }) => reference === branch);
    const primary = before?.routesTo?.zone.code ?? "";
    await steer("POST", `/branches/${branch}`, { primary: null });
    const after = (await branches()).find(({ reference }) => reference === branch);
    expect(after?.routesTo).toBeNull();
    expect(after?.connectedZones.some(({ isPrimary }) => isPrimary)).toBe(false);
    expect(after?.connectedZones.map(({ code }) => code)).toContain(world.secondZone.zoneCode);
    await expect(test.client.createOrder(orderFor({ branch }))).rejects.toMatchObject({
      status: 422,
      code: "branch_not_connected",
    });
    await steer("POST", `/branches/${branch}`, { primary });
    expect((await branches()).find(({ reference }) => reference === branch)?.routesTo).toEqual(
      before?.routesTo,
    );
  });
});
