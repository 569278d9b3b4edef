import type { Command } from "commander";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import type { Pool } from "../../database/database.ts";
import { readVerification, requestVerification } from "../../poll/ledger/verifications.sql.ts";
import type { Verification } from "../../poll/ledger/verifications.sql.ts";
import { ProblemsFoundError } from "../input/failure.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { readPeriod } from "../input/period.ts";
import type { Progress } from "../output/progressLine.ts";
import { withMirror } from "../input/session.ts";
import { chooseSource } from "../input/sourceChoice.ts";
import { alignColumns, formatSpan, printJson, printLine, printNotice } from "../output/terminal.ts";
import { watchTask } from "../output/watchTask.ts";

interface Options {
  readonly from?: string;
  readonly to?: string;
  readonly source?: string;
  readonly sample?: string;
  readonly repair: boolean;
  readonly watch?: string;
  readonly json?: boolean;
}

class VerificationFailedError extends OrderMirrorError {
  override readonly name = "VerificationFailedError";
  override readonly retry = "later";
}

export function addVerifyCommand(program: Command): void {
  program
    .command("verify")
    .description("compare a period of the mirror with the provider, and repair what differs")
    .option("--from <when>", "start, inclusive: an instant, or a duration back from now such as P2D")
    .option("--to <when>", "end, exclusive; default now")
    .option("--source <id>", "of this source; needed when there are several")
    .option("--sample <n>", "only so many orders of the mirror, by chance, read one by one")
    .option("--no-repair", "only say what differs, and write nothing")
    .option("--watch <number>", "watch one that was asked for before")
    .option("--json", "print JSON")
    .action((options: Options) => withMirror(({ pool }) => verify(pool, options)));
}

async function verify(pool: Pool, options: Options): Promise<void> {
  await runUntilInterrupted(async (signal) => {
    const asked =
      options.watch === undefined ? await ask(pool, options) : parseNumber("--watch", options.watch);
    const ended = await watchTask({
      read: () => mustRead(pool, asked),
      toProgress,
      onInterrupt: [
        `Verification ${asked} goes on without being watched.`,
        `  watch it: order-mirror verify --watch ${asked}`,
      ],
      signal,
    });
    if (ended !== undefined) report(ended, options.json === true);
  });
}

async function ask(pool: Pool, options: Options): Promise<bigint> {
  if (options.from === undefined) {
    throw new ConfigurationError("It is not said from when.", {
      fix: "For example: order-mirror verify --from P2D.",
    });
  }
  const period = readPeriod({ from: options.from, to: options.to });
  const sample = options.sample === undefined ? null : parseNumber("--sample", options.sample);
  return requestVerification(pool, {
    ...period,
    sourceId: await chooseSource(pool, options.source),
    sample: sample === null ? null : Number(sample),
    repairs: options.repair,
  });
}

function toProgress({ since, until, readDownTo, sample, orders, elapsedMs }: Verification): Progress {
  const read = Number(until - readDownTo) / Number(until - since);
  const rate = elapsedMs > 0 ? `${Math.round((orders * 1_000) / elapsedMs)} orders/s` : "";
  return { share: sample === null ? read : orders / sample, elapsedMs, done: `${orders} orders`, rate };
}

function report(ended: Verification, json: boolean): void {
  const { verificationId, state, orders, requests, elapsedMs, lastError, examples } = ended;
  const { missing, stale, contradicted, differing, extra, unreadable } = ended;
  if (json) printJson({ ...ended, ...showTimes(ended) });
  if (state === "failed") {
    throw new VerificationFailedError(
      `Verification ${verificationId} failed: ${lastError ?? "nobody noted why"}`,
    );
  }
  if (!json) {
    printLine(`Compared ${orders} orders with ${requests} requests in ${formatSpan(elapsedMs)}.`);
    const rows = [
      ["  missing", String(missing), "the mirror did not have them"],
      ["  stale", String(stale), "the mirror had an older state"],
      [
        "  contradicted",
        String(contradicted),
        "the mirror had a later state that the provider does not show",
      ],
      ["  differing", String(differing), "the same updatedAt, other content"],
      ["  extra", String(extra), "the provider does not have them"],
      ["  unreadable", String(unreadable), "could not be read singly, so nobody knows; they are tried again"],
    ];
    for (const line of alignColumns(rows)) printLine(line);
  }
  const differences = missing + stale + contradicted + differing + extra;
  if (differences + unreadable === 0) return;
  if (!json && differences > 0) {
    printNotice(
      ended.repairs ? "All of them were repaired." : "Nothing was repaired, as asked (--no-repair).",
    );
  }
  if (!json && examples.length > 0) printNotice(`Look at one: order-mirror order ${examples[0]}`);
  throw new ProblemsFoundError(
    differences > 0 ? "the mirror differed from the provider" : "some orders could not be compared",
  );
}

function showTimes({ since, until, readDownTo }: Verification) {
  return {
    since: formatInstant(since),
    until: formatInstant(until),
    readDownTo: formatInstant(readDownTo),
  };
}

async function mustRead(pool: Pool, verificationId: bigint): Promise<Verification> {
  const known = await readVerification(pool, verificationId);
  if (known !== undefined) return known;
  throw new ConfigurationError(`There is no verification ${verificationId}.`, {
    fix: "Its number was said when it was asked for.",
  });
}

function parseNumber(option: string, text: string): bigint {
  if (/^[1-9]\d{0,8}$/.test(text)) return BigInt(text);
  throw new ConfigurationError(`${JSON.stringify(text)} is no number for ${option}.`, {
    fix: "Write a whole number from 1 on.",
  });
}
