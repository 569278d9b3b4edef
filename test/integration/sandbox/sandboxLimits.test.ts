import { parseList } from "structured-headers";
import { afterEach, describe, expect, it } from "vitest";
import { anAddress, LIVE, makeTestSandbox, orderBody, TEST } from "../../support/providers/testSandbox.ts";
import type { SandboxAnswer, TestSandbox } from "../../support/providers/testSandbox.ts";
import type { SandboxOptions } from "../../../src/sandbox/startSandbox.ts";

let world: TestSandbox;
afterEach(() => world.close());
const open = async (options: Partial<SandboxOptions> = {}) => {
  world = await makeTestSandbox({ rateLimits: true, clock: "virtual", ...options });
};

const list = (key = LIVE) => world.ask("GET", "/v1/orders?limit=1", { key });
const times = async (count: number, ask: () => Promise<SandboxAnswer>) => {
  const answers: SandboxAnswer[] = [];
  for (let place = 0; place < count; place += 1) answers.push(await ask());
  return answers;
};
const statuses = (answers: SandboxAnswer[]) => answers.map(({ status }) => status);
const repeat = (status: number, count: number) => Array.from({ length: count }, () => status);
const advance = (advanceMs: number) => world.steer("POST", "/clock", { advanceMs });

/** Parses the header by RFC 9651: name to parameters. */
function readHeader({ headers }: SandboxAnswer, name: string): Record<string, Record<string, unknown>> {
  const entries = parseList(headers.get(name) ?? "").map(([value, parameters]) => [
    value,
    Object.fromEntries(parameters),
  ]);
  return Object.fromEntries(entries);
}

describe("headers", () => {
  it("name the policies of the endpoint on every answer, also on refusals", async () => {
    await open();
    const sustained = { sustained: { q: 200, w: 10 } };
    const geocoding = { ...sustained, geocoding: { q: 100, w: 10 } };
    const answers: [SandboxAnswer, object][] = [
      [await list(), { ...sustained, "order-list": { q: 20, w: 10 } }],
      [await world.ask("POST", "/v1/orders", { body: orderBody() }), geocoding],
      [await world.ask("POST", "/v1/orders/quote", { body: {} }), geocoding],
      [await world.ask("POST", "/v1/addresses/validate", { body: anAddress() }), geocoding],
      [await world.ask("GET", "/v1/branches"), sustained],
      [await world.ask("GET", "/v1/orders/none"), sustained],
      [await world.ask("GET", "/v1/nothing"), sustained],
      [await world.ask("GET", "/v1/branches", { key: null }), sustained],
    ];
    for (const [answer, policies] of answers)
      expect(readHeader(answer, "ratelimit-policy")).toEqual(policies);
  });

  it("count down the remaining requests and the time to the reset", async () => {
    await open();
    expect(readHeader(await list(), "ratelimit")).toEqual({
      sustained: { r: 199, t: 10 },
      "order-list": { r: 19, t: 10 },
    });
    await advance(3_000);
    expect(readHeader(await list(), "ratelimit")).toEqual({
      sustained: { r: 198, t: 7 },
      "order-list": { r: 18, t: 7 },
    });
    await advance(7_000);
    expect(readHeader(await list(), "ratelimit")).toMatchObject({ "order-list": { r: 19, t: 10 } });
  });

  it("have a Date from the provider's clock", async () => {
    await open();
    expect((await list()).headers.get("date")).toBe("Mon, 05 Jan 2026 08:00:00 GMT");
    await advance(61_000);
    expect((await list()).headers.get("date")).toBe("Mon, 05 Jan 2026 08:01:01 GMT");
  });
});

describe("policies", () => {
  it("refuse the 21st list of ten seconds with Retry-After and a message that names the policy", async () => {
    await open();
    expect(statuses(await times(20, list))).toEqual(repeat(200, 20));
    await advance(4_000);
    const refused = await list();
    expect([refused.status, refused.json.error.code]).toEqual([429, "rate_limit_exceeded"]);
    expect(refused.headers.get("retry-after")).toBe("6");
    expect(refused.json.error.message).toContain("order-list");
    expect(readHeader(refused, "ratelimit")).toMatchObject({ "order-list": { r: 0, t: 6 } });
    expect((await world.ask("GET", "/v1/branches")).status).toBe(200);
    await advance(6_000);
    expect((await list()).status).toBe(200);
  });

  it("count creation, quote and address check together as geocoding", async () => {
    await open();
    const validate = () => world.ask("POST", "/v1/addresses/validate", { body: anAddress() });
    await times(98, validate);
    expect((await world.ask("POST", "/v1/orders/quote", { body: orderBody() })).status).toBe(200);
    expect((await world.ask("POST", "/v1/orders", { body: orderBody() })).status).toBe(201);
    const refused = await validate();
    expect(refused.status).toBe(429);
    expect(refused.json.error.message).toContain("geocoding");
  });

  it("count everything as sustained", async () => {
    await open();
    expect(statuses(await times(200, () => world.ask("GET", "/v1/branches")))).toEqual(repeat(200, 200));
    const refused = await list();
    expect(refused.status).toBe(429);
    expect(refused.json.error.message).toContain("sustained");
  });

  it("belong to the organization, all keys together, with separate counters for test mode", async () => {
    await open();
    await times(10, () => list(LIVE));
    await times(10, () => list("dos_live_sandbox_second"));
    expect((await list(LIVE)).status).toBe(429);
    expect((await list("dos_live_sandbox_second")).status).toBe(429);
    expect((await list(TEST)).status).toBe(200);
    expect((await list("dos_live_other")).status).toBe(200);
  });

  it("deduct requests sent before Retry-After from the next window", async () => {
    await open();
    await times(20, list);
    expect(statuses(await times(6, list))).toEqual(repeat(429, 6));
    await advance(10_000);
    // The first refusal is free; the next five were early.
    expect(statuses(await times(16, list))).toEqual([...repeat(200, 15), 429]);
    await advance(10_000);
    expect(statuses(await times(20, list))).toEqual(repeat(200, 20));
  });

  it("forget early requests of a client that waits longer, and always allow one request per window", async () => {
    await open();
    await times(20 + 60, list);
    await advance(10_000);
    expect(statuses(await times(2, list))).toEqual([200, 429]);
    await times(30, list);
    await advance(20_000);
    expect(statuses(await times(20, list))).toEqual(repeat(200, 20));
  });

  it("can use a sliding window of ten seconds", async () => {
    await open({ rateWindow: "sliding" });
    await times(10, list);
    await advance(6_000);
    await times(10, list);
    const refused = await list();
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "4"]);
    await advance(4_000);
    expect(statuses(await times(11, list))).toEqual([...repeat(200, 10), 429]);
  });

  it("can be switched off; the headers then show untouched quotas", async () => {
    await open({ rateLimits: false });
    expect(statuses(await times(25, list))).toEqual(repeat(200, 25));
    expect(readHeader(await list(), "ratelimit")).toMatchObject({ "order-list": { r: 20, t: 10 } });
  });

  it("do not count requests without a known key", async () => {
    await open();
    expect(statuses(await times(25, () => list("dos_live_unknown")))).toEqual(repeat(401, 25));
    expect((await list()).status).toBe(200);
  });
});
