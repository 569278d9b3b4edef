import { afterAll, describe, expect, it } from "vitest";
import { readRemaining } from "../../../src/provider/rateHeaders.ts";
import type { RawAnswer } from "../../support/contract/contractClient.ts";
import { openTarget, orderFor, type Caller } from "../../support/contract/contractTarget.ts";

/**
 * The spec, "Limits": policies and headers. Page sizes: listOrders.test.ts; subscriptions: service.test.ts.
 *
 * Only a sandbox is sent more than a limit on purpose. Its time stands still until a test moves it, so that concurrent
 * requests count in one window, however busy the machine is.
 */
const target = await openTarget({ rateLimits: true, clock: "virtual" });
const { live, test, standard, as, steer, world, testSecond, other } = target;
afterAll(() => target.close());

const remaining = ({ headers }: RawAnswer, policy: string) =>
  readRemaining(headers).find((entry) => entry.policy === policy);
const names = (entries: readonly { policy: string }[]) => entries.map(({ policy }) => policy).sort();
const askMany = (count: number, ask: () => Promise<RawAnswer>) =>
  Promise.all(Array.from({ length: count }, () => ask()));
const byStatus = (answers: readonly RawAnswer[], status: number) =>
  answers.filter((answer) => answer.status === status);
/** Advances the clock until all counters are reset. */
const windowPasses = () => steer("POST", "/clock", { advanceMs: 10_100 });

