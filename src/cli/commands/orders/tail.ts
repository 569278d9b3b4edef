import { InvalidArgumentError } from "commander";
import type { Command } from "commander";
import { formatInstant } from "../../../domain/order/instant.ts";
import { readDecisionsAfter, readHistoryMark, readLastDecisions } from "../../../changes/changeTail.sql.ts";
import type { DecisionFilter, DecisionRow, HistoryMark } from "../../../changes/changeTail.sql.ts";
import type { Pool } from "../../../database/database.ts";
import { classifyDatabaseError } from "../../../database/databaseErrors.ts";
import { findOrders } from "../../../ops/orders/order.sql.ts";
import { systemClock } from "../../../runtime/lifecycle/clock.ts";
import type { Clock } from "../../../runtime/lifecycle/clock.ts";
import { formatDecision } from "../../output/decisionLine.ts";
import { chooseSource, runUntilInterrupted, withMirror } from "../../input/session.ts";
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

const LOOK_INTERVAL_MS = 500;
const PAGE_ROWS = 500;
/** A number is drawn a moment before its transaction has an id, so a mark younger than this is not trusted. */
const MARK_AGE_MIN_MS = 2_000;
/** Twice the limit of any apply statement; beyond it, a foreign transaction is in the way. */
const MARK_AGE_MAX_MS = 30_000;

/**
 * Yields decisions as they are committed, from `after` on, until the signal is aborted.
 *
 * Numbers are drawn before their commit, so a smaller number may appear after a larger one. Recent decisions are
 * therefore read again each time, from the last mark that every transaction of its time has outlived.
 */
export async function* followDecisions(deps: {
  pool: Pool;
  clock: Clock;
  filter: DecisionFilter;
  after: HistoryMark;
  signal: AbortSignal;
}): AsyncGenerator<DecisionRow> {
  const { pool, clock, filter, after, signal } = deps;
  let floor = after.lastId;
  const seen = new Set<bigint>();
  const marks: { mark: HistoryMark; atMs: number }[] = [];
  while (!signal.aborted) {
    const mark = await readHistoryMark(pool);
    marks.push({ mark, atMs: clock.monotonicMs() });
    for await (const decision of readFrom(pool, filter, floor)) {
      if (seen.has(decision.historyId)) continue;
      seen.add(decision.historyId);
      yield decision;
    }
    const isFinal = ({ mark: old, atMs }: (typeof marks)[number]) => {
      const ageMs = clock.monotonicMs() - atMs;
      return ageMs >= MARK_AGE_MAX_MS || (ageMs >= MARK_AGE_MIN_MS && mark.xmin >= old.xmax);
    };
    for (let first = marks[0]; first !== undefined && isFinal(first); first = marks[0]) {
      floor = first.mark.lastId > floor ? first.mark.lastId : floor;
      marks.shift();
    }
    for (const id of seen) if (id <= floor) seen.delete(id);
    await clock.sleep(LOOK_INTERVAL_MS, signal).catch(() => undefined);
  }
}

async function* readFrom(pool: Pool, filter: DecisionFilter, floor: bigint): AsyncGenerator<DecisionRow> {
  let afterId = floor;
  for (;;) {
    const page = await readDecisionsAfter(pool, { ...filter, afterId, limit: PAGE_ROWS });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    afterId = last.historyId;
  }
}
