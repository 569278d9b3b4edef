import { expect, it } from "vitest";
import { formatInstant } from "../../../../src/domain/order/instant.ts";
import { readRequest, requestPeriod } from "../../../../src/poll/periodRequests.sql.ts";
import type { SandboxOptions } from "../../../../src/sandbox/startSandbox.ts";
import { decide, DECISIONS } from "../../../../src/sandbox/world/state.ts";
import { readPollState } from "../../../support/mirror/tables.ts";
import { makeTestApi } from "../../../support/mirror/served.ts";
import { serve } from "../../../support/http/serve.ts";
import { LIVE, readLiveOrders } from "../../../support/providers/testSandbox.ts";
import { startAnnouncedWorld, type VirtualWorld } from "../../../support/virtual/virtualTime.ts";

const MINUTE_MS = 60_000;
const HOUR_NANOS = 3_600n * 10n ** 9n;
const PAST_ORDERS = 250;

type Member = Pick<SandboxOptions, "decisions" | "faults" | "rateWindow" | "utcOffsetMinutes">;

/**
 * The family: together, the members have every value of every decision, and of the faults how lists are sorted, bounded
 * and truncated, how exact times are, and which orders can never be refetched.
 */
const FAMILY: readonly [string, Member][] = [
  [
    "decides as assumed, with pages of 20, random ties and times to the second",
    { faults: { listLimitMax: 20, listTies: "random", timestampGranularity: "s" } },
  ],
  [
    "makes all other decisions, with descending lists",
    {
      decisions: Object.fromEntries(Object.entries(DECISIONS).map(([name, [, second]]) => [name, second])),
      faults: { listOrder: "descending", eventTimestampGranularity: "s" },
    },
  ],
  [
    "names branches without an id, with inclusive bounds, nanoseconds and text errors",
    {
      decisions: {
        errorShape: "text",
        branchInOrder: "reference",
        largeLimit: "capped",
        changeEvents: "sent",
      },
      faults: { listBounds: "inclusive", timestampGranularity: "ns" },
    },
  ],
  [
    "cannot show some orders singly, has exclusive bounds, fixed rate windows and UTC",
    {
      faults: { brokenOrderShare: 0.3, failStatus: 500, listBounds: "exclusive" },
      rateWindow: "fixed",
      utcOffsetMinutes: 0,
    },
  ],
];

it("has every value of every decision in the family", () => {
  const chosen = FAMILY.map(([, { decisions }]) => decide(decisions));
  for (const [name, values] of Object.entries(DECISIONS))
    expect(new Set(chosen.map((each) => each[name as keyof typeof each]))).toEqual(new Set(values));
});

it.for(FAMILY)("follows a provider that %s", async ([, member]) => {
  const world = await startAnnouncedWorld({
    speed: 10,
    trafficPerMinute: 6,
    ...member,
    faults: { loseShare: 0.2, duplicateShare: 0.1, ...member.faults },
  });
  const { clock, pool, sandbox, steer } = world;
  await steer("POST", "/seed", {
    orders: PAST_ORDERS,
    since: formatInstant(sandbox.now() - 20n * HOUR_NANOS),
    until: formatInstant(sandbox.now() - HOUR_NANOS),
  });
  world.startPoller("only", { backfillSince: "P1D" });

  const run = (ms: number) => world.runUntil(clock.monotonicMs() + ms);
  await run(3 * MINUTE_MS);
  await steer("POST", "/dials", { speed: 0, ordersPerMinute: 0 });
  const ended = sandbox.now();
  await run(12 * MINUTE_MS);

  const { safeThrough, historySince } = (await readPollState(pool, "live"))!;
  expect(safeThrough).toBeGreaterThan(ended);
  expect(historySince).toBeLessThan(ended - 20n * HOUR_NANOS);
  const events = await pool.query("select from mirror.history where via = 'webhook' and verdict = 'applied'");
  expect(events.rowCount).toBeGreaterThan(0);

  const span = { since: ended - 22n * HOUR_NANOS, until: ended };
  const requestId = await requestPeriod(pool, { kind: "verification", sourceId: "live", ...span });
  for (let waited = 0; waited < 10 && (await readRequest(pool, requestId))?.state !== "done"; waited += 1)
    await run(MINUTE_MS);
  expect(await readRequest(pool, requestId)).toMatchObject({ state: "done", differed: 0 });
  await expectEqualReads(world);
});

/** Zeros at the end of the seconds are no digits: an event to the second stays the text of its state. */
const PADDED_UPDATED_AT = /("updatedAt":"[^".]*)\.0+(?=[Z+-])/;

/** Expects that the mirror lists the provider's orders as the same text, and its branches. */
async function expectEqualReads({ pool, sandbox, steer }: VirtualWorld): Promise<void> {
  const mirror = await serve(makeTestApi({ pool }));
  const readAll = async (baseUrl: string, path: string) => {
    const found: Record<string, unknown>[] = [];
    for (;;) {
      const answer = await fetch(`${baseUrl}${path}?offset=${found.length}`, {
        headers: { authorization: `Bearer ${LIVE}` },
      });
      expect(answer.status).toBe(200);
      const page = (await answer.json()) as { data: Record<string, unknown>[]; hasMore: boolean };
      found.push(...page.data);
      if (!page.hasMore) return found;
    }
  };
  const texts = (orders: Iterable<Record<string, unknown>>) =>
    [...orders].map((order) => JSON.stringify(order).replace(PADDED_UPDATED_AT, "$1")).toSorted();
  const orders = texts(await readAll(mirror.url, "/v1/orders"));
  expect(orders.length).toBeGreaterThan(PAST_ORDERS);
  expect(orders).toEqual(texts((await readLiveOrders(steer)).values()));
  expect(await readAll(mirror.url, "/v1/branches")).toEqual(await readAll(sandbox.url, "/v1/branches"));
  await mirror.close();
}
