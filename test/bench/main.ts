import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { makePool } from "../../src/mirror/database.ts";
import type { Pool } from "../../src/mirror/database.ts";
import { migrate } from "../../src/mirror/migrations.ts";
import { startEmbeddedPostgres } from "../../src/runtime/embeddedPostgres.ts";
import { createDatabase, withDatabase } from "../support/createDatabase.ts";
import { addSource } from "../support/orders.ts";
import { benchApply } from "./apply.ts";
import type { Figure } from "./measure.ts";
import { benchReceive } from "./receive.ts";

/** `npm run bench [section …] [--json]`: each figure as a ratio to its limit, measured in the same run. */
const SECTIONS: Readonly<Record<string, (pool: Pool) => Promise<Figure[]>>> = {
  receive: benchReceive,
  apply: benchApply,
};

const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const unknown = wanted.filter((name) => !Object.hasOwn(SECTIONS, name));
if (unknown.length > 0) {
  process.stderr.write(`No section ${unknown.join(", ")}; there are ${Object.keys(SECTIONS).join(", ")}.\n`);
  process.exit(2);
}
const figures: Figure[] = [];
for (const name of wanted.length > 0 ? wanted : Object.keys(SECTIONS)) {
  const bench = SECTIONS[name];
  if (bench) figures.push(...(await withFreshDatabase(bench)));
}
if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
else printTable(figures);

/** A durable server of the section's own: what is measured includes the fsync of every commit. */
async function withFreshDatabase(bench: (pool: Pool) => Promise<Figure[]>): Promise<Figure[]> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-"));
  const postgres = await startEmbeddedPostgres({ dataDir });
  try {
    await createDatabase(postgres.url, "bench");
    const url = withDatabase(postgres.url, "bench");
    await migrate(url);
    const pool = makePool({ url, purpose: "bench", max: 10, statementTimeoutMs: 30_000 });
    await addSource(pool, "live");
    const measured = await bench(pool);
    await pool.end();
    return measured;
  } finally {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

function printTable(rows: readonly Figure[]): void {
  const cells = rows.map((row) => [
    row.section,
    row.name,
    `${Math.round(row.perSecond.median)}/s (${Math.round(row.perSecond.min)}–${Math.round(row.perSecond.max)})`,
    row.p50Ms === null ? "" : `${row.p50Ms.toFixed(1)} ms`,
    row.p99Ms === null ? "" : `${row.p99Ms.toFixed(1)} ms`,
    row.ofLimit === null ? "" : row.ofLimit.toFixed(2),
  ]);
  const table = [["section", "what", "median (min–max)", "p50", "p99", "of limit"], ...cells];
  const widths =
    table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  for (const row of table)
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
}
