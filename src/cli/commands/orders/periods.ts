import type { Command } from "commander";
import { ceilTo, floorTo, formatInstant } from "../../../domain/order/instant.ts";
import { cancelRequest, readRequest, requestPeriod } from "../../../poll/ledger/periodRequests.sql.ts";
import type { PeriodRequest, RequestKind } from "../../../poll/ledger/periodRequests.sql.ts";
import {
  ProblemsFoundError,
  alignColumns,
  countOf,
  formatSpan,
  makeProgressLine,
  printJson,
  printLine,
  printNotice,
} from "../../output/terminal.ts";
import type { Progress } from "../../output/terminal.ts";
import { audited, chooseSource, runUntilInterrupted, withMirror } from "../../input/session.ts";
import { commandOn } from "../../../domain/shellWord.ts";
import { withPool } from "../../../database/database.ts";
import type { Pool } from "../../../database/database.ts";
import { makeCommandPoller } from "../../../roles/poller.ts";
import type { Config } from "../../../runtime/config/config.ts";
import { silentLogger } from "../../../runtime/telemetry/logger.ts";
import { ConfigurationError, OrderMirrorError } from "../../../domain/errors.ts";
import { systemClock } from "../../../runtime/lifecycle/clock.ts";
import { BOUND_GRANULE } from "../../../domain/window/window.ts";
import type { Window } from "../../../domain/window/window.ts";
import { resolveSince } from "../../../runtime/config/duration.ts";

interface RequestOptions {
  readonly from?: string;
  readonly to?: string;
  readonly source?: string;
  readonly detach?: boolean;
  readonly watch?: string;
  readonly cancel?: string;
  readonly json?: boolean;
}

/** A command that requests the read of a period from the poller. */
interface Asking {
  readonly kind: RequestKind;
  readonly verb: "backfill" | "verify";
  readonly noun: string;
  /** Prints the result of a finished request. */
  readonly report: (ended: PeriodRequest, json: boolean) => void;
}

const BACKFILL: Asking = { kind: "backfill", verb: "backfill", noun: "Backfill", report: reportBackfill };
const VERIFICATION: Asking = {
  kind: "verification",
  verb: "verify",
  noun: "Verification",
  report: reportVerification,
};

/** `backfill` and `verify`. */
export function register(program: Command): void {
  const add = (asking: Asking, description: string, back: string) =>
    program
      .command(asking.verb)
      .description(description)
      .option("--from <when>", `start, inclusive: an instant, or a duration back from now such as ${back}`)
      .option("--to <when>", "end, exclusive; default: now")
      .option("--source <id>", "the source; required if there are several")
      .option("--detach", "return immediately and leave the work to the poller")
      .option("--watch <number>", "watch an earlier request")
      .option("--cancel <number>", "cancel a request; what was read stays")
      .option("--json", "print JSON")
      .action((options: RequestOptions) => withMirror((mirror) => followRequest(mirror, options, asking)));
  add(BACKFILL, "read a past period from the provider, newest part first, while polling continues", "P90D");
  add(VERIFICATION, "compare a period of the mirror with the provider, and repair differences", "P2D");
}

function reportBackfill(
  { orders, requests, elapsedMs, unproved, historySince }: PeriodRequest,
  json: boolean,
): void {
  if (!json) {
    printLine(
      `Read ${countOf(orders, "order")} with ${countOf(requests, "request")} in ${formatSpan(elapsedMs)}.`,
    );
    if (historySince !== null) {
      printLine(`The mirror is complete from ${formatInstant(historySince, 0)} on.`);
    }
  }
  if (unproved > 0) {
    printNotice(`${unproved} parts could not be proved complete: many orders share one timestamp there.`);
    throw new ProblemsFoundError("parts of the period could not be proved complete");
  }
}

function reportVerification(ended: PeriodRequest, json: boolean): void {
  const { orders, requests, elapsedMs, examples } = ended;
  const { missing, stale, contradicted, differing, extra, unreadable } = ended;
  if (!json) {
    printLine(
      `Compared ${countOf(orders, "order")} with ${countOf(requests, "request")} in ${formatSpan(elapsedMs)}.`,
    );
    const rows = [
      ["  missing", String(missing), "the mirror did not have them"],
      ["  stale", String(stale), "the mirror had an older state"],
      [
        "  contradicted",
        String(contradicted),
        "the mirror had a later state that the provider does not show",
      ],
      ["  differing", String(differing), "the same updatedAt, different content"],
      ["  extra", String(extra), "the provider does not have them"],
      [
        "  unreadable",
        String(unreadable),
        "no read of the single order has shown its state yet; verify again",
      ],
    ];
    for (const line of alignColumns(rows)) printLine(line);
  }
  const differences = missing + stale + contradicted + differing + extra;
  if (differences + unreadable === 0) return;
  if (!json && differences > 0) printNotice("All of them were repaired.");
  const [example] = examples;
  if (!json && example !== undefined) printNotice(`To inspect one: ${commandOn("order", example)}`);
  throw new ProblemsFoundError(
    differences > 0 ? "the mirror differed from the provider" : "some orders could not be compared",
  );
}

