import type { Command } from "commander";
import type { Pool } from "../../database/database.ts";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import { formatInstant, ceilTo, floorTo } from "../../domain/order/instant.ts";
import { cancelRequest, readRequest, requestPeriod } from "../../poll/ledger/periodRequests.sql.ts";
import type { PeriodRequest, RequestKind } from "../../poll/ledger/periodRequests.sql.ts";
import { audited, chooseSource, runUntilInterrupted } from "../input/session.ts";
import { makeProgressLine, printJson, printLine, printNotice } from "./terminal.ts";
import type { Progress } from "./terminal.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { BOUND_GRANULE } from "../../domain/window/window.ts";
import type { Window } from "../../domain/window/window.ts";
import { resolveSince } from "../../runtime/config/duration.ts";

export interface RequestOptions {
  readonly from?: string;
  readonly to?: string;
  readonly source?: string;
  readonly detach?: boolean;
  readonly watch?: string;
  readonly cancel?: string;
  readonly json?: boolean;
}

/** Adds the options of a command that requests a read of a period; `back` is an example for --from. */
export function addRequestOptions(command: Command, back: string): Command {
  return command
    .option("--from <when>", `start, inclusive: an instant, or a duration back from now such as ${back}`)
    .option("--to <when>", "end, exclusive; default: now")
    .option("--source <id>", "the source; required if there are several")
    .option("--detach", "return immediately and leave the work to the poller")
    .option("--watch <number>", "watch an earlier request")
    .option("--cancel <number>", "cancel a request; what was read stays")
    .option("--json", "print JSON");
}

class RequestEndedError extends OrderMirrorError {
  override readonly name = "RequestEndedError";
  override readonly retry = "never";
}

interface Asking {
  readonly kind: RequestKind;
  /** Prints the result of a finished request. */
  readonly report: (ended: PeriodRequest) => void;
}

/** Creates a request for a period, or resumes watching an existing one, and shows its progress until it ends. */
export async function followRequest(pool: Pool, options: RequestOptions, asking: Asking): Promise<void> {
  const { kind } = asking;
  const name = nameOf(kind);
  const command = `order-mirror ${verbOf(kind)}`;
  if (options.cancel !== undefined) {
    await cancel(pool, kind, parseNumber("--cancel", options.cancel));
    return;
  }
  // Set up before the request is created: from then on, an interruption prints how to continue.
  await runUntilInterrupted(async (signal) => {
    const { watch } = options;
    const asked = watch === undefined ? await ask(pool, options, asking) : parseNumber("--watch", watch);
    const known = await mustRead(pool, kind, asked);
    if (options.detach === true) {
      if (options.json === true) printJson(toJson(known));
      else printLine(`${name} ${asked} of source ${known.sourceId} is requested.`);
      printNotice(`Watch it with: ${command} --watch ${asked}`);
      return;
    }
    const ended = await watchUntilEnded(() => mustRead(pool, kind, asked), signal);
    if (ended === undefined) {
      printNotice(`${name} ${asked} continues in the background.`);
      printNotice(`  watch it:  ${command} --watch ${asked}`);
      printNotice(`  cancel it: ${command} --cancel ${asked}`);
      return;
    }
    if (options.json === true) printJson(toJson(ended));
    assertDone(ended);
    asking.report(ended);
  });
}

async function ask(pool: Pool, options: RequestOptions, { kind }: Asking): Promise<bigint> {
  if (options.from === undefined) {
    throw new ConfigurationError("The start of the period is missing.", {
      fix: "Give --from, for example --from P2D, or --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z.",
    });
  }
  const period = readPeriod({ from: options.from, to: options.to });
  const sourceId = await chooseSource(pool, options.source);
  return audited(pool, { action: verbOf(kind), sourceId, target: describePeriod(period) }, () =>
    requestPeriod(pool, { ...period, kind, sourceId }),
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
  else printLine(`${name} ${requestId} had already ended: ${known.state}.`);
}

function verbOf(kind: RequestKind): string {
  return kind === "backfill" ? "backfill" : "verify";
}

function nameOf(kind: RequestKind): string {
  return kind === "backfill" ? "Backfill" : "Verification";
}

function toProgress({ since, until, readDownTo, orders, elapsedMs }: PeriodRequest): Progress {
  const share = Number(until - readDownTo) / Number(until - since);
  return { share, elapsedMs, count: orders, unit: "orders" };
}

function assertDone({ kind, requestId, state, lastError }: PeriodRequest): void {
  const name = `${nameOf(kind)} ${requestId}`;
  if (state === "failed") {
    throw new RequestEndedError(`${name} failed: ${lastError ?? "no reason was recorded"}`, {
      fix: "Fix the cause and request the rest again; what was read stays.",
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
    fix: "Use the number that was printed when it was requested.",
  });
}

/** A whole number of at least 1. Throws ConfigurationError. */
function parseNumber(option: string, text: string): bigint {
  if (/^[1-9]\d{0,17}$/.test(text)) return BigInt(text);
  throw new ConfigurationError(`${JSON.stringify(text)} is not a valid number for ${option}.`, {
    fix: "Give a whole number of at least 1.",
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

const LOOK_EVERY_MS = 500;
/** If nobody has started a request for this long, perhaps no poller is running. */
const NOBODY_AFTER_MS = 45_000;

/** Shows the progress of a request until it ends; returns undefined if interrupted first. */
async function watchUntilEnded(
  read: () => Promise<PeriodRequest>,
  signal: AbortSignal,
): Promise<PeriodRequest | undefined> {
  const line = makeProgressLine(process.stderr, systemClock.monotonicMs);
  const startedMs = systemClock.monotonicMs();
  let warned = false;
  while (!signal.aborted) {
    const request = await read();
    if (request.state === "running") line.show(toProgress(request));
    else if (request.state !== "requested") {
      line.end();
      return request;
    } else if (!warned && systemClock.monotonicMs() - startedMs > NOBODY_AFTER_MS) {
      warned = true;
      printNotice("Not started yet. It needs a running poller and may be queued behind other requests.");
    }
    await systemClock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
  }
  line.end();
  return undefined;
}

/**
 * The period between `--from` and `--to`, widened to whole seconds. Each is an instant or a duration back from now;
 * `to` defaults to now. Throws ConfigurationError.
 */
function readPeriod({ from, to }: { from: string; to: string | undefined }): Window {
  const now = systemClock.now();
  const since = floorTo(resolveSince(from, now), BOUND_GRANULE);
  const until = ceilTo(to === undefined ? now : resolveSince(to, now), BOUND_GRANULE);
  if (since < until) return { since, until };
  throw new ConfigurationError("The period ends before it begins.", {
    fix: "Give a --from that is earlier than --to.",
  });
}

/** A period, formatted for people and the audit log. */
function describePeriod({ since, until }: Window): string {
  return `${formatInstant(since, 0)} to ${formatInstant(until, 0)}`;
}
