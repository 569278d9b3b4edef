import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeBudget } from "../../../src/provider/rate/budget.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import type { Priority } from "../../../src/domain/source/orderSource.ts";
import { systemClock } from "../../../src/runtime/lifecycle/clock.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { startSandbox } from "../../../src/sandbox/startSandbox.ts";
import type { Sandbox } from "../../../src/sandbox/startSandbox.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";

describe.each(["fixed", "sliding"] as const)("against a provider with %s rate windows", (rateWindow) => {
  let database: TestDatabase;
  let sandbox: Sandbox;
  beforeAll(async () => {
    database = await makeTestDatabase();
    sandbox = await startSandbox({ databaseUrl: database.url, port: 0, seed: 1, speed: 0, rateWindow });
  });
  afterAll(async () => {
    await sandbox.close();
    await database.drop();
  });

  it("many concurrent requests get no 429, use the full rate, and urgent ones go first", async () => {
    const budget = makeBudget({ clock: systemClock });
    const client = makeProviderClient({
      baseUrl: sandbox.url,
      apiKey: "dos_live_sandbox",
      budget,
      clock: systemClock,
      logger: silentLogger,
    });
    const order: Priority[] = [];
    const list = async (priority: Priority) => {
      await client.listOrders({ limit: 1 }, { priority });
      order.push(priority);
    };
    const startedAtMs = performance.now();
    const lists = Array.from({ length: 14 }, () => [list("backfill"), list("poll")]).flat();
    const reads = Array.from({ length: 200 }, () =>
      client.getOrder("no-such-order", { priority: "verify" }).catch(() => undefined),
    );
    await Promise.all([...lists, ...reads]);
    const tookMs = performance.now() - startedAtMs;
    const response = await fetch(`${sandbox.url}/_sandbox/requests`);
    expect(await response.json()).toMatchObject({ counts: { "getOrder 404": 200, "listOrders 200": 28 } });
    expect(tookMs).toBeGreaterThanOrEqual(27 * 556 - 50);
    expect(tookMs).toBeLessThan(25_000);
    // The first backfill request did not have to wait.
    expect(order.slice(1, 15)).toEqual(Array.from({ length: 14 }, () => "poll"));
  });
});
