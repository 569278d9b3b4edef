import type { Command } from "commander";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { cancelBackfill, readBackfill, requestBackfill } from "../../poll/ledger/backfills.sql.ts";
import type { Backfill } from "../../poll/ledger/backfills.sql.ts";
import type { Pool } from "../../database/database.ts";
import { ProblemsFoundError } from "../input/failure.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { readPeriod } from "../input/period.ts";
import type { Progress } from "../output/progressLine.ts";
import { withMirror } from "../input/session.ts";
import { chooseSource } from "../input/sourceChoice.ts";
import { formatSpan, printJson, printLine, printNotice } from "../output/terminal.ts";
import { watchTask } from "../output/watchTask.ts";

interface Options {
  readonly from?: string;
  readonly to?: string;
  readonly source?: string;
  readonly detach?: boolean;
  readonly watch?: string;
  readonly cancel?: string;
  readonly json?: boolean;
}

class BackfillEndedError extends OrderMirrorError {
  override readonly name = "BackfillEndedError";
  override readonly retry = "never";
}

export function addBackfillCommand(program: Command): void {
  program
    .command("backfill")
    .description(
      "have a period of the past read from the provider, newest part first, beside the polling of current changes",
    )
    .option("--from <when>", "start, inclusive: an instant, or a duration back from now such as P90D")
    .option("--to <when>", "end, exclusive; default now")
    .option("--source <id>", "of this source; needed when there are several")
    .option("--detach", "leave it to the poller and return at once")
    .option("--watch <number>", "watch one that was asked for before")
    .option("--cancel <number>", "call one off; what was read stays")
    .option("--json", "print JSON")
    .action((options: Options) => withMirror(({ pool }) => backfill(pool, options)));
}

async function backfill(pool: Pool, options: Options): Promise<void> {
  if (options.cancel !== undefined) {
    await cancel(pool, parseNumber(options.cancel));
    return;
  }
  // Before it is asked for: from then on an interruption has something to say.
  await runUntilInterrupted(async (signal) => {
    const asked = options.watch === undefined ? await ask(pool, options) : parseNumber(options.watch);
    const known = await mustRead(pool, asked);
    if (options.detach === true) {
      if (options.json === true) printJson(toJson(known));
      else printLine(`Backfill ${asked} of source ${known.sourceId} is asked for.`);
      printNotice(`Watch it with order-mirror backfill --watch ${asked}`);
      return;
    }
    const ended = await watch(pool, asked, signal);
    if (ended !== undefined) report(ended, options.json === true);
  });
}

async function ask(pool: Pool, options: Options): Promise<bigint> {
  if (options.from === undefined) {
    throw new ConfigurationError("It is not said from when.", {
      fix: "For example: order-mirror backfill --from P90D, or --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z.",
    });
  }
  const period = readPeriod({ from: options.from, to: options.to });
  return requestBackfill(pool, { sourceId: await chooseSource(pool, options.source), ...period });
}

async function cancel(pool: Pool, backfillId: bigint): Promise<void> {
  const known = await mustRead(pool, backfillId);
  if (await cancelBackfill(pool, backfillId))
    printLine(`Backfill ${backfillId} is cancelled; what was read stays.`);
  else printLine(`Backfill ${backfillId} had ended already: ${known.state}.`);
}

/** Shows progress until the backfill has ended; undefined when the watching was interrupted before. */
function watch(pool: Pool, backfillId: bigint, signal: AbortSignal): Promise<Backfill | undefined> {
  return watchTask({
    read: () => mustRead(pool, backfillId),
    toProgress,
    onInterrupt: [
      `Backfill ${backfillId} goes on without being watched.`,
      `  watch it:  order-mirror backfill --watch ${backfillId}`,
      `  cancel it: order-mirror backfill --cancel ${backfillId}`,
    ],
    signal,
  });
}

function toProgress({ since, until, readDownTo, orders, elapsedMs }: Backfill): Progress {
  const share = Number(until - readDownTo) / Number(until - since);
  const rate = elapsedMs > 0 ? `${Math.round((orders * 1_000) / elapsedMs)} orders/s` : "";
  return { share, elapsedMs, done: `${orders} orders`, rate };
}

function report(ended: Backfill, json: boolean): void {
  const { backfillId, state, orders, requests, elapsedMs, unproved, lastError } = ended;
  if (json) printJson(toJson(ended));
  if (state === "failed") {
    throw new BackfillEndedError(`Backfill ${backfillId} failed: ${lastError ?? "nobody noted why"}`, {
      fix: "Mend it and ask for the rest again; what was read stays.",
    });
  }
  if (state === "cancelled") throw new BackfillEndedError(`Backfill ${backfillId} was cancelled.`);
  if (!json) {
    printLine(`Read ${orders} orders with ${requests} requests in ${formatSpan(elapsedMs)}.`);
    if (ended.historySince !== null) {
      printLine(`The mirror is complete from ${formatInstant(ended.historySince, 0)} on.`);
    }
  }
  if (unproved > 0) {
    printNotice(`${unproved} parts could not be proved whole: many orders share one timestamp there.`);
    throw new ProblemsFoundError("parts of the period could not be proved whole");
  }
}

async function mustRead(pool: Pool, backfillId: bigint): Promise<Backfill> {
  const known = await readBackfill(pool, backfillId);
  if (known !== undefined) return known;
  throw new ConfigurationError(`There is no backfill ${backfillId}.`, {
    fix: "Its number was said when it was asked for.",
  });
}

function parseNumber(text: string): bigint {
  if (/^\d{1,18}$/.test(text)) return BigInt(text);
  throw new ConfigurationError(`${JSON.stringify(text)} is no number of a backfill.`, {
    fix: "It is the number that was said when the backfill was asked for, such as 3.",
  });
}

function toJson(backfill: Backfill) {
  const { since, until, readDownTo, historySince, ...rest } = backfill;
  return {
    ...rest,
    since: formatInstant(since),
    until: formatInstant(until),
    readDownTo: formatInstant(readDownTo),
    historySince: historySince === null ? null : formatInstant(historySince),
  };
}
