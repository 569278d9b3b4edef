import { describe, expect, it } from "vitest";
import { findBranch } from "../../../src/sources/branches.sql.ts";
import { FEED_BEGINNING, readChanges, readFeedEnd } from "../../../src/changes/changeFeed.sql.ts";
import type { Pool } from "../../../src/database/database.ts";
import { EXPORT_FORMATS, readExport } from "../../../src/orders/exportOrders.sql.ts";
import type { OrderFilter } from "../../../src/orders/orderFilter.sql.ts";
import {
  findArrived,
  ORDER_SORTS,
  selectOrder,
  selectOrders,
  type OrderPosition,
  type OrdersQuery,
  type OrderSort,
} from "../../../src/orders/orderReads.sql.ts";
import { exportSchema } from "../../../src/api/orderQuery.ts";
import { asPool, openTestDatabase } from "../../support/servers/database.ts";
import { listPlanNodes, type PlanNode } from "../../support/mirror/reporting.ts";

/**
 * Checks that the read API's statements use an index and read few more rows than they return. The orders are
 * distributed as in a business: most in one status, some for each branch and fleet, ids from three shops.
 */
const ORDERS = 30_000;
const PAGE = 201;
const START = 1_700_000_000n;
const SECOND = 1_000_000_000n;
/** The instant at which the order with this number changed. */
const at = (number: number) => (START + BigInt(number)) * SECOND;

const { database } = await openTestDatabase();
const { pool } = database;
await pool.query(
  `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id,
       status, updated_at, livemode, fleet_name, branch_id, branch_reference, schedule_mode, pickup_time, delivery_time,
       raw, history_id, first_seen_via, first_seen_at)
     select 'live', 'DO-' || n, ($2 + n) * 1000000000, true, 0, 1, '', (array['web-', 'shop-', 'app-'])[1 + n % 3] || n,
       case when n % 10 > 3 then 'delivered' when n % 500 = 0 then 'created' else 'cancelled' end, to_timestamp($2 + n),
       true, 'Fleet ' || n % 20, 'b-' || n % 100, 'branch ' || n % 100,
       case when n % 1000 = 0 then 'planned' else 'asap' end, to_timestamp($2 + n + 600), to_timestamp($2 + n + 1800),
       json_build_object('reference', n, 'note', repeat('x', 300)), n, 'poll', to_timestamp($2 + n)
     from generate_series(1, $1::bigint) n`,
  [ORDERS, Number(START)],
);
await pool.query(
  `insert into mirror.changes (source_id, reference, revision, history_id, status, via, version, verdict)
     select 'live', 'DO-' || n, 1, n, 'created', 'poll', n, 'applied' from generate_series(1, $1::bigint) n`,
  [ORDERS],
);
await pool.query("analyze mirror.orders; analyze mirror.changes");

/** Statements of a cursor read besides its settings and the query itself. */
const WITHOUT_PLAN = /^(?:begin|fetch|commit)\b/;

/** Executes a statement with the settings of its transaction and returns its plan. */
async function explain(
  settings: readonly string[],
  statement: string,
  values?: unknown[],
): Promise<PlanNode[]> {
  const client = await database.pool.connect();
  try {
    await client.query(["begin", ...settings].join("; "));
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
      `explain (analyze, format json) ${statement}`,
      values,
    );
    return rows.flatMap((row) => listPlanNodes(row["QUERY PLAN"][0].Plan));
  } finally {
    await client.query("rollback");
    client.release();
  }
}

/** What is wrong with the plans of `read`: whole tables that grow with the orders, or more rows than these looked at. */
async function findWaste(rowsMax: number, read: (pool: Pool) => Promise<unknown>): Promise<string[]> {
  let nodes: PlanNode[] = [];
  const settings: string[] = [];
  const query = async (text: string | { text: string; values?: unknown[] }, values?: unknown[]) => {
    const [statement, given] = typeof text === "string" ? [text, values] : [text.text, text.values];
    if (statement.startsWith("set ")) settings.push(statement);
    else if (!WITHOUT_PLAN.test(statement))
      nodes = [...nodes, ...(await explain(settings, statement, given))];
    return { rows: [] };
  };
  // How a read handles an empty result does not matter here.
  await read(asPool({ query })).catch(() => undefined);
  const scans = nodes.filter((node) => ["orders", "changes"].includes(node["Relation Name"] ?? ""));
  expect(scans.length).toBeGreaterThan(0);
  const whole = scans.filter((node) => node["Node Type"] === "Seq Scan");
  const rows = scans.reduce((sum, node) => sum + countRows(node), 0);
  return [...whole.map((node) => node["Relation Name"] ?? ""), ...(rows > rowsMax ? [`${rows} rows`] : [])];
}

function countRows(node: PlanNode): number {
  const removed = (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0);
  return (node["Actual Rows"] + removed) * node["Actual Loops"];
}

const day = { from: at(15_000), until: at(15_600) };

