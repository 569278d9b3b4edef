import type { Command } from "commander";
import { formatInstant } from "../../domain/order/instant.ts";
import {
  readDecisions,
  readNewestDecision,
  type DecisionFilter,
  type DecisionRow,
} from "../../changes/changeTail.sql.ts";
import type { Pool } from "../../database/database.ts";
import { findOrders } from "../../orders/orderStory.sql.ts";
import { systemClock, type Clock } from "../../process/clock.ts";
import { formatDecision } from "../output/decisionLine.ts";
import {
  chooseSource,
  parseCount,
  parseReference,
  refuseSeveral,
  untilInterrupted,
  withMirror,
} from "../input/session.ts";
import { makePaint, printLine, printNotice } from "../output/terminal.ts";

interface Options {
  readonly source?: string;
  readonly order?: string;
  readonly last: number;
  readonly json?: boolean;
}

const LAST_MAX = 10_000;
const LAST_DEFAULT = 10;

export function register(program: Command): void {
  program
    .command("tail")
    .description("follow decisions as they are made, one line each, until Ctrl-C")
    .option("--source <id>", "only this source")
    .option("--order <reference>", "only this order: its reference or externalOrderId", parseReference)
    .option("-n, --last <count>", "begin with this many of the last ones", parseCount(LAST_MAX), LAST_DEFAULT)
    .option("--json", "print each decision as a line of JSON, including confirmations")
    .action((options: Options) =>
      withMirror((mirror) => untilInterrupted(mirror, (signal) => tail(mirror.pool, options, signal))),
    );
}

async function tail(pool: Pool, options: Options, signal: AbortSignal): Promise<void> {
  const filter = await resolveFilter(pool, options);
  const print = options.json === true ? printDecisionJson : makeLinePrinter();
  const after = await readNewestDecision(pool);
  for (const decision of await readDecisions(pool, { ...filter, limit: options.last })) print(decision);
  const decisions = followDecisions({ pool, clock: systemClock, filter, after, signal });
  for await (const decision of decisions) print(decision);
}

async function resolveFilter(pool: Pool, { source, order }: Options): Promise<DecisionFilter> {
  const sourceId = source === undefined ? null : await chooseSource(pool, source);
  if (order === undefined) return { sourceId, reference: null };
  const orders = await findOrders(pool, { text: order, sourceId });
  if (orders.length > 1) throw refuseSeveral(order, orders);
  const [found] = orders;
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

function printDecisionJson({ historyId, version, seenAt, ...rest }: DecisionRow): void {
  const times = { version: version === null ? null : formatInstant(version), seenAt: formatInstant(seenAt) };
  printLine(JSON.stringify({ historyId: String(historyId), ...rest, ...times }));
}

const LOOK_INTERVAL_MS = 500;
const PAGE_ROWS = 500;
/** The limit of any apply statement. */
const OVERLAP_MS = 15_000;

/**
 * Yields decisions as they are committed, from `after` on, until the signal is aborted. Numbers are drawn before their
 * commit, so a smaller number may appear after a larger one: each look reads the last ones again.
 */
export async function* followDecisions(deps: {
  pool: Pool;
  clock: Clock;
  filter: DecisionFilter;
  after: bigint;
  signal: AbortSignal;
}): AsyncGenerator<DecisionRow> {
  const { pool, clock, filter, after, signal } = deps;
  const seen = new Set<bigint>();
  let floor = after;
  const looks: { newest: bigint; atMs: number }[] = [];
  while (!signal.aborted) {
    looks.push({ newest: await readNewestDecision(pool), atMs: clock.monotonicMs() });
    for await (const decision of readFrom(pool, filter, floor)) {
      if (seen.has(decision.historyId)) continue;
      seen.add(decision.historyId);
      yield decision;
    }
    for (let [first] = looks; first && clock.monotonicMs() - first.atMs >= OVERLAP_MS; [first] = looks) {
      floor = first.newest;
      looks.shift();
    }
    for (const id of seen) if (id <= floor) seen.delete(id);
    await clock.sleep(LOOK_INTERVAL_MS, signal).catch(() => undefined);
  }
}

async function* readFrom(pool: Pool, filter: DecisionFilter, floor: bigint): AsyncGenerator<DecisionRow> {
  let afterId = floor;
  for (;;) {
    const page = await readDecisions(pool, { ...filter, afterId, limit: PAGE_ROWS });
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    afterId = last.historyId;
  }
}