describe("rate headers", () => {
  const LIMITS = { sustained: 200, geocoding: 100, "order-list": 20 };

  it.each<[string, string[], (caller: Caller) => Promise<RawAnswer>]>([
    ["POST /v1/orders", ["geocoding", "sustained"], (c) => c.ask("POST", "/v1/orders", orderFor())],
    [
      "POST /v1/orders/quote",
      ["geocoding", "sustained"],
      (c) => c.ask("POST", "/v1/orders/quote", orderFor()),
    ],
    [
      "POST /v1/addresses/validate",
      ["geocoding", "sustained"],
      (c) => c.ask("POST", "/v1/addresses/validate", world.addresses.valid),
    ],
    ["GET /v1/orders", ["order-list", "sustained"], (c) => c.ask("GET", "/v1/orders")],
    ["GET /v1/orders/{reference}", ["sustained"], (c) => c.ask("GET", "/v1/orders/no-such-order")],
    ["POST /v1/orders/{reference}/cancel", ["sustained"], (c) => c.ask("POST", "/v1/orders/none/cancel")],
    ["POST .../advance", ["sustained"], (c) => c.ask("POST", "/v1/test/orders/none/advance")],
    ["GET /v1/branches", ["sustained"], (c) => c.ask("GET", "/v1/branches")],
  ])("of %s name %j with q and w, r and t", async (_, policies, ask) => {
    const { headers } = await ask(test);
    const left = readRemaining(headers);
    const declared = headers.get("ratelimit-policy")?.split(/, */) ?? [];
    expect(names(left)).toEqual(expect.arrayContaining(policies));
    for (const policy of policies as (keyof typeof LIMITS)[])
      expect(declared).toContain(`"${policy}";q=${LIMITS[policy]};w=10`);
    for (const { policy, remaining: count, resetMs } of left) {
      expect(count).toBeLessThanOrEqual(LIMITS[policy as keyof typeof LIMITS]);
      expect(resetMs).toBeLessThanOrEqual(10_000);
    }
  });

  it("are on every response, even on refusals", async () => {
    const answers = [
      await as(null).ask("GET", "/v1/orders"),
      await as("dos_test_unknown").ask("POST", "/v1/orders", orderFor()),
      await standard.ask("POST", "/v1/orders/quote", orderFor()),
      await test.ask("GET", "/v1/orders/no-such-order"),
      await test.ask("GET", "/v1/orders?updatedSince=2026-11-20T12:00:00Z"),
      await test.ask("POST", "/v1/orders", {}),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 403, 404, 422, expect.any(Number)]);
    for (const { headers } of answers) {
      expect(headers.get("ratelimit-policy")).toMatch(/^"/);
      expect(headers.get("ratelimit")).toMatch(/^"/);
    }
  });

  it("count down with every request, in both policies of a list", async () => {
    const first = await test.ask("GET", "/v1/orders?limit=1");
    const second = await test.ask("GET", "/v1/orders?limit=1");
    for (const policy of ["order-list", "sustained"]) {
      const [before, after] = [remaining(first, policy), remaining(second, policy)];
      expect([policy, after?.remaining]).toEqual([policy, (before?.remaining ?? 0) - 1]);
    }
  });
});

describe("order-list: 20 per 10 seconds", () => {
  const list = (caller = test) => caller.ask("GET", "/v1/orders?limit=1");

  it("lets 20 pass and refuses the rest with 429, the seconds to wait and a message that names the policy", async () => {
    await windowPasses();
    const answers = await askMany(25, list);
    expect(byStatus(answers, 200)).toHaveLength(20);
    const refused = byStatus(answers, 429);
    expect(refused).toHaveLength(5);
    for (const answer of refused) {
      const { code, headers, body } = answer;
      expect(code).toBe("rate_limit_exceeded");
      expect(headers.get("retry-after")).toMatch(/^([1-9]|10)$/);
      expect(JSON.stringify(body)).toContain("order-list");
      expect(body["request_id"]).toEqual(expect.any(String));
      expect(remaining(answer, "order-list")?.remaining).toBe(0);
    }
  });

  it("counts all keys of an organization and mode together, others apart, and no other endpoints", async () => {
    expect((await list(testSecond)).status).toBe(429);
    expect((await list(live)).status).toBe(200);
    expect((await list(other)).status).toBe(200);
    expect((await test.ask("GET", "/v1/branches")).status).toBe(200);
  });

  it("lets a request pass again once Retry-After is over", async () => {
    const refused = await list();
    expect(refused.status).toBe(429);
    await steer("POST", "/clock", { advanceMs: Number(refused.headers.get("retry-after")) * 1_000 });
    expect((await list()).status).toBe(200);
  });

  it("deducts early requests from the next window", async () => {
    await windowPasses();
    await windowPasses();
    await askMany(20, list);
    const early = await askMany(8, list);
    const waits = early.map(({ headers }) => Number(headers.get("retry-after")));
    await steer("POST", "/clock", { advanceMs: Math.max(...waits) * 1_000 });
    const next = await askMany(20, list);
    const passed = byStatus(next, 200).length;
    expect(passed).toBeGreaterThan(0);
    expect(passed).toBeLessThan(20);
  });
});

it("geocoding: 100 per 10 seconds counts creations, quotes and address checks together, and no other endpoints", async () => {
  await windowPasses();
  const ask = {
    checks: () => test.ask("POST", "/v1/addresses/validate", world.addresses.valid),
    quotes: () => test.ask("POST", "/v1/orders/quote", orderFor()),
    creations: () => test.ask("POST", "/v1/orders", orderFor()),
  };
  for (const [count, each] of [
    [40, ask.checks],
    [35, ask.quotes],
    [25, ask.creations],
  ] as const)
    expect(byStatus(await askMany(count, each), 429)).toEqual([]);
  for (const each of Object.values(ask)) {
    const { status, code, body } = await each();
    expect([status, code]).toEqual([429, "rate_limit_exceeded"]);
    expect(JSON.stringify(body)).toContain("geocoding");
  }
  expect((await test.ask("GET", "/v1/branches")).status).toBe(200);
  expect((await test.ask("GET", "/v1/orders?limit=1")).status).toBe(200);
});

it("sustained: 200 per 10 seconds counts all endpoints together", async () => {
  await windowPasses();
  const lists = await askMany(10, () => test.ask("GET", "/v1/orders?limit=1"));
  const checks = await askMany(40, () => test.ask("POST", "/v1/addresses/validate", world.addresses.valid));
  const reads = await askMany(150, () => test.ask("GET", "/v1/orders/no-such-order"));
  expect([...lists, ...checks, ...reads].filter(({ status }) => status === 429)).toEqual([]);
  const answers = [
    await test.ask("GET", "/v1/branches"),
    await test.ask("GET", "/v1/orders?limit=1"),
    await test.ask("POST", "/v1/addresses/validate", world.addresses.valid),
    await test.ask("POST", "/v1/orders", orderFor()),
  ];
  for (const { status, code, body } of answers) {
    expect([status, code]).toEqual([429, "rate_limit_exceeded"]);
    expect(JSON.stringify(body)).toContain("sustained");
  }
  expect((await live.ask("GET", "/v1/branches")).status).toBe(200);
});
