import { expect, it, onTestFinished } from "vitest";
import { trackRequestUsage } from "../../../src/roles/counting.ts";
import { makePool } from "../../../src/database/database.ts";
import { makeBudget } from "../../../src/provider/budget.ts";
import type { Priority } from "../../../src/domain/source/orderSource.ts";
import type { PolicyName } from "../../../src/provider/budget.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import { makeSimulatedClock } from "../../support/virtual/simulatedClock.ts";

it("sums the requests of several processes per source, and loses none while Postgres is unreachable", async () => {
  const database = await makeTestDatabase();
  onTestFinished(() => database.drop());
  const pool = makePool({ url: database.url, purpose: "test", max: 2, statementTimeoutMs: 10_000 });
  onTestFinished(() => pool.end());
  for (const sourceId of ["live", "other"]) await addSource(pool, sourceId);
  const gone = makePool({ url: database.url, purpose: "test", max: 1, statementTimeoutMs: 10_000 });
  await gone.end();
  const clock = makeSimulatedClock();
  const open = (from: typeof pool, purpose?: string) => {
    const { track, flush } = trackRequestUsage(from);
    const shared = { budget: makeBudget({ clock }), ...(purpose === undefined ? {} : { purpose }) };
    return { budget: track({ ...shared, sourceId: "live" }), track, flush };
  };
  const send = async (
    { budget }: Pick<ReturnType<typeof open>, "budget">,
    policy: PolicyName,
    priority: Priority,
  ) => {
    const granted = budget.acquire({ policy, priority });
    await clock.runUntil(clock.monotonicMs() + 1_000);
    (await granted).release();
  };
  const read = async (sourceId: string) => {
    const { rows } = await pool.query(
      `select policy, purpose, sum(requests)::int as requests from mirror.provider_requests
       where source_id = $1 group by 1, 2 order by 3 desc, 1`,
      [sourceId],
    );
    return rows as unknown[];
  };
  let down = true;
  const flaky = { query: (...args: Parameters<typeof pool.query>) => (down ? gone : pool).query(...args) };
  const poller = open(flaky as typeof pool);
  const writer = open(pool, "write");
  await send(poller, "order-list", "poll");
  await send(poller, "order-list", "poll");
  await send(poller, "sustained", "refetch");
  await send(writer, "geocoding", "poll");
  await send(
    { budget: poller.track({ budget: makeBudget({ clock }), sourceId: "other" }) },
    "order-list",
    "poll",
  );
  await expect(poller.flush()).rejects.toThrow("after calling end on the pool");
  expect(await read("live")).toEqual([]);
  down = false;
  await send(poller, "order-list", "poll");
  await poller.flush();
  await poller.flush();
  await writer.flush();
  expect(await read("live")).toEqual([
    { policy: "order-list", purpose: "poll", requests: 3 },
    { policy: "geocoding", purpose: "write", requests: 1 },
    { policy: "sustained", purpose: "refetch", requests: 1 },
  ]);
  expect(await read("other")).toEqual([{ policy: "order-list", purpose: "poll", requests: 1 }]);
});
