import { toBatchRows } from "../../src/apply/batchRows.ts";
import { applyBatch } from "../../src/mirror/applyBatch.ts";
import type { BatchRow } from "../../src/mirror/applyBatch.ts";
import type { Pool } from "../../src/mirror/database.ts";
import { parseInstant } from "../../src/domain/instant.ts";
import { observeRead } from "../../src/domain/observation.ts";
import { at, makeSnapshot } from "../support/orders.ts";
import type { Bench } from "./bench.ts";
import { amount } from "./effort.ts";
import { compare } from "./measure.ts";
import type { Sample, Subject } from "./measure.ts";

const ROWS = amount(10_000);
const BATCH = 100;
const CONNECTIONS = 2;
const SINGLE_ROWS = amount(2_000);
const SINGLE_CONNECTIONS = 10;
const PRELOADED = 50_000;

/** The same work without guard, history and feed: what one recordset statement can do here. */
const RAW_UPSERT = `
insert into bench_orders (source_id, reference, version, status, raw)
select source_id, reference, version, status, raw::json
from json_to_recordset($1::json) as r (source_id text, reference text, version bigint, status text, raw text)
order by source_id, reference
on conflict (source_id, reference) do update set
  version = excluded.version, status = excluded.status, raw = excluded.raw where excluded.version > bench_orders.version`;

const HISTORY_AND_FEED = `
with rows as (
  select * from json_to_recordset($1::json) as r (source_id text, reference text, version bigint, status text, raw text)
), kept as (
  insert into bench_history (source_id, reference, version, raw) select source_id, reference, version, raw::json from rows
)
insert into bench_feed (source_id, reference, version) select source_id, reference, version from rows`;

/** Applying: our one statement per batch, against the bare statements that write the same rows, and single events. */
export const benchApply: Bench = async ({ pool }) => {
  await prepare(pool);
  let step = 0;
  const nextRows = (count: number): BatchRow[] => {
    step += 1;
    return toBatchRows(
      Array.from({ length: count }, (_, index) => {
        const reference = `R${(step * count + index) % PRELOADED}`;
        const snapshot = makeSnapshot({
          reference,
          updatedAt: at(step * 100 + 1),
          more: { note: "x".repeat(300) },
        });
        const requestedAt = parseInstant(at(step * 100 + 1));
        const observation = observeRead({
          sourceId: "live",
          via: "poll",
          snapshot,
          requestedAt,
          settleNanos: 5_000_000_000n,
        });
        return {
          kind: "observation" as const,
          sourceId: "live",
          via: "poll" as const,
          event: null,
          observation,
        };
      }),
    );
  };
  const inBatches = (name: string, write: (rows: readonly BatchRow[]) => Promise<unknown>): Subject => ({
    name,
    run: () => drain(nextRows(ROWS), { size: BATCH, connections: CONNECTIONS, write }),
  });
  return compare({
    section: "apply",
    unit: "/s",
    subjects: [
      {
        ...inBatches(`our statement, ${BATCH} rows, two connections`, (rows) => applyBatch(pool, rows)),
        goal: "at least 0.8 of the limit and 6 times one event each",
      },
      {
        name: "our statement, one event each, ten connections",
        run: () =>
          drain(nextRows(SINGLE_ROWS), {
            size: 1,
            connections: SINGLE_CONNECTIONS,
            write: (rows) => applyBatch(pool, rows),
          }),
      },
    ],
    limit: inBatches("limit: the raw statements for the same rows", async (rows) => {
      const values = [JSON.stringify(rows)];
      await pool.query({ name: "bench-raw", text: RAW_UPSERT, values });
      await pool.query({ name: "bench-rows", text: HISTORY_AND_FEED, values });
    }),
  });
};

async function drain(
  rows: readonly BatchRow[],
  options: { size: number; connections: number; write: (rows: readonly BatchRow[]) => Promise<unknown> },
): Promise<Sample> {
  const batches = Array.from({ length: Math.ceil(rows.length / options.size) }, (_, index) =>
    rows.slice(index * options.size, (index + 1) * options.size).map((row, n) => ({ ...row, n })),
  );
  const startedMs = performance.now();
  const connection = async () => {
    for (let batch = batches.pop(); batch; batch = batches.pop()) await options.write(batch);
  };
  await Promise.all(Array.from({ length: options.connections }, connection));
  return { value: rows.length / ((performance.now() - startedMs) / 1_000), errors: 0 };
}

async function prepare(pool: Pool): Promise<void> {
  await pool.query(`
    create table bench_orders (source_id text, reference text, version bigint, status text, raw json, primary key (source_id, reference));
    create index on bench_orders (source_id, version, reference);
    create table bench_history (history_id bigint generated always as identity primary key, source_id text, reference text, version bigint, raw json);
    create index on bench_history (source_id, reference, history_id);
    create table bench_feed (position bigint generated always as identity primary key, source_id text, reference text, version bigint);
    insert into bench_orders select 'live', 'R' || n, 0, 'created', '{}' from generate_series(0, ${PRELOADED - 1}) n`);
}
