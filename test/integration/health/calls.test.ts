import { expect, it } from "vitest";
import { makeCallCounts, readRateUsed, type Call } from "../../../src/health/calls.sql.ts";
import { asPool, openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";

it("adds up the calls that several processes counted, and loses none while Postgres is unreachable", async () => {
  const { database } = await openTestDatabase();
  const { pool } = database;
  for (const sourceId of ["live", "other"]) await addSource(pool, sourceId);
  await pool.query(`insert into mirror.calls values
    ('live', 'webhook', now() - interval '32 days', 'accepted', 1, now()),
    ('live', 'order-list', now() - interval '32 days', 'answered', 5, now()),
    ('live', 'order-list', now() - interval '30 days', 'answered', 7, now())`);
  let down = true;
  const away = () => Promise.reject(new Error("away"));
  const flaky = asPool({
    query: (...args: Parameters<typeof pool.query>) => (down ? away() : pool.query(...args)),
  });
  const poller = makeCallCounts(flaky);
  const web = makeCallCounts(pool);
  const list: Call = { sourceId: "live", kind: "order-list", outcome: "answered" };
  for (const call of [list, list, { ...list, sourceId: "other" }, { ...list, sourceId: "unknown" }])
    poller.count(call);
  web.count({ ...list, kind: "geocoding", outcome: "refused" });
  await expect(poller.flush()).rejects.toThrow("away");
  down = false;
  poller.count(list);
  for (const process of [poller, poller, web]) await process.flush();
  const { rows } = await pool.query(
    "select source_id, kind, outcome, calls::int from mirror.calls order by calls desc, kind, source_id",
  );
  expect(rows.map((row) => Object.values(row as object).join(" "))).toEqual([
    "live order-list answered 7",
    "live order-list answered 3",
    "live geocoding refused 1",
    "other order-list answered 1",
    "live webhook accepted 1",
  ]);
  // 20 in 10 s are 1,200 in ten minutes.
  const used = await readRateUsed(pool, { requestsMax: 20, windowMs: 10_000 });
  expect(used).toEqual(
    new Map([
      ["live", 3 / 1_200],
      ["other", 1 / 1_200],
    ]),
  );
});
