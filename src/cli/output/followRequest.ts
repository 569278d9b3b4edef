import type { Command } from "commander";
import type { Pool } from "../../database/database.ts";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { cancelRequest, readRequest, requestPeriod } from "../../poll/ledger/periodRequests.sql.ts";
import type { PeriodRequest, RequestKind } from "../../poll/ledger/periodRequests.sql.ts";
import { audited } from "../input/audit.ts";
import { runUntilInterrupted } from "../input/interrupts.ts";
import { describePeriod, readPeriod } from "../input/period.ts";
import { chooseSource } from "../input/sourceChoice.ts";
import type { Progress } from "./progressLine.ts";
import { printJson, printLine, printNotice } from "./terminal.ts";
import { watchTask } from "./watchTask.ts";

export interface RequestOptions {
  readonly from?: string;
  readonly to?: string;
  readonly source?: string;
  readonly detach?: boolean;
  readonly watch?: string;
  readonly cancel?: string;
  readonly json?: boolean;
}

/** Adds the options of a command that asks for a period to be read; `back` is an example of how far. */
export function addRequestOptions(command: Command, back: string): Command {
  return command
    .option("--from <when>", `start, inclusive: an instant, or a duration back from now such as ${back}`)
    .option("--to <when>", "end, exclusive; default now")
    .option("--source <id>", "of this source; needed when there are several")
    .option("--detach", "leave it to the poller and return at once")
    .option("--watch <number>", "watch one that was asked for before")
    .option("--cancel <number>", "call one off; what was read stays")
    .option("--json", "print JSON");
}

class RequestEndedError extends OrderMirrorError {
  override readonly name = "RequestEndedError";
  override readonly retry = "never";
}

interface Asking {
  readonly kind: RequestKind;
  readonly sample?: number | null;
  readonly repairs?: boolean;
  /** Prints what a request that is done has found. */
  readonly report: (ended: PeriodRequest) => void;
}

/** Asks for a period, or takes up one that was asked for, and shows its progress until it has ended. */
export async function followRequest(pool: Pool, options: RequestOptions, asking: Asking): Promise<void> {
  const { kind } = asking;
  const name = nameOf(kind);
  const command = `order-mirror ${verbOf(kind)}`;
  if (options.cancel !== undefined) {
    await cancel(pool, kind, parseNumber("--cancel", options.cancel));
    return;
  }
  // Before it is asked for: from then on an interruption has something to say.
  await runUntilInterrupted(async (signal) => {
    const { watch } = options;
    const asked = watch === undefined ? await ask(pool, options, asking) : parseNumber("--watch", watch);
    const known = await mustRead(pool, kind, asked);
    if (options.detach === true) {
      if (options.json === true) printJson(toJson(known));
      else printLine(`${name} ${asked} of source ${known.sourceId} is asked for.`);
      printNotice(`Watch it with ${command} --watch ${asked}`);
      return;
    }
    const ended = await watchTask({
      read: () => mustRead(pool, kind, asked),
      toProgress,
      onInterrupt: [
        `${name} ${asked} goes on without being watched.`,
        `  watch it:  ${command} --watch ${asked}`,
        `  cancel it: ${command} --cancel ${asked}`,
      ],
      signal,
    });
    if (ended === undefined) return;
    if (options.json === true) printJson(toJson(ended));
    assertDone(ended);
    asking.report(ended);
  });
}

async function ask(pool: Pool, options: RequestOptions, { kind, sample, repairs }: Asking): Promise<bigint> {
  if (options.from === undefined) {
    throw new ConfigurationError("It is not said from when.", {
      fix: "For example: --from P2D, or --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z.",
    });
  }
  const period = readPeriod({ from: options.from, to: options.to });
  const sourceId = await chooseSource(pool, options.source);
  return audited(pool, { action: verbOf(kind), sourceId, target: describePeriod(period) }, () =>
    requestPeriod(pool, {
      ...period,
      kind,
      sourceId,
      ...(sample === undefined ? {} : { sample }),
      ...(repairs === undefined ? {} : { repairs }),
    }),
  );
}

async function cancel(pool: Pool, kind: RequestKind, requestId: bigint): Promise<void> {
  const known = await mustRead(pool, kind, requestId);
  const name = nameOf(kind);
  const { sourceId } = known;
  const target = `${verbOf(kind)} ${requestId}`;
  const isCancelled = await audited(
    pool,
    { action: "cancel", sourceId, target },
    () => cancelRequest(pool, requestId),
    Number,
  );
  if (isCancelled) printLine(`${name} ${requestId} is cancelled; what was read stays.`);
  else printLine(`${name} ${requestId} had ended already: ${known.state}.`);
}

function verbOf(kind: RequestKind): string {
  return kind === "backfill" ? "backfill" : "verify";
}

function nameOf(kind: RequestKind): string {
  return kind === "backfill" ? "Backfill" : "Verification";
}

function toProgress({ since, until, readDownTo, sample, orders, elapsedMs }: PeriodRequest): Progress {
  const read = Number(until - readDownTo) / Number(until - since);
  const rate = elapsedMs > 0 ? `${Math.round((orders * 1_000) / elapsedMs)} orders/s` : "";
  return { share: sample === null ? read : orders / sample, elapsedMs, done: `${orders} orders`, rate };
}

function assertDone({ kind, requestId, state, lastError }: PeriodRequest): void {
  const name = `${nameOf(kind)} ${requestId}`;
  if (state === "failed") {
    throw new RequestEndedError(`${name} failed: ${lastError ?? "nobody noted why"}`, {
      fix: "Mend it and ask for the rest again; what was read stays.",
    });
  }
  if (state === "cancelled") {
    throw new RequestEndedError(`${name} was cancelled${lastError === null ? "" : `: ${lastError}`}.`);
  }
}

async function mustRead(pool: Pool, kind: RequestKind, requestId: bigint): Promise<PeriodRequest> {
  const known = await readRequest(pool, requestId);
  if (known?.kind === kind) return known;
  throw new ConfigurationError(`There is no ${kind} ${requestId}.`, {
    fix: "Its number was said when it was asked for.",
  });
}

/** A whole number from 1 on. Throws ConfigurationError. */
export function parseNumber(option: string, text: string): bigint {
  if (/^[1-9]\d{0,17}$/.test(text)) return BigInt(text);
  throw new ConfigurationError(`${JSON.stringify(text)} is no number for ${option}.`, {
    fix: "Write a whole number from 1 on.",
  });
}

function toJson(request: PeriodRequest) {
  const { since, until, readDownTo, historySince, ...rest } = request;
  return {
    ...rest,
    since: formatInstant(since),
    until: formatInstant(until),
    readDownTo: formatInstant(readDownTo),
    historySince: historySince === null ? null : formatInstant(historySince),
  };
}
