import type { Pool } from "../../../src/database/database.ts";
import { keepFacts } from "../../support/mirror/facts.ts";
import { readQuestions } from "../../support/mirror/reportingQueries.ts";
import type { Bench } from "../bench.ts";
import { amount } from "../effort.ts";
import { compare } from "../measure.ts";
import type { Subject } from "../measure.ts";

const ORDERS = amount(1_000_000);

/** The questions of docs/reporting.md about a year with a million orders. */
export const benchReporting: Bench = async ({ pool }) => {
  await fillYear(pool, ORDERS);
  await keepFacts(pool);
  await pool.query("vacuum analyze mirror.order_facts, mirror.facts_daily");
  await pool.query("checkpoint");
  const subjects = readQuestions(YEAR_END).map(({ question, sql }): Subject => ({
    name: question,
    goal: "under 1 s",
    run: () => time(pool, sql),
  }));
  return compare({ section: "reporting", unit: "ms", subjects });
};

async function time(pool: Pool, sql: string) {
  const startedMs = performance.now();
  await pool.query(sql);
  return { value: performance.now() - startedMs, errors: 0 };
}

/** The end of the year of orders: what now() is to statements about them. */
const YEAR_END = "2026-07-01T00:00:00Z";

const BATCH = 50_000;
const BRANCHES = 200;

/*
 * Order n of `total`, spread evenly over the year before YEAR_END. Each has a state every eight minutes: created, at the
 * pickup, picked up, at the delivery, delivered; every twentieth is cancelled after two of them. Reads bring one state of
 * fifty first. Actual deliveries are up to 20 minutes early or late.
 */
const SKETCH = `
with sketch as materialized (
  select n, 'S' || n as reference, n % 20 = 2 as cancelled, 'b' || n % $4::int as branch_id, 'Fleet ' || n % 20 as fleet_name,
    $5::timestamptz - (1 - n / $3::float8) * interval '365 days' - interval '1 hour' as created_at
  from generate_series($1::bigint, least($2::bigint, $3::bigint)) n
)`;
const FILL = `${SKETCH}, states as materialized (
  select s.*, state.nth, state.status, created_at + state.nth * interval '8 minutes' as at,
    case when (n * 5 + state.nth) % 50 = 0 then 'poll' else 'webhook' end as via,
    n * 5 + state.nth as history_id, state.nth = case when cancelled then 2 else 4 end as latest
  from sketch s cross join lateral (values
    (0, 'created'), (1, 'arrived_for_pickup'), (2, case when cancelled then 'cancelled' else 'picked_up' end),
    (3, 'arrived_for_delivery'), (4, 'delivered')) state (nth, status)
  where not cancelled or state.nth < 3
), recorded as (
  insert into mirror.history (history_id, source_id, reference, via, verdict, version, settled, observed_at, rank, hash,
    status, raw, seen_at)
  select history_id, 'live', reference, via, 'applied', mirror.nanos_of(at), false, mirror.nanos_of(at), nth, '', status,
    json_build_object('reference', reference, 'status', status, 'fleet', json_build_object('name', fleet_name),
      'branch', json_build_object('id', branch_id), 'pickupTime', created_at + interval '20 minutes'), at + interval '1 second'
  from states
)
insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id, status,
  updated_at, livemode, fleet_name, branch_id, schedule_mode, pickup_time, delivery_time, real_pickup_time,
  real_delivery_time, raw, revision, history_id, first_seen_via, first_seen_at, changed_at)
select 'live', reference, mirror.nanos_of(at), true, 0, nth, '', 'shop-' || n, status, at, true, fleet_name, branch_id, 'asap',
  created_at + interval '20 minutes', created_at + interval '40 minutes',
  case when not cancelled then created_at + interval '16 minutes' end,
  case when not cancelled then created_at + interval '40 minutes' + (n % 2401 - 1200) * interval '1 second' end,
  json_build_object('reference', reference, 'status', status, 'note', repeat('x', 600)), nth + 1, history_id, 'webhook',
  created_at + interval '1 second', at + interval '1 second'
from states where latest`;

/** 200 branches, and a year of which everything is proved. */
async function prepareYear(pool: Pool): Promise<void> {
  await pool.query(
    `insert into mirror.branches (source_id, branch_id, reference, name, raw)
     select 'live', 'b' || n, 'B' || n, 'Branch ' || n, '{}' from generate_series(0, ${BRANCHES - 1}) n`,
  );
  await pool.query(
    `insert into mirror.poll_state (source_id, history_since, safe_through)
     values ('live', mirror.nanos_of($1::timestamptz - interval '400 days'), mirror.nanos_of($1))`,
    [YEAR_END],
  );
}

/** A year of `total` orders with their history, analyzed. Facts are not computed. */
async function fillYear(pool: Pool, total: number): Promise<void> {
  await prepareYear(pool);
  for (let first = 1; first <= total; first += BATCH)
    await pool.query(FILL, [first, first + BATCH - 1, total, BRANCHES, YEAR_END]);
  for (const table of ["orders", "history", "branches"]) await pool.query(`vacuum analyze mirror.${table}`);
  await pool.query("checkpoint");
}
