import { parseList } from "structured-headers";
import { afterEach, describe, expect, it } from "vitest";
import { LIVE, makeTestSandbox } from "../../support/providers/testSandbox.ts";
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

describe("policies", () => {
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
});
