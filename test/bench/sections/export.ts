import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Pool } from "../../../src/database/database.ts";
import { EXPORT_COLUMNS } from "../../../src/orders/export/orderExport.sql.ts";
import { startProgram } from "../../support/programs/program.ts";
import type { Bench } from "../bench.ts";
import { buildProgram } from "../buildProgram.ts";
import { compare, median } from "../measure.ts";
import type { Figure, Sample } from "../measure.ts";
import { fillOrders, ORDERS } from "../millionOrders.ts";
import { readMegabytes } from "../resident.ts";

const LOOK_MS = 100;

const TABLE = {
  table: "reporting.orders",
  columns: Object.keys(EXPORT_COLUMNS).join(", "),
  copy: "format csv",
};
const FORMATS = {
  csv: TABLE,
  parquet: TABLE,
  ndjson: { table: "mirror.orders", columns: "raw::text", copy: "format text" },
} as const;
type Format = keyof typeof FORMATS;

/** Exports a million orders with the built program: speed and memory. */
export const benchExport: Bench = async ({ pool, databaseUrl, onEnd }) => {
  await buildProgram();
  await fillOrders(pool);
  const folder = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-export-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  const figures: Figure[] = [];
  for (const format of Object.keys(FORMATS) as Format[]) {
    const peaks: number[] = [];
    const output = path.join(folder, `orders.${format}`);
    const run = async () => {
      const { sample, megabytes } = await exportOrders({ databaseUrl, format, output });
      peaks.push(megabytes);
      return sample;
    };
    const speed = await compare({
      section: "export",
      unit: "orders/s",
      subjects: [{ name: `order-mirror export --format ${format}, ${ORDERS} orders`, run }],
      limit: { name: "limit: COPY of the same rows to /dev/null", run: () => copyOrders(pool, format) },
    });
    figures.push(...speed, describePeaks(`the same, most memory seen (${format})`, peaks));
  }
  return figures;
};

/** Speed as reported by the program, without its start. */
async function exportOrders(asked: {
  databaseUrl: string;
  format: Format;
  output: string;
}): Promise<{ sample: Sample; megabytes: number }> {
  const { databaseUrl, format, output } = asked;
  const program = startProgram(["export", "--format", format, "--output", output, "--json"], {
    DATABASE_URL: databaseUrl,
  });
  const pid = program.child.pid ?? 0;
  const state = { over: false };
  const ending = program.ended.finally(() => (state.over = true));
  let megabytes = 0;
  while (!state.over) {
    megabytes = Math.max(megabytes, await readMegabytes(pid).catch(() => 0));
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  const { code, stdout, stderr } = await ending;
  if (code !== 0) throw new Error(`the export ended with ${code}: ${stderr}`);
  const { orders, elapsedMs } = JSON.parse(stdout) as { orders: number; elapsedMs: number };
  return { sample: { value: orders / (elapsedMs / 1_000), errors: ORDERS - orders }, megabytes };
}

async function copyOrders(pool: Pool, format: Format): Promise<Sample> {
  const { table, columns, copy } = FORMATS[format];
  const startedMs = performance.now();
  const { rowCount } = await pool.query(
    `copy (select ${columns} from ${table} where source_id = 'live' order by version, reference)
     to '/dev/null' (${copy})`,
  );
  const orders = rowCount ?? 0;
  return { value: orders / ((performance.now() - startedMs) / 1_000), errors: ORDERS - orders };
}

function describePeaks(name: string, peaks: readonly number[]): Figure {
  const value = { min: Math.min(...peaks), median: median(peaks), max: Math.max(...peaks) };
  const none = { p50Ms: null, p99Ms: null, ofLimit: null };
  return { section: "export", name, unit: "MB RSS", value, ...none, goal: "under 150 MB" };
}
