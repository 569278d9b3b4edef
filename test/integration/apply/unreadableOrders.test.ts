import { expect, it, onTestFinished } from "vitest";
import { requestRefetches } from "../../../src/poll/refetches.sql.ts";
import { makeProviderClient } from "../../../src/provider/client.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { handOn, startBadGateway } from "../../support/providers/badGateway.ts";
import { LIVE } from "../../support/providers/testSandbox.ts";
import { startVirtualWorld } from "../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
const MINUTE_NANOS = 60n * 10n ** 9n;
const MINUTES = 12;
/** Settle time and overlap, four cycles between two proofs, and the length of a cycle. */
const BEHIND_MAX_NANOS = ((301n + 120n + 60n) * MINUTE_NANOS) / 60n;
const HTML = { "content-type": "text/html" };

it("safe_through keeps up while single orders keep answering 500, a foreign 404 or an unreadable 200", async () => {
  const { clock, pool, sandbox, provider, differences, startPoller } = await startVirtualWorld({
    speed: 4,
    trafficPerMinute: 6,
  });
  const gateway = await startBadGateway(sandbox.url);
  onTestFinished(() => gateway.close());
  const client = makeProviderClient({
    baseUrl: gateway.url,
    apiKey: LIVE,
    budget: makeBudget({ clock }),
    clock,
    logger: silentLogger,
  });
  startPoller("only", { client, backfillSince: "PT3H" });
  const readSafeThrough = async () =>
    BigInt(
      (await pool.query<{ safe: string | null }>("select safe_through as safe from mirror.poll_state"))
        .rows[0]?.safe ?? 0,
    );
  await clock.runUntil(5 * MINUTE_MS);
  expect(await readSafeThrough()).toBeGreaterThan(sandbox.now() - BEHIND_MAX_NANOS);

  const { rows } = await provider.query<{ reference: string }>(
    "select reference from sandbox.orders where livemode order by reference limit 3",
  );
  const references = rows.map(({ reference }) => reference);
  const [failing, foreign, unreadable] = references;
  const asked = new Map(references.map((reference) => [reference, 0]));
  gateway.spoil((response, good) => {
    const reference = decodeURIComponent(good.url.pathname.slice("/v1/orders/".length));
    if (asked.has(reference)) asked.set(reference, (asked.get(reference) ?? 0) + 1);
    if (reference === failing)
      return handOn(response, good, { status: 500, body: '{"error":"out of order"}' });
    if (reference === foreign)
      return handOn(response, good, { status: 404, headers: HTML, body: "<h1>not here</h1>" });
    if (reference === unreadable) return handOn(response, good, { headers: HTML, body: "<html>ok</html>" });
    return handOn(response, good);
  });
  await requestRefetches(pool, { sourceId: "live", references, reason: "asked for by a person" });

  const begun = await readSafeThrough();
  const behind: bigint[] = [];
  for (let minute = 1; minute <= MINUTES; minute += 1) {
    await clock.runUntil((5 + minute) * MINUTE_MS);
    behind.push(sandbox.now() - (await readSafeThrough()));
  }
  expect([...asked.values()].filter((times) => times === 0)).toEqual([]);
  expect(behind.filter((nanos) => nanos > BEHIND_MAX_NANOS)).toEqual([]);
  // Proofs come every two minutes, so the last ones may still be due.
  expect(await readSafeThrough()).toBeGreaterThanOrEqual(begun + BigInt(MINUTES - 3) * MINUTE_NANOS);
  const others = (await differences(await readSafeThrough())).filter((one) => !asked.has(one));
  expect(others).toEqual([]);
});