class RequestEndedError extends OrderMirrorError {
  override readonly name = "RequestEndedError";
  override readonly retry = "never";
}

interface Mirror {
  readonly config: Config;
  readonly pool: Pool;
  readonly databaseUrl: string;
}

/**
 * Creates a request for a period, or resumes watching an existing one, and shows its progress until it ends. The work is
 * done here, unless another process polls the source.
 */
async function followRequest(mirror: Mirror, options: RequestOptions, asking: Asking): Promise<void> {
  const { pool } = mirror;
  const { kind, noun, verb } = asking;
  const command = `order-mirror ${verb}`;
  if (options.cancel !== undefined) return cancel(pool, asking, parseNumber("--cancel", options.cancel));
  // Set up before the request is created: from then on, an interruption prints how to continue.
  await runUntilInterrupted(async (signal) => {
    const { watch } = options;
    const asked = watch === undefined ? await ask(pool, options, asking) : parseNumber("--watch", watch);
    const known = await mustRead(pool, kind, asked);
    if (options.detach === true) {
      if (options.json === true) printJson(toJson(known));
      else printLine(`${noun} ${asked} of source ${known.sourceId} is requested.`);
      printNotice(`Watch it with: ${command} --watch ${asked}`);
      return;
    }
    const ended = await withPoller(mirror, known.sourceId, () =>
      watchUntilEnded(() => mustRead(pool, kind, asked), signal),
    );
    if (ended === undefined) {
      printNotice(`${noun} ${asked} continues in the background.`);
      printNotice(`  watch it:  ${command} --watch ${asked}`);
      printNotice(`  cancel it: ${command} --cancel ${asked}`);
      return;
    }
    if (options.json === true) printJson(toJson(ended));
    assertDone(ended, noun);
    asking.report(ended, options.json === true);
  });
}

/** Runs a poller of the source meanwhile, which works while no other process leads. */
async function withPoller<Result>(
  { config, databaseUrl }: Mirror,
  sourceId: string,
  watch: () => Promise<Result>,
): Promise<Result> {
  const source = config.sources.find((each) => each.sourceId === sourceId);
  // Without its key only a poller elsewhere can read it.
  if (source === undefined) return watch();
  const options = { url: databaseUrl, purpose: "poll", max: 2, statementTimeoutMs: POLL_TIMEOUT_MS };
  return withPool(options, async (pool) => {
    const poller = makeCommandPoller({ config, pool, clock: systemClock, logger: silentLogger }, source);
    poller.start();
    try {
      return await watch();
    } finally {
      await poller.close();
    }
  });
}

async function ask(pool: Pool, options: RequestOptions, { kind, verb }: Asking): Promise<bigint> {
  if (options.from === undefined) {
    throw new ConfigurationError("The start of the period is missing.", {
      fix: "Give --from, for example --from P2D, or --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z.",
    });
  }
  const period = readPeriod({ from: options.from, to: options.to });
  const sourceId = await chooseSource(pool, options.source);
  return audited(pool, { action: verb, sourceId, target: describePeriod(period) }, () =>
    requestPeriod(pool, { ...period, kind, sourceId }),
  );
}

async function cancel(pool: Pool, { kind, noun, verb }: Asking, requestId: bigint): Promise<void> {
  const known = await mustRead(pool, kind, requestId);
  const { sourceId } = known;
  const target = `${verb} ${requestId}`;
  const isCancelled = await audited(
    pool,
    { action: "cancel", sourceId, target },
    () => cancelRequest(pool, requestId),
    Number,
  );
  if (isCancelled) printLine(`${noun} ${requestId} is cancelled; what was read stays.`);
  else printLine(`${noun} ${requestId} had already ended: ${known.state}.`);
}

function toProgress({ since, until, readDownTo, orders, elapsedMs }: PeriodRequest): Progress {
  const share = Number(until - readDownTo) / Number(until - since);
  return { share, elapsedMs, count: orders, unit: "orders" };
}

function assertDone({ requestId, state, lastError }: PeriodRequest, noun: string): void {
  const name = `${noun} ${requestId}`;
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

const POLL_TIMEOUT_MS = 15_000;
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
      printNotice(
        "Not started yet: it may be queued behind other requests, or no process has the key of the source.",
      );
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
  if (since >= now) {
    throw new ConfigurationError("The period lies in the future.", {
      fix: "Give a --from in the past, for example --from P2D.",
    });
  }
  if (since < until) return { since, until };
  throw new ConfigurationError("The period ends before it begins.", {
    fix: "Give a --from that is earlier than --to.",
  });
}

/** A period, formatted for people and the audit log. */
function describePeriod({ since, until }: Window): string {
  return `${formatInstant(since, 0)} to ${formatInstant(until, 0)}`;
}
