import { beforeAll, expect, it } from "vitest";
import { recordWalked } from "../../../src/poll/coverage.sql.ts";
import { acquireLease, type Lease } from "../../../src/database/leases.sql.ts";
import { formatInstant } from "../../../src/domain/order/instant.ts";
import { secondsAgo } from "../../support/providers/memoryProvider.ts";
import { openAppliedMirror } from "../../support/mirror/liveMirror.ts";
import { makeSnapshot } from "../../support/mirror/orders.ts";
import { listPlanNodes, type PlanNode } from "../../support/mirror/planNodes.ts";

/**
 * What the poller's statements cost before any analyze: on its kind of connection, where a plan serves all values and the
 * server takes ten rows for the size of each array.
 */
const ORDERS = 3000;
/** Each row is touched by a few nodes of a plan; a comparison of each with each would take a hundred times as many. */
const VISITS_PER_ROW_MAX = 10;

const references = Array.from({ length: ORDERS }, (_, number) => `R${number}`);

const { pool, apply } = await openAppliedMirror();

let lease: Lease;
beforeAll(async () => {
  await pool.query("alter table mirror.orders set (autovacuum_enabled = off)");
  const taken = await acquireLease(pool, { name: "poll:live", holder: "test", ttlMs: 60_000 });
  if (taken === undefined) throw new Error("the lease is free");
  lease = taken;
  const updatedAt = formatInstant(secondsAgo(60));
  const snapshots = references.map((reference) => makeSnapshot({ reference, updatedAt }));
  const time = { requestedAt: secondsAgo(0), marginSeconds: 900 };
  await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time });
});

/** Rows that all nodes of the plan of the last statement with this text have returned or dropped. */
async function countVisits(text: string, values: readonly string[]): Promise<number> {
  const { rows: prepared } = await pool.query<{ name: string }>(
    "select name from pg_prepared_statements where position($1 in statement) > 0 and position('pg_prepared' in statement) = 0",
    [text],
  );
  expect(prepared).toHaveLength(1);
  const given = values.map((value) => `'${value}'`).join(", ");
  const { rows } = await pool.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
    `explain (analyze, format json) execute "${prepared[0]!.name}" (${given})`,
  );
  return listPlanNodes(rows[0]!["QUERY PLAN"][0].Plan)
    .map((node) => {
      const dropped = (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Join Filter"] ?? 0);
      return (node["Actual Rows"] + dropped) * node["Actual Loops"];
    })
    .reduce((sum, visits) => sum + visits, 0);
}

it("a walked window looks each order of the mirror up once in what was listed", async () => {
  const window = { since: 0n, until: secondsAgo(-60), sourceId: "live", sweep: "proof", begunAt: 0n };
  const walked = { ...window, requests: 1, orders: 1, durationMs: 1, listed: references.slice(1) };
  await recordWalked(pool, lease, walked);
  const { rows } = await pool.query("select unlisted from mirror.coverage");
  expect(rows).toEqual([{ unlisted: [references[0]] }]);
  const array = `{${references.slice(1).join(",")}}`;
  const given = [
    lease.name,
    lease.holder,
    "1",
    "live",
    "0",
    String(window.until),
    "proof",
    "0",
    "1",
    "1",
    "1",
    array,
  ];
  const visits = await countVisits("unnest($12::text[])", given);
  expect(visits).toBeLessThan(VISITS_PER_ROW_MAX * ORDERS);
});
