import { createMirrorClient, postgresOrders } from "../../../src/client/mirrorClient.ts";
import type { Reconciliation } from "../../../src/client/mirrorClient.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import type { Bench } from "../bench.ts";
import { amount, RUNS } from "../effort.ts";
import { median } from "../measure.ts";
import type { Figure } from "../measure.ts";
import { fillOrders, ORDERS } from "../millionOrders.ts";
import { makeEnvironment, startRole } from "../roles.ts";

const SECTION = "reconcile";
const DIFFERENCES = [0, 10, amount(10_000)];
const TIMEOUT_MS = 60_000;

/** A reader with a million orders in its own Postgres: what it costs to become equal to the mirror again. */
export const benchReconcile: Bench = async ({ pool, databaseUrl, addDatabase, onEnd }) => {
  await fillOrders(pool);
  const url = await addDatabase("reader");
  const reader = makePool({ url, purpose: "reader", max: 2, statementTimeoutMs: TIMEOUT_MS });
  onEnd(() => reader.end());
  const store = postgresOrders(reader);
  await store.remove([]);
  await fillReader(pool, reader);
  const web = await startRole("web", makeEnvironment({ databaseUrl }));
  onEnd(web.stop);
  const mirror = createMirrorClient({ baseUrl: String(web.greeting), deadlineMs: TIMEOUT_MS });
  const figures: Figure[] = [await measureAll(pool)];
  for (const differences of DIFFERENCES) {
    const runs: (Reconciliation & { readonly seconds: number })[] = [];
    for (let run = 0; run <= RUNS; run += 1) {
      await damage(reader, differences);
      const startedMs = performance.now();
      const result = await mirror.reconcile(store);
      const seconds = (performance.now() - startedMs) / 1_000;
      process.stderr.write(
        `  ${SECTION} · run ${run} of ${RUNS} · ${JSON.stringify({ ...result, seconds })}\n`,
      );
      if (result.written + result.removed !== differences)
        throw new Error(`${result.written + result.removed} differences were found, not ${differences}`);
      if (run > 0) runs.push({ ...result, seconds });
    }
    figures.push(...describe(differences, runs));
  }
  return figures;
};

async function fillReader(pool: Pool, reader: Pool): Promise<void> {
  const batch = amount(100_000);
  for (let first = 1; first <= ORDERS; first += batch) {
    const { rows } = await pool.query<{ text: string }>(
      `select string_agg(reference || ',' || version || ',' || encode(hash, 'hex'), E'\\n') as text
       from mirror.orders where substr(reference, 2)::bigint between $1 and $2`,
      [first, first + batch - 1],
    );
    await reader.query(
      `insert into order_mirror_orders (reference, version, hash, "order")
       select split_part(line, ',', 1), split_part(line, ',', 2)::bigint, decode(split_part(line, ',', 3), 'hex'), '{}'
       from string_to_table($1, E'\\n') as line`,
      [rows[0]?.text],
    );
  }
  await reader.query("vacuum analyze order_mirror_orders");
}

/** Spread over all orders: a third is missing, a third is of an earlier updatedAt, a third is unknown to the mirror. */
async function damage(reader: Pool, differences: number): Promise<void> {
  const chosen = `
    select 'S' || ((i + 0.5) * $1::bigint / $2::bigint)::bigint as reference, i
    from generate_series(0, $2::bigint - 1) i`;
  if (differences === 0) return;
  const values = [ORDERS, differences];
  await reader.query(
    `insert into order_mirror_orders (reference, version, hash, "order")
     select 'X' || o.reference, o.version + 1, sha256(o.hash), '{}'
     from order_mirror_orders o join (${chosen}) c using (reference) where c.i % 3 = 0`,
    values,
  );
  await reader.query(
    `delete from order_mirror_orders o using (${chosen}) c where c.reference = o.reference and c.i % 3 = 1`,
    values,
  );
  await reader.query(
    `update order_mirror_orders o set version = o.version - 86400000000001, hash = sha256(o.hash)
     from (${chosen}) c where c.reference = o.reference and c.i % 3 = 2`,
    values,
  );
}

async function measureAll(pool: Pool): Promise<Figure> {
  const { rows } = await pool.query<{ kilobytes: number }>(
    "select sum(octet_length(raw::text))::float8 / 1000 as kilobytes from mirror.orders",
  );
  return toFigure(`for comparison: all ${ORDERS} orders`, "kB", [rows[0]?.kilobytes ?? 0]);
}

function describe(
  differences: number,
  runs: readonly (Reconciliation & { readonly seconds: number })[],
): Figure[] {
  const name = `${ORDERS} orders, ${differences} differences`;
  const kilobytes = runs.map(({ bytesSent, bytesReceived }) => (bytesSent + bytesReceived) / 1_000);
  return [
    toFigure(name, "kB sent and received", kilobytes),
    toFigure(
      name,
      "requests",
      runs.map(({ requests }) => requests),
    ),
    toFigure(
      name,
      "s",
      runs.map(({ seconds }) => seconds),
    ),
  ];
}

function toFigure(name: string, unit: string, values: readonly number[]): Figure {
  const value = { min: Math.min(...values), median: median(values), max: Math.max(...values) };
  return { section: SECTION, name, unit, value, p50Ms: null, p99Ms: null, ofLimit: null, goal: null };
}
