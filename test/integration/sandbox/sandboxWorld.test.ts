import { afterEach, describe, expect, it } from "vitest";
import { startSandbox, type SandboxOptions } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import {
  makeTestSandbox,
  orderBody,
  speakTo,
  TEST,
  type TestSandbox,
} from "../../support/providers/testSandbox.ts";

const worlds: TestSandbox[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.close();
});
const open = async (options: Partial<SandboxOptions> = {}) => {
  const world = await makeTestSandbox({ clock: "virtual", ...options });
  worlds.push(world);
  return world;
};

/** Everything that a client can see, as text. */
async function lookAt(world: ReturnType<typeof speakTo>): Promise<string> {
  const { orders } = await world.steer("GET", "/orders?mode=live");
  const tests = await world.steer("GET", "/orders?mode=test");
  const events = await world.steer("GET", "/events?limit=5000");
  const branches = (await world.ask("GET", "/v1/branches")).json.data;
  // Deliveries take real time.
  const bare = events.map((event: object) => ({ ...event, deliveries: null }));
  return JSON.stringify([orders, tests.orders, bare, branches]);
}

/** Twenty minutes of traffic, with a fleet, lost events and a few requests. */
async function live(world: TestSandbox): Promise<void> {
  await world.steer("POST", "/faults", { loseShare: 0.2, lateCommitShare: 0.1 });
  for (let count = 0; count < 3; count += 1) {
    await world.ask("POST", "/v1/orders", { body: orderBody({ externalOrderId: `own-${count}` }) });
    await world.sandbox.advance(3 * 60_000 + count);
  }
  await world.ask("POST", "/v1/orders/own-1/cancel");
  await world.sandbox.advance(12 * 60_000);
}

it("the same seed produces the same orders, events and timestamps, and another seed others", async () => {
  const options = { speed: 4, trafficPerMinute: 1 };
  const seen: string[] = [];
  for (const seed of [11, 11, 12]) {
    const world = await open({ ...options, seed });
    await live(world);
    seen.push(await lookAt(world));
  }
  expect(JSON.parse(seen[0]!)[0].length).toBeGreaterThan(20);
  expect(JSON.parse(seen[0]!)[2].length).toBeGreaterThan(30);
  expect(seen[1]).toBe(seen[0]);
  expect(seen[2]).not.toBe(seen[0]);
});

describe("a restart", () => {
  it("keeps the world, moves it with another speed, and begins another with another seed", async () => {
    const database = await makeTestDatabase();
    const start = async (options: Partial<SandboxOptions>) => {
      const settings = { databaseUrl: database.url, port: 0, clock: "virtual", rateLimits: false } as const;
      return speakTo(await startSandbox({ ...settings, ...options }));
    };
    const first = await start({ speed: 0, seed: 4 });
    const kept = "/v1/orders/kept";
    await first.ask("POST", "/v1/orders", { body: orderBody({ externalOrderId: "kept" }) });
    await first.ask("POST", "/v1/orders", { key: TEST, body: orderBody({ externalOrderId: "kept" }) });
    await first.steer("POST", "/organizations/sandbox", { plan: "standard" });
    await first.sandbox.advance(86_400_000);
    expect((await first.ask("GET", kept)).json.status).toBe("created");
    const before = await lookAt(first);
    const stoodAt = first.sandbox.now();
    await first.sandbox.close();
    const second = await start({ speed: 10 });
    expect(await lookAt(second)).toBe(before);
    expect(second.sandbox.now()).toBe(stoodAt);
    expect((await second.ask("POST", "/v1/orders/quote", { body: orderBody() })).status).toBe(403);
    await second.sandbox.advance(3_600_000);
    const { status, createdAt, realPickupTime, realDeliveryTime } = (await second.ask("GET", kept)).json;
    expect([status, createdAt < realPickupTime, realPickupTime < realDeliveryTime]).toEqual([
      "delivered",
      true,
      true,
    ]);
    // The fleet never moves a test order.
    expect((await second.ask("GET", kept, { key: TEST })).json.status).toBe("created");
    await second.sandbox.close();
    const other = await start({ speed: 0, seed: 5 });
    expect((await other.ask("GET", kept)).status).toBe(404);
    await other.sandbox.close();
    await database.drop();
  });

  it("is refused with a clear message when the database or the port is unavailable or taken", async () => {
    const away = startSandbox({ databaseUrl: "postgres://nobody@127.0.0.1:1/none", port: 0 });
    await expect(away).rejects.toMatchObject({ name: "UnavailableError" });
    const world = await open();
    const database = await makeTestDatabase();
    const taken = startSandbox({ databaseUrl: database.url, port: world.sandbox.port });
    await expect(taken).rejects.toMatchObject({ name: "UnavailableError" });
    await database.drop();
    const second = startSandbox({ databaseUrl: world.database.url, port: 0 });
    await expect(second).rejects.toMatchObject({ message: "Another sandbox uses this database." });
  });
});

it("a past is created in any size, the same for the same seed, with charges and without events", async () => {
  const world = await open();
  const period = { since: "2025-12-01T00:00:00Z", until: "2026-01-05T00:00:00Z" };
  expect(await world.steer("POST", "/seed", { orders: 3_000, ...period })).toEqual({ orders: 3_000 });
  const first = (await world.steer("GET", "/orders")).orders;
  expect(first).toHaveLength(3_000);
  const { orders: head, next } = await world.steer("GET", "/orders?limit=2000");
  const { orders: rest, next: last } = await world.steer("GET", `/orders?limit=2000&after=${next}`);
  expect([[...head, ...rest], last]).toEqual([first, null]);
  expect(new Set(first.map((order: { reference: string }) => order.reference)).size).toBe(3_000);
  const statuses = new Set(first.map((order: { status: string }) => order.status));
  expect(statuses).toContain("delivered");
  expect(statuses).toContain("cancelled");
  const { organizations } = await world.steer("GET", "/state");
  expect(organizations[1]).toMatchObject({ orders: 3_000, charges: 3_000 });
  expect(await world.steer("GET", "/events")).toEqual([]);
  // The last thirty days, unless another period is given.
  await world.steer("POST", "/seed", { orders: 2, organization: "other" });
  const { orders: ofOther } = await world.steer("GET", "/orders?organization=other");
  expect(ofOther.map((order: { createdAt: string }) => order.createdAt)).toEqual([
    "2025-12-06T09:00:00.000+01:00",
    "2025-12-21T09:00:00.000+01:00",
  ]);
  const again = await open();
  await again.steer("POST", "/seed", { orders: 3_000, ...period });
  expect((await again.steer("GET", "/orders")).orders).toEqual(first);
});
