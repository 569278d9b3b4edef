import { recordConfiguredSources } from "../../sources/configuredSources.ts";
import { readSource } from "../../sources/sources.sql.ts";
import type { Command } from "commander";
import { ceilTo, floorTo, formatInstant, type Instant } from "../../domain/order/instant.ts";
import { BOUND_GRANULE, type Window } from "../../domain/window/window.ts";
import { commandOn } from "../../domain/shellWord.ts";
import { ConfigurationError, OrderMirrorError } from "../../domain/errors.ts";
import {
  cancelRequest,
  readRequest,
  requestPeriod,
  type PeriodRequest,
  type RequestKind,
} from "../../poll/periodRequests.sql.ts";
import { withPool } from "../../database/database.ts";
import { makeCommandPoller } from "../../mirror/poller.ts";
import { silentLogger } from "../../process/telemetry/logger.ts";
import { systemClock } from "../../process/clock.ts";
import {
  audited,
  chooseSource,
  parseWhen,
  untilInterrupted,
  withMirror,
  type Mirror,
} from "../input/session.ts";
import {
  ProblemsFoundError,
  countOf,
  formatSpan,
  makeProgressLine,
  writeTimes,
  printJson,
  printLine,
  printNotice,
  printTable,
} from "../output/terminal.ts";

interface Options {
  readonly from: Instant;
  readonly to?: Instant;
  readonly source?: string;
  readonly json?: boolean;
}

/**
 * `backfill` and `verify`: the read or the comparison of a period. It is done here, or by the poller that leads the
 * source. Ctrl-C cancels it; what was read stays.
 */
export function register(program: Command): void {
  const add = (verb: string, kind: RequestKind, description: string, back: string) =>
    program
      .command(verb)
      .description(description)
      .requiredOption(
        "--from <when>",
        `start, inclusive: an instant, or a duration back from now such as ${back}`,
        parseWhen,
      )
      .option("--to <when>", "end, exclusive; default: now", parseWhen)
      .option("--source <id>", "the source; required if there are several")
      .option("--json", "print JSON")
      .action((options: Options) => {
        const period = readPeriod(options);
        return withMirror((mirror) => readHere(mirror, { ...options, verb, kind, period }));
      });
  add("backfill", "backfill", "read a past period from the provider, newest part first", "P90D");
  const compare = "compare a period of the mirror with the provider, and repair differences";
  add("verify", "verification", compare, "P2D");
}

/** The period between `--from` and `--to`, widened to whole seconds. Throws ConfigurationError. */
function readPeriod({ from, to }: Options): Window {
  const now = systemClock.now();
  const since = floorTo(from, BOUND_GRANULE);
  const until = ceilTo(to ?? now, BOUND_GRANULE);
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

class RequestEndedError extends OrderMirrorError {
  override readonly name = "RequestEndedError";
  override readonly retry = "never";
}

async function readHere(
  mirror: Mirror,
  asked: { verb: string; kind: RequestKind; period: Window; source?: string; json?: boolean },
): Promise<void> {
  const { pool, config } = mirror;
  const { verb, kind, period, json = false } = asked;
  // A job may load the history before any process has started.
  await recordConfiguredSources(pool, config);
  const sourceId = await chooseSource(pool, asked.source);
  // Set up before the request is created: from then on, an interruption cancels it.
  await untilInterrupted(mirror, async (signal) => {
    const target = `${formatInstant(period.since, 0)} to ${formatInstant(period.until, 0)}`;
    const requestId = await audited(pool, { action: verb, sourceId, target }, () =>
      requestPeriod(pool, { ...period, kind, sourceId }),
    );
    if ((await readSource(pool, sourceId))?.isPaused === true)
      printNotice(
        `Polling of ${sourceId} is paused: this waits for \`order-mirror source resume ${sourceId}\`.`,
      );
    const ended = await withPoller(mirror, sourceId, () => watchUntilEnded(mirror, requestId, signal));
    if (ended === undefined) {
      await cancelRequest(pool, requestId);
      printNotice("Cancelled; what was read stays.");
      return;
    }
    if (json) printJson({ ...writeTimes(ended), requestId: String(requestId) });
    const { state, lastError } = ended;
    if (state !== "done") {
      const how = state === "failed" ? "failed" : "was cancelled";
      throw new RequestEndedError(`It ${how}: ${lastError ?? "no reason was recorded"}`, {
        fix: "Fix the cause and request the rest again; what was read stays.",
      });
    }
    if (kind === "backfill") reportBackfill(ended, json);
    else reportVerification(ended, json);
  });
}

const POLL_TIMEOUT_MS = 15_000;

/** Runs a poller of the source meanwhile, which works while no other process leads. */
async function withPoller<Result>(
  { config, databaseUrl }: Mirror,
  sourceId: string,
  watch: () => Promise<Result>,
): Promise<Result> {
  // Where web or a worker runs, the secrets name a source without its key.
  const source = config.sources.find((each) => each.sourceId === sourceId && each.apiKey !== null);
  if (source === undefined) {
    printNotice(`The key of ${sourceId} is not configured here: the poller that has it does the work.`);
    return watch();
  }
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

const LOOK_EVERY_MS = 500;

/** Shows the progress of a request until it ends; returns undefined if interrupted first. */
async function watchUntilEnded(
  { pool }: Mirror,
  requestId: bigint,
  signal: AbortSignal,
): Promise<PeriodRequest | undefined> {
  const line = makeProgressLine(process.stderr);
  try {
    while (!signal.aborted) {
      const request = await readRequest(pool, requestId);
      if (request === undefined) throw new RequestEndedError("The request has been removed.");
      const { state, since, until, readDownTo, orders, elapsedMs } = request;
      if (state === "running") {
        const share = Number(until - readDownTo) / Number(until - since);
        line.show({ share, elapsedMs, orders });
      } else if (state !== "requested") return request;
      await systemClock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined);
    }
    return undefined;
  } finally {
    line.end();
  }
}

function reportBackfill(ended: PeriodRequest, json: boolean): void {
  const { orders, requests, elapsedMs, unproved, historySince } = ended;
  if (!json) {
    printLine(
      `Read ${countOf(orders, "order")} with ${countOf(requests, "request")} in ${formatSpan(elapsedMs)}.`,
    );
    if (historySince !== null) {
      printLine(`The mirror is complete from ${formatInstant(historySince, 0)} on.`);
    }
  }
  if (unproved > 0) {
    printNotice(
      `${countOf(unproved, "part")} could not be proved complete: many orders share one timestamp there.`,
    );
    throw new ProblemsFoundError("parts of the period could not be proved complete");
  }
}

function reportVerification(ended: PeriodRequest, json: boolean): void {
  const { orders, requests, elapsedMs, differed, examples, unreadable } = ended;
  if (!json) {
    printLine(
      `Compared ${countOf(orders, "order")} with ${countOf(requests, "request")} in ${formatSpan(elapsedMs)}.`,
    );
    printTable([
      ["  differed", String(differed), "missing, in another state, or not at the provider; repaired"],
      [
        "  unreadable",
        String(unreadable),
        "no read of the single order has shown its state yet; verify again",
      ],
    ]);
    const [example] = examples;
    if (example !== undefined) printNotice(`To inspect one: ${commandOn("order", example)}`);
  }
  if (differed > 0) throw new ProblemsFoundError("the mirror differed from the provider");
  if (unreadable > 0) throw new ProblemsFoundError("some orders could not be compared");
}
