import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTarget, orderFor } from "../../support/contract/contractTarget.ts";
import type { ContractTarget } from "../../support/contract/contractTarget.ts";

/** The spec, "GET /v1/branches : list branches" and "Branch object". */
let target: ContractTarget;
beforeAll(async () => {
  target = await openTarget();
});
afterAll(() => target.close());

const UUID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const branches = async () => (await target.test.client.listBranches()).data;

describe("GET /v1/branches", () => {
  it("answers 200 with data, hasMore and request_id", async () => {
    const answer = await target.test.ask("GET", "/v1/branches");
    expect(answer.status).toBe(200);
    expect(answer.body).toMatchObject({
      data: expect.any(Array),
      hasMore: expect.any(Boolean),
      request_id: expect.any(String),
    });
  });

  it("lists no closed branch", async () => {
    expect((await branches()).map(({ reference }) => reference)).not.toContain(target.world.closedBranch);
  });

  it("lists only the organization's own branches, the same for both modes", async () => {
    const inLive = (await target.live.client.listBranches()).data;
    expect(inLive).toEqual(await branches());
    const ids = new Set((await branches()).map(({ id }) => id));
    for (const elsewhere of [target.other, target.standard]) {
      const { data } = await elsewhere.client.listBranches();
      expect(data.length).toBeGreaterThan(0);
      expect(data.filter(({ id }) => ids.has(id))).toEqual([]);
    }
  });

  it("401 invalid_api_key without a valid key", async () => {
    await expect(target.as("dos_test_unknown").client.listBranches()).rejects.toMatchObject({
      status: 401,
      code: "invalid_api_key",
    });
  });
});

describe("a branch", () => {
  it("has a UUID as its id", async () => {
    for (const { id } of await branches()) expect(id).toMatch(UUID);
  });

  it("has a unique reference that is not a UUID, or null", async () => {
    const references = (await branches()).flatMap(({ reference }) => (reference === null ? [] : [reference]));
    expect(new Set(references).size).toBe(references.length);
    for (const reference of references) expect(reference).not.toMatch(UUID);
  });

  it("has a null reference until one is set", async () => {
    expect((await branches()).some(({ reference }) => reference === null)).toBe(true);
  });

  it("routes to its primary connection, or to null without one", async () => {
    for (const { routesTo, connectedZones } of await branches()) {
      const primaries = connectedZones.filter(({ isPrimary }) => isPrimary);
      expect(primaries.length).toBeLessThanOrEqual(1);
      expect(routesTo?.zone ?? null).toEqual(
        primaries[0] === undefined ? null : { code: primaries[0].code, name: primaries[0].name },
      );
    }
    const unconnected = (await branches()).find(
      ({ reference }) => reference === target.world.unconnectedBranch,
    );
    expect(unconnected?.routesTo).toBeNull();
  });

  it("with a null reference is identified by its id", async () => {
    const unnamed = (await branches()).find(
      ({ reference, routesTo }) => reference === null && routesTo !== null,
    );
    expect(unnamed === undefined).toBe(false);
    const order = orderFor(target.world, { branch: unnamed?.id ?? "" });
    expect((await target.test.client.createOrder(order)).readOrder().fleet).toEqual(unnamed?.routesTo?.fleet);
  });

  it("gets no other primary connection when its own is deactivated", async () => {
    const { control, world, test } = target;
    const branch = world.secondZone.branch;
    const before = (await branches()).find(({ reference }) => reference === branch);
    const primary = before?.routesTo?.zone.code ?? "";
    await control.deactivatePrimary(branch);
    const after = (await branches()).find(({ reference }) => reference === branch);
    expect(after?.routesTo).toBeNull();
    expect(after?.connectedZones.some(({ isPrimary }) => isPrimary)).toBe(false);
    expect(after?.connectedZones.map(({ code }) => code)).toContain(world.secondZone.zoneCode);
    await expect(test.client.createOrder(orderFor(world, { branch }))).rejects.toMatchObject({
      code: "branch_not_connected",
    });
    await control.connectPrimary(branch, primary);
    expect((await branches()).find(({ reference }) => reference === branch)?.routesTo).toEqual(
      before?.routesTo,
    );
  });
});
