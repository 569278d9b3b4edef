import { afterAll, expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";
import {
  asOf,
  makeReader,
  readAs,
  readBlocks,
  readDashboard,
  readQuestions,
} from "../../support/mirror/reporting.ts";

/** Checks that the queries of reporting tools over a year of orders use an index and never scan a growing table. */
const ORDERS = 40_000;
const EVERY = "interval '13 minutes'";
/** The end of the year of orders, which replaces now() in examples and dashboards. */
const NOW = "2026-12-27";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");
await read(
  `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, fleet_name,
       pickup_time, delivery_time, real_pickup_time, updated_at, raw, history_id, first_seen_via, first_seen_at, changed_at,
       branch_id, external_order_id)
     select 'live', 'R' || n, mirror.nanos_of(t), true, 0, 1, '', case when n % 500 = 0 then 'created' else 'cancelled' end,
       'Fleet ' || n % 20, t, t, t, t, json_build_object('note', repeat('x', 700)), n, 'poll', t, t, 'b' || n % 50, 'shop-' || n
     from generate_series(1, ${ORDERS}) n, lateral (select timestamptz '2026-01-01' + n * ${EVERY} as t) at`,
);
await read(
  `insert into mirror.history (source_id, reference, via, verdict, version, settled, observed_at, rank, hash, status, raw, seen_at)
     select source_id, reference, 'poll', 'applied', version, true, 0, 1, '', status,
       json_build_object('note', repeat('x', 700)), updated_at
     from mirror.orders, generate_series(1, 2) order by mirror.orders.history_id`,
);
await read(
  `insert into mirror.branches (source_id, branch_id, name, raw) select 'live', 'b' || n, 'Branch', '{}'
     from generate_series(1, 50) n`,
);
await read("analyze mirror.orders, mirror.history, mirror.branches");

async function read(text: string) {
  const { rows } = await database.pool.query<Record<string, unknown>>(text);
  return rows;
}

const reader = await makeReader(database.pool, "live");
afterAll(() => reader.drop());

/** The lines of a query's plan for a reader, who must have the right to run it. */
const explain = async (query: string) =>
  (await readAs(database.pool, reader, `explain ${query}`)).map((line) => String(line["QUERY PLAN"]));

const DAY = "between '2026-02-01' and '2026-02-02'";
const LIVE = "source_id = 'live'";
const TYPICAL = [
  `select * from reporting.orders where ${LIVE} and reference = 'R7'`,
  `select * from reporting.orders where ${LIVE} and external_order_id = 'shop-7'`,
  `select * from reporting.orders where ${LIVE} and status = 'created' order by version limit 50`,
  `select * from reporting.orders where ${LIVE} and branch_id = 'b7' order by version limit 50`,
  `select * from reporting.orders where ${LIVE} and fleet_name = 'Fleet 7' order by version limit 50`,
  `select * from reporting.orders where ${LIVE} and updated_at > '2026-12-26' order by version desc limit 50`,
  `select status, count(*) from reporting.orders where ${LIVE} and delivery_time ${DAY} group by 1`,
  `select status, count(*) from reporting.orders where ${LIVE} and first_seen_at ${DAY} group by 1`,
  `select status, count(*) from reporting.orders where updated_at ${DAY} group by 1`,
  `select * from reporting.gone_orders where ${LIVE} and updated_at >= '2026-12-26'`,
  `select s.place, count(o.reference) from reporting.order_statuses s
   left join reporting.orders o on o.${LIVE} and o.status = s.status and o.pickup_time ${DAY} group by 1`,
  `select b.name, count(o.reference) from reporting.branches b join reporting.orders o using (source_id, branch_id)
   where b.${LIVE} and o.pickup_time ${DAY} group by 1`,
  `select via, count(*) from reporting.order_history where seen_at ${DAY} group by 1`,
  `select * from reporting.order_timeline where ${LIVE} and reference = 'R7'`,
  `select status, avg(duration_seconds) from reporting.order_timeline where ${LIVE} and pickup_time ${DAY} group by 1`,
  `select status, avg(duration_seconds) from reporting.order_timeline
   where ${LIVE} and order_updated_at ${DAY} group by 1`,
  `select * from reporting.webhook_reliability where ${LIVE} and reference = 'R7'`,
  `select learned_via, count(*) from reporting.webhook_reliability
   where learned_at between '2026-02-01' and '2026-02-01 03:00' group by 1`,
  `select * from reporting.orders_as_of('2026-02-01') where ${LIVE} and reference = 'R7'`,
  `select * from reporting.order_facts where ${LIVE} and reference = 'R7'`,
];
/**
 * Views of windows and endpoints, which do not grow with the orders, and the totals per day, which add up
 * narrow rows.
 */
const READ_COMPLETELY = ["coverage_breaches", "coverage_gaps", "daily", "outgoing_webhooks"];

/** Examples and panels as of the last day of the orders. */
const GIVEN = [...readBlocks("sql"), ...readDashboard().queries].map((query) => asOf(query, NOW));
/** Those that read windows or all orders, too, must be possible. */
const IS_WIDE = /reporting\.(?:coverage|orders_as_of)/;

/** Questions about a month at most; the others read the narrow rows of a year. */
const OF_A_MONTH = readQuestions(NOW)
  .map(({ sql }) => sql)
  .filter((sql) => !/1 year|reporting\.(?:daily|sync_status)/.test(sql));

const QUERIES = [...TYPICAL, ...GIVEN, ...OF_A_MONTH];

it("every view has a typical query", async () => {
  const views = await read(
    "select relname as name from pg_class where relnamespace = 'reporting'::regnamespace",
  );
  const silent = views
    .map(({ name }) => String(name))
    .filter((name) => !READ_COMPLETELY.includes(name))
    .filter((name) => !QUERIES.some((query) => new RegExp(`reporting\\.${name}\\b`).test(query)));
  expect(silent).toEqual([]);
});

it.each(QUERIES)("scans no growing table: %s", async (query) => {
  expect(query).not.toMatch(/\$|mirror\./);
  const scans = (await explain(query)).filter((line) => line.includes(" Scan"));
  expect(scans.some((scan) => /Index/.test(scan)) || IS_WIDE.test(query)).toBe(true);
  const whole = scans.filter((scan) => /Seq Scan on (?:orders|history)/.test(scan));
  expect(IS_WIDE.test(query) ? [] : whole).toEqual([]);
});

it("orders_as_of reads from the history only the orders that changed since the instant", async () => {
  const instant = "'2026-03-20'";
  const [since] = await read(
    `select count(*)::int as orders from reporting.orders where source_id = 'live' and updated_at > ${instant}`,
  );
  const plan = await read(
    `explain (analyze, timing off) select status, count(*) from reporting.orders_as_of(${instant}) where source_id = 'live' group by 1`,
  );
  const lines = plan.map((line) => String(line["QUERY PLAN"]));
  expect(lines.filter((line) => / on history /.test(line) && !line.includes("Index"))).toEqual([]);
  const loops = lines.map((line) => Number(/loops=(\d+)/.exec(line)?.[1] ?? 0));
  expect(Math.max(...loops)).toBeLessThanOrEqual(Number(since?.["orders"]));
});
