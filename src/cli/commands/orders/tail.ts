import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { formatInstant } from "../../../domain/order/instant.ts";
import { readHistoryMark, readLastDecisions } from "../../../changes/changeTail.sql.ts";
import type { DecisionFilter, DecisionRow, HistoryMark } from "../../../changes/changeTail.sql.ts";
import type { Pool } from "../../../database/database.ts";
import { classifyDatabaseError } from "../../../database/databaseErrors.ts";
import { findOrders } from "../../../ops/orders/order.sql.ts";
import { systemClock } from "../../../runtime/lifecycle/clock.ts";
import { formatDecision } from "../../output/decisionLine.ts";
import { followDecisions } from "../../output/followDecisions.ts";
import { runUntilInterrupted } from "../../input/interrupts.ts";
import { withMirror } from "../../input/session.ts";
import { chooseSource } from "../../input/sourceChoice.ts";
import { makePaint, printLine, printNotice } from "../../output/terminal.ts";

interface Options {
  readonly source?: string;
  readonly order?: string;
  readonly last: number;
  readonly json?: boolean;
}

const LAST_MAX = 10_000;
const LAST_DEFAULT = 10;
const RETRY_MS = 2_000;

export function register(program: Command): void {
  program
    .command("tail")
    .description("follow decisions as they are made, one line each, until Ctrl-C")
    .option("--source <id>", "only this source")
    .option("--order <reference>", "only this order: its reference or externalOrderId")
    .option("-n, --last <count>", "begin with this many of the last ones", parseCount, LAST_DEFAULT)
    .option("--json", "print each decision as a line of JSON, including confirmations")
    .action((options: Options) =>
      runUntilInterrupted((signal) => withMirror(({ pool }) => tail(pool, options, signal))),
    );
}

async function tail(pool: Pool, options: Options, signal: AbortSignal): Promise<void> {
  const filter = await resolveFilter(pool, options);
  const print = options.json === true ? printDecisionJson : makeLinePrinter();
  let mark = await readHistoryMark(pool);
  for (const decision of await readLastDecisions(pool, { ...filter, limit: options.last })) print(decision);
  while (!signal.aborted) {
    try {
      const decisions = followDecisions({ pool, clock: systemClock, filter, after: mark, signal });
      for await (const decision of decisions) print(decision);
    } catch (error) {
      if (classifyDatabaseError(error) !== "transient") throw error;
      printNotice("Postgres does not answer; retrying until it does.");
      mark = await waitForMark(pool, mark, signal);
    }
  }
}

/** Resumes from now once the database answers again: a tail shows current events. */
async function waitForMark(pool: Pool, last: HistoryMark, signal: AbortSignal): Promise<HistoryMark> {
  while (!signal.aborted) {
    await systemClock.sleep(RETRY_MS, signal).catch(() => undefined);
    const mark = await readHistoryMark(pool).catch(() => undefined);
    if (mark === undefined) continue;
    printNotice("Postgres answers again.");
    return mark;
  }
  return last;
}

async function resolveFilter(pool: Pool, { source, order }: Options): Promise<DecisionFilter> {
  const sourceId = source === undefined ? null : await chooseSource(pool, source);
  if (order === undefined) return { sourceId, reference: null };
  const [found] = await findOrders(pool, { text: order, sourceId });
  if (found) return { sourceId: found.sourceId, reference: found.reference };
  printNotice(`Order ${order} is not known yet; waiting for one with that reference.`);
  return { sourceId, reference: order };
}

function makeLinePrinter(): (decision: DecisionRow) => void {
  const paint = makePaint(process.stdout);
  return (decision) => {
    const line = formatDecision(decision, { now: decision.seenAt, paint });
    if (line !== undefined) printLine(line);
  };
}

function printDecisionJson(decision: DecisionRow): void {
  const { historyId, version, seenAt, ...rest } = decision;
  printLine(
    JSON.stringify({
      historyId: String(historyId),
      ...rest,
      version: version === null ? null : formatInstant(version),
      seenAt: formatInstant(seenAt),
    }),
  );
}

function parseCount(text: string): number {
  const count = Number(text);
  if (/^\d+$/.test(text) && count <= LAST_MAX) return count;
  throw new InvalidArgumentError(`It must be a whole number of at most ${LAST_MAX}.`);
}
