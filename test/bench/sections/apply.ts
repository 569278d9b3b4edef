import {
  toBatchRows,
  GIVEN_ROWS,
  packRows,
  ROW_COLUMNS,
  type BatchRow,
} from "../../../src/apply/batchRow.sql.ts";
import { applyBatch } from "../../../src/apply/applyBatch.sql.ts";
import type { Pool } from "../../../src/database/database.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { observeRead } from "../../../src/domain/order/observation.ts";
import { at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { Bench } from "../bench.ts";
import { amount } from "../effort.ts";
import { compare, type Sample, type Subject } from "../measure.ts";

const ROWS = amount(10_000);
const BATCH = 100;
const CONNECTIONS = 2;
const SINGLE_ROWS = amount(2_000);
const SINGLE_CONNECTIONS = 10;
const ORDERS = 50_000;
const PRELOAD_BATCH = 1_000;
const STATUSES = ["created", "arrived_for_pickup", "picked_up", "arrived_for_delivery", "delivered"];

const ORDER_COLUMNS = `version, settled, observed_at, rank, external_order_id, status, livemode, fleet_name, branch_id,
  branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time, resolved_basis, pickup_time,
  delivery_time, real_pickup_time, real_delivery_time, updated_at, hash, raw, history_id`;
const OVERWRITE = ORDER_COLUMNS.split(",")
  .map((name) => `${name.trim()} = excluded.${name.trim()}`)
  .join(", ");

/**
 * The limit: the same rows into the same kinds of tables, each with all of its indexes, with one plain statement that only
 * compares versions.
 */
const PLAIN = `
with rows as materialized (
  select r.source_id, r.reference, r.via, version, settled, observed_at, rank, external_order_id, status, livemode,
    fleet_name, branch_id, branch_reference, schedule_mode, resolved_pickup_time, resolved_delivery_time,
    resolved_basis, pickup_time, delivery_time, real_pickup_time, real_delivery_time, updated_at,
    hash, r.raw::json as raw, nextval('mirror.history_id') as history_id
  from ${GIVEN_ROWS}
), upserted as (
  insert into bench.orders as o (source_id, reference, first_seen_via, ${ORDER_COLUMNS})
  select source_id, reference, via, ${ORDER_COLUMNS} from rows order by source_id, reference
  on conflict (source_id, reference) do update set ${OVERWRITE}, changed_at = excluded.changed_at
  where excluded.version > o.version
), recorded as (
  insert into bench.history (history_id, source_id, reference, via, verdict, version, settled, observed_at, rank, hash,
    status, previous_status, raw)
  select history_id, source_id, reference, via, 'applied', version, settled, observed_at, rank, hash,
    status, status, raw from rows
)
insert into bench.changes (source_id, reference, revision, history_id, previous_history_id, status, previous_status,
  via, version, verdict)
select source_id, reference, 1, history_id, history_id, status, status, via, version, 'applied' from rows`;

/** Returns how many rows were written. */
type Write = (rows: readonly BatchRow[]) => Promise<number>;

/** Applying: our single statement per batch, compared with a plain one that writes the same rows, and single events. */
export const benchApply: Bench = async ({ pool }) => {
  const nextRows = await prepare(pool);
  const apply: Write = async (rows) => {
    const outcomes = await applyBatch(pool, rows);
    return outcomes.filter(({ verdict }) => verdict === "applied").length;
  };
  const inBatches = (name: string, write: Write): Subject => ({
    name,
    run: () => drain(nextRows(ROWS), { size: BATCH, connections: CONNECTIONS, write }),
  });
  return compare({
    section: "apply",
    unit: "/s",
    subjects: [
      {
        ...inBatches(`our statement, ${BATCH} rows, two connections`, apply),
        goal: "at least 0.8 of the limit and 6 times one event each",
      },
      {
        name: "our statement, one event each, ten connections",
        run: () => drain(nextRows(SINGLE_ROWS), { size: 1, connections: SINGLE_CONNECTIONS, write: apply }),
      },
    ],
    limit: inBatches("limit: a plain statement that writes the same rows", async (rows) => {
      const { rowCount } = await pool.query({
        name: "bench-plain",
        text: PLAIN,
        values: packRows(rows).slice(0, ROW_COLUMNS.length),
      });
      return rowCount ?? 0;
    }),
  });
};

/** Newer states of `count` orders, starting with number `first`. */
function makeRows({ step, first, count }: { step: number; first: number; count: number }): BatchRow[] {
  const updatedAt = at(step * 100);
  const requestedAt = parseInstant(updatedAt);
  const common = { sourceId: "live", via: "poll" } as const;
  return toBatchRows(
    Array.from({ length: count }, (_, index) => {
      const number = (first + index) % ORDERS;
      const snapshot = makeSnapshot({
        reference: `R${number}`,
        updatedAt,
        status: STATUSES[step % STATUSES.length] ?? "created",
        more: { branch: { id: `b-${number % 100}`, reference: null }, note: "x".repeat(300) },
      });
      const observation = observeRead({ ...common, snapshot, time: readAt(requestedAt, 5) });
      return { kind: "observation" as const, ...common, event: null, observation };
    }),
  );
}

async function drain(
  rows: readonly BatchRow[],
  options: { size: number; connections: number; write: Write },
): Promise<Sample> {
  const batches = Array.from({ length: Math.ceil(rows.length / options.size) }, (_, index) =>
    rows.slice(index * options.size, (index + 1) * options.size),
  );
  let written = 0;
  const startedMs = performance.now();
  const connection = async () => {
    for (let batch = batches.pop(); batch; batch = batches.pop()) {
      const count = await options.write(batch);
      written += count;
    }
  };
  await Promise.all(Array.from({ length: options.connections }, connection));
  const elapsedMs = performance.now() - startedMs;
  return { value: rows.length / (elapsedMs / 1_000), errors: rows.length - written };
}

/**
 * The same orders in both sets of tables, because four of five events are changes of known orders. Returns a source of newer
 * states.
 */
async function prepare(pool: Pool): Promise<(count: number) => BatchRow[]> {
  for (let first = 0; first < ORDERS; first += PRELOAD_BATCH) {
    await applyBatch(pool, makeRows({ step: 0, first, count: PRELOAD_BATCH }));
  }
  await pool.query("create schema bench");
  for (const table of ["orders", "history", "changes"]) {
    const { rows } = await pool.query<{ settings: string | null }>(
      "select 'with (' || array_to_string(reloptions, ', ') || ')' as settings from pg_class where oid = $1::regclass",
      [`mirror.${table}`],
    );
    await pool.query(
      `create table bench.${table} (like mirror.${table} including all) ${rows[0]?.settings ?? ""}`,
    );
  }
  await pool.query(
    "insert into bench.orders select * from mirror.orders; truncate mirror.history, mirror.changes",
  );
  await pool.query("vacuum analyze");
  let step = 0;
  return (count) => {
    step += 1;
    return makeRows({ step, first: step * count, count });
  };
}