type Filter = Omit<OrderFilter, "sourceId">;
const BROAD: [string, Filter][] = [
  ["nothing", {}],
  ["a common status", { status: "delivered" }],
];
const NARROW: [string, Filter][] = [
  ["a rare status", { status: "created" }],
  ["a status that no order has", { status: "lost" }],
  ["a branch", { branchId: "b-7" }],
  ["a branch that orders name in two ways", { branchId: "b-7", branchReference: "branch 7" }],
  ["a branch and a status", { branchId: "b-4", status: "delivered" }],
  ["a branch and a pickup period", { branchId: "b-4", pickupFrom: day.from, pickupUntil: day.until }],
  ["a fleet", { fleet: "Fleet 3" }],
  ["a fleet and a status", { fleet: "Fleet 4", status: "delivered" }],
  ["an update period", { updatedSince: day.from, updatedUntil: day.until }],
  ["an update period and a status", { updatedSince: day.from, updatedUntil: day.until, status: "delivered" }],
  ["a pickup period", { pickupFrom: day.from, pickupUntil: day.until }],
  ["a pickup period and a status", { pickupFrom: day.from, pickupUntil: day.until, status: "delivered" }],
  ["a delivery period", { deliveryFrom: day.from, deliveryUntil: day.until }],
  ["what is to be picked up from now on", { pickupFrom: at(ORDERS - 300) }],
];
const FILTERS = [...BROAD, ...NARROW];

it("every parameter of the list is among the checked filters", () => {
  const asked = new Set(FILTERS.flatMap(([, filter]) => Object.keys(filter)));
  const wanted = Object.keys(exportSchema.omit({ complete: true, wait: true }).shape).map((name) =>
    name === "branch" ? "branchId" : name,
  );
  expect(wanted.filter((name) => !asked.has(name))).toEqual([]);
});

describe.each(FILTERS)("a page of %s", (_, filter) => {
  it.each(ORDER_SORTS)(
    "by %s is read by an index, and looks at few orders more than it has",
    async (sort) => {
      const query: OrdersQuery = { sourceId: "live", ...filter, sort, limit: PAGE, offset: 0 };
      expect(await findWaste(ORDERS / 5, (pool) => selectOrders(pool, query))).toEqual([]);
    },
  );
});

describe.each(NARROW)("an export of %s", (_, filter) => {
  it.each(EXPORT_FORMATS)(
    "as %s is read by an index, and looks at few orders more than it has",
    async (format) => {
      const read = (pool: Pool) =>
        readExport(pool, { format, filter: { sourceId: "live", ...filter } }).next();
      expect(await findWaste(ORDERS / 5, read)).toEqual([]);
    },
  );
});

it.each<[OrderSort, OrderPosition, Filter]>([
  ["updatedAt", { at: at(25_000), reference: "DO-25000" }, { status: "cancelled" }],
  ["updatedAt", { at: at(25_000), reference: "DO-25000" }, {}],
  ["pickupTime", { at: at(25_600), reference: "DO-25000" }, {}],
  ["pickupTime", { at: null, reference: "DO-25000" }, {}],
  ["firstSeenAt", { at: at(25_000), reference: "DO-25000" }, {}],
])("a page far behind, by cursor and %s, looks at nothing before it", async (sort, after, filter) => {
  const query: OrdersQuery = { sourceId: "live", ...filter, sort, after, limit: PAGE, offset: 0 };
  expect(await findWaste(2 * PAGE, (pool) => selectOrders(pool, query))).toEqual([]);
});

const LIVE = { sourceId: "live" };
const AWAITED = ["DO-77", "shop-76", "none", null].map((reference) => ({ ...LIVE, reference, instant: 0n }));
const END = await readFeedEnd(pool, { ...LIVE, fence: 1_000n });
const FENCE = BigInt(ORDERS);
it.each<[string, number, (pool: Pool) => Promise<unknown>]>([
  // Branches are read one by one, and there are a hundred.
  ["an order by reference", 400, (db) => selectOrder(db, { ...LIVE, reference: "DO-77" })],
  ["an order by externalOrderId", 400, (db) => selectOrder(db, { ...LIVE, reference: "shop-76" })],
  ["orders that are waited for", 400, (db) => findArrived(db, AWAITED)],
  ["a branch by id", 400, (db) => findBranch(db, { ...LIVE, branch: { id: "b-7" } })],
  ["a branch that is none", 400, (db) => findBranch(db, { ...LIVE, branch: { id: crypto.randomUUID() } })],
  ["a branch by reference", 400, (db) => findBranch(db, { ...LIVE, branch: { reference: "branch 7" } })],
  ["the end of the change feed", 1, (db) => readFeedEnd(db, { ...LIVE, fence: FENCE })],
  ["changes", 200, (db) => readChanges(db, { ...LIVE, after: FEED_BEGINNING, fence: FENCE, limit: 100 })],
  ["later changes", 200, (db) => readChanges(db, { ...LIVE, after: END, fence: FENCE, limit: 100 })],
])("%s: looks at %i rows at most", async (_, rowsMax, read) => {
  expect(await findWaste(rowsMax, read)).toEqual([]);
});

it("detects a statement that reads the whole table", async () => {
  const read = (pool: Pool) => pool.query("select from mirror.orders where raw::text like '%y%'");
  expect(await findWaste(ORDERS, read)).toEqual(["orders"]);
});
