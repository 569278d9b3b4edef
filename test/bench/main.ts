import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { migrateQueue } from "../../src/queue/postgresServer.ts";
import { makePool, withClient } from "../../src/database/database.ts";
import { migrate } from "../../src/database/migrations.ts";
import { startEmbeddedPostgres } from "../../src/postgres/embeddedPostgres.ts";
import { createDatabase, withDatabase } from "../support/servers/database.ts";
import { addSource } from "../support/mirror/orders.ts";
import type { Bench } from "./children.ts";
import { amount, asked } from "./effort.ts";
import { benchCost } from "./sections/cost.ts";
import { benchEndToEnd } from "./sections/endToEnd.ts";
import { FIGURE_HEAD, writeFigure, type Figure } from "./measure.ts";

const SECTIONS: Readonly<Record<string, Bench>> = {
  cost: benchCost,
  "end-to-end": benchEndToEnd,
};
/** 1.6 GB, for the writes between two checkpoints: 6.5 kB per event on its way to the mirror. */
const FILES = amount(100);

/** Settings of a busy server; see docs/production.md. */
const SERVER_SETTINGS = ["min_wal_size=1024MB", "max_wal_size=8GB"] as const;
const USAGE = `npm run bench -- [--section NAME]… [--runs=N] [--json] [--quick]
  Each figure as a ratio to its limit, measured in the same run.
Sections: ${Object.keys(SECTIONS).join(", ")}.
Exits with 1 when a section could not be measured, after the figures of the others.
`;
const POOL_CONNECTIONS = 10;
const STATEMENT_TIMEOUT_MS = 60_000;

const sections = asked.section ?? Object.keys(SECTIONS);
const unknown = sections.filter((name) => !Object.hasOwn(SECTIONS, name));
if (asked.help) process.stdout.write(USAGE);
else if (unknown.length > 0) {
  process.stderr.write(`No section ${unknown.join(", ")}; there are ${Object.keys(SECTIONS).join(", ")}.\n`);
  process.exitCode = 2;
} else await measure();

async function measure(): Promise<void> {
  const figures: Figure[] = [];
  for (const name of sections) {
    try {
      figures.push(...(await runSection(SECTIONS[name] ?? (() => Promise.resolve([])))));
    } catch (error) {
      process.stderr.write(
        `NOT MEASURED: ${name}. ${error instanceof Error ? error.stack : String(error)}\n`,
      );
      process.exitCode = 1;
    }
  }
  if (asked.json) process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  else printTable([["section", ...FIGURE_HEAD], ...figures.map((row) => [row.section, ...writeFigure(row)])]);
}

/** On a separate durable server: the measurement includes the fsync of every commit. */
async function runSection(bench: Bench): Promise<Figure[]> {
  const endings: (() => Promise<void>)[] = [];
  const onEnd = (stop: () => Promise<void>) => void endings.unshift(stop);
  try {
    const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-bench-"));
    onEnd(() => rm(dataDir, { recursive: true, force: true }));
    const postgres = await startEmbeddedPostgres({ dataDir, settings: SERVER_SETTINGS });
    onEnd(() => postgres.stop());
    await warmServer(postgres.url);
    await createDatabase(postgres.url, "bench");
    const databaseUrl = withDatabase(postgres.url, "bench");
    await migrate(databaseUrl);
    await withClient(databaseUrl, migrateQueue);
    const pool = makePool({
      url: databaseUrl,
      purpose: "bench",
      max: POOL_CONNECTIONS,
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      keepsPlans: true,
      plansForAnyValues: true,
    });
    onEnd(() => pool.end());
    await addSource(pool, "live");
    return await bench({ pool, databaseUrl, onEnd });
  } finally {
    for (const stop of endings) await stop();
  }
}

/**
 * Brings a new server to the state after running for a while, with write-ahead log files that can be reused. Creating such
 * a file delays all commits for some 50 ms, every 1.5 s at 2,000 events per second.
 */
async function warmServer(url: string): Promise<void> {
  await withClient(url, async (client) => {
    for (let file = 0; file < FILES; file += 1) {
      await client.query("select pg_logical_emit_message(false, 'bench', 'something to switch from')");
      await client.query("select pg_switch_wal()");
    }
    await client.query("checkpoint");
  });
}

function printTable(table: readonly (readonly string[])[]): void {
  const widths = (table[0] ?? []).map((_, column) =>
    Math.max(...table.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of table) {
    const line = row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    process.stdout.write(`${line.trimEnd()}\n`);
  }
}
