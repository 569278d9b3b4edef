import type { Command } from "commander";
import type pg from "pg";
import { withClient } from "../../database/database.ts";
import { assertMigrated } from "../../database/migrations.ts";
import { beginSnapshot } from "../../database/snapshot.sql.ts";
import { withDatabase } from "../../roles/start/openDatabase.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { configureHere } from "../demo/demoFolder.ts";
import { ProblemsFoundError } from "../input/failure.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { readConfig } from "../input/session.ts";
import { makeProgressLine } from "../output/progressLine.ts";
import { alignColumns, formatSpan, printJson, printLine } from "../output/terminal.ts";
import { countOrders, readKeptOrders, readMissingOrders } from "./keptOrders.sql.ts";
import { rehearseOrder } from "./rehearseOrder.ts";
import type { Difference } from "./rehearseOrder.ts";

const SHOWN_MAX = 20;

interface Rehearsal {
  readonly orders: number;
  readonly observations: number;
  readonly differences: readonly Difference[];
}

export function register(program: Command): void {
  program
    .command("rehearse")
    .description(
      "fold the kept history by this program's rules and compare it with the mirror; writes nothing",
    )
    .option("--json", "print JSON")
    .action(({ json }: { json?: boolean }) =>
      runUntilInterrupted(async (signal) => {
        const startedMs = systemClock.monotonicMs();
        const rehearsal = await rehearse(signal);
        if (signal.aborted) return;
        report(rehearsal, { json: json === true, elapsedMs: systemClock.monotonicMs() - startedMs });
      }),
    );
}

/** Accepts an older schema: a release is rehearsed before it migrates. */
async function rehearse(signal: AbortSignal): Promise<Rehearsal> {
  return withDatabase(await configureHere(readConfig()), async ({ url }) => {
    await assertMigrated(url);
    const place = { connectionString: url, application_name: "order-mirror rehearse" };
    return withClient(place, async (client) => {
      await beginSnapshot(client);
      return foldAll(client, signal);
    });
  });
}

async function foldAll(client: pg.ClientBase, signal: AbortSignal): Promise<Rehearsal> {
  const total = await countOrders(client);
  const missing = await readMissingOrders(client);
  const differences = missing.map((order): Difference => ({ ...order, kind: "missing", columns: [] }));
  const line = makeProgressLine(process.stderr, systemClock.monotonicMs);
  const startedMs = systemClock.monotonicMs();
  let orders = 0;
  let observations = 0;
  try {
    for await (const batch of readKeptOrders(client)) {
      if (signal.aborted) break;
      for (const kept of batch) {
        observations += kept.observations.length;
        const difference = rehearseOrder(kept);
        if (difference !== undefined) differences.push(difference);
      }
      orders += batch.length;
      const elapsedMs = systemClock.monotonicMs() - startedMs;
      line.show({ share: orders / Math.max(orders, total), elapsedMs, count: orders, unit: "orders" });
    }
  } finally {
    line.end();
  }
  return { orders, observations, differences };
}

function report(
  { orders, observations, differences }: Rehearsal,
  { json, elapsedMs }: { json: boolean; elapsedMs: number },
): void {
  const equal = differences.length === 0;
  if (json) printJson({ equal, orders, observations, elapsedMs: Math.round(elapsedMs), differences });
  else {
    printLine(`Folded ${observations} observations of ${orders} orders in ${formatSpan(elapsedMs)}.`);
    printLine(
      equal
        ? "This program comes to the same state of every order."
        : `This program comes to another state of ${differences.length === 1 ? "one order" : `${differences.length} orders`}:`,
    );
    const rows = differences
      .slice(0, SHOWN_MAX)
      .map(({ sourceId, reference, kind, columns }) => ["", sourceId, reference, kind, columns.join(", ")]);
    for (const text of alignColumns(rows)) printLine(text);
    if (differences.length > SHOWN_MAX)
      printLine(`  and ${differences.length - SHOWN_MAX} more; --json has all.`);
  }
  if (!equal) throw new ProblemsFoundError("some orders would differ");
}
