import type { Command } from "commander";
import { formatInstant, type Instant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import { describeWebhooks as judgeWebhooks } from "../../health/conditions/webhookCalls.sql.ts";
import type { QueueFacts } from "../../health/conditions/servers.ts";
import type { Standing } from "../../health/conditions/standing.ts";
import { isUpToDate } from "../../health/freshness.ts";
import { readHealthOnce, type Health } from "../../health/health.ts";
import { describeLasted, describeRecorded, groupProblems, type Holding } from "../../health/judge.ts";
import { countMirroredOrders } from "../doctor/serverFacts.sql.ts";
import { withMirror, type Mirror } from "../input/session.ts";
import {
  countOf,
  formatAge,
  makePaint,
  writeTimes,
  printJson,
  printLine,
  printNotice,
  printTable,
  type Paint,
} from "../output/terminal.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { secondsSince } from "../../domain/duration.ts";
import { makeApplyQueue } from "../../queue/applyQueue.ts";
import { readMirrorId } from "../../changes/changeFeed.sql.ts";
import { readQueueFacts } from "../../mirror/health.ts";
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../process/clock.ts";
import { silentLogger } from "../../process/telemetry/logger.ts";

export function register(program: Command): void {
  program
    .command("status")
    .description("show what is wrong, and for each source how complete it is and what is waiting")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const { health, orders } = await withMirror(async (mirror) => ({
        health: await readHealth(mirror),
        orders: await countMirroredOrders(mirror.pool),
      }));
      const { sources } = health.facts;
      const count = (source: Standing) => orders.get(source.sourceId) ?? 0;
      if (options.json === true)
        return printJson(sources.map((source) => toJson(source, count(source), health)));
      if (sources.length === 0) printNotice("No source is configured yet.");
      printStatus(health, count, makePaint(process.stdout));
    });
}

export function printStatus(health: Health, count: (source: Standing) => number, paint: Paint): void {
  printVerdict(health, paint);
  for (const source of health.facts.sources) printSource(source, count(source), paint);
}

function printVerdict(health: Health, paint: Paint): void {
  printProblems(health, paint);
  for (const each of health.facts.recorded.filter(({ endedAt }) => endedAt !== null).slice(0, RESOLVED_MAX))
    printLine(
      `${paint("green", "✔")} resolved ${formatInstant(each.endedAt ?? each.since, 0)}, lasted ${describeLasted(each)}: ${describeRecorded(each)}`,
    );
}

function printProblems({ facts: { sources }, holding, beginning }: Health, paint: Paint): void {
  for (const { condition, cause, remedy, ...problem } of groupProblems(holding)) {
    const { severity, place, endsBy } = condition;
    const mark = severity === "critical" ? paint("red", "✖") : paint("yellow", "!");
    printLine(`${mark} ${severity}: ${cause} ${place}, ${describeSince(problem)}.`);
    printLine(`  fix: ${remedy}${endsBy === undefined ? "" : ` It goes away by itself ${endsBy}.`}`);
  }
  for (const { condition, cause, remedy, ...problem } of groupProblems(beginning)) {
    printLine(`… Watching: ${cause} ${condition.place}, ${describeSince(problem)}.`);
    printLine(`  fix: ${remedy}`);
  }
  if (holding.length > 0 || beginning.length > 0 || sources.length === 0) return;
  if (sources.some(({ safeThrough }) => safeThrough === null))
    return printLine("Starting: not everything is verified yet.");
  const isFresh = sources.every(isUpToDate);
  printLine(isFresh ? `${paint("green", "✔")} All good.` : "… Behind: the latest polls proved nothing.");
}

/** The number of resolved problems to show, the newest first. */
const RESOLVED_MAX = 5;

const describeSince = ({ since, isSeenSince }: Pick<Holding, "since" | "isSeenSince">) =>
  `${isSeenSince ? "seen " : ""}since ${formatInstant(since, 0)}`;

function printSource(source: Standing, orders: number, paint: Paint): void {
  const { now, exceptions, breaches, lastBreachAt, pending, oldestPendingAt } = source;
  const waiting =
    oldestPendingAt === null ? "" : `, the oldest since ${describeMoment(oldestPendingAt, now)}`;
  const excepted = `${countOf(exceptions, "order")} seen but not read or confirmed`;
  const withdrawn = `${countOf(breaches, "time")}, last ${describeMoment(lastBreachAt, now)}`;
  printLine(paint("bold", `${source.sourceId} (${source.mode}) · ${countOf(orders, "order")}`));
  printTable([
    ...(source.pausedAt === null ? [] : [["  polling", paint("yellow", "paused")]]),
    ["  complete up to", describeMoment(source.safeThrough, now) + describeMargin(source)],
    ["  except for", exceptions === 0 ? "none" : paint("red", excepted)],
    ["  proofs withdrawn", lastBreachAt === null ? "never" : paint("red", withdrawn)],
    ["  polled up to", describeMoment(source.polledThrough, now)],
    ["  last poll ended", describeMoment(source.lastCycleEndedAt, now)],
    ["  last event", describeMoment(source.lastEventAt, now)],
    ["  webhooks", describeWebhooks(source, paint)],
    ["  events waiting", `${pending}${waiting}`],
    ["  in quarantine", String(source.quarantined)],
    ["  single reads waiting", String(source.refetches)],
    ...(source.lastError === null ? [] : [["  trouble", paint("red", source.lastError)]]),
  ]);
}

/** The margin is the greater part of the age, and no delay of ours. */
function describeMargin({ safeThrough, marginSeconds }: Standing): string {
  if (safeThrough === null || marginSeconds === null) return "";
  return `; ${marginSeconds} s of it are the margin (POLL_MARGIN_SECONDS)`;
}

function describeMoment(moment: Instant | null, now: Instant): string {
  return moment === null ? "never" : `${formatInstant(moment, 0)}  (${formatAge(secondsSince(now, moment))})`;
}

/** The style is of a state that has figures. */
const WEBHOOKS: Record<
  ReturnType<typeof judgeWebhooks>,
  readonly [words: string, style?: Parameters<Paint>[0] | "plain"]
> = {
  "not-configured": ["polled only: no webhook secret is set"],
  "never-seen": ["no event has ever arrived"],
  working: ["working", "plain"],
  losing: ["losing events", "yellow"],
  stopped: ["stopped", "red"],
  refused: ["every call is refused", "red"],
  "without-secret": ["every call is answered 404: no webhook secret is set", "red"],
};

function describeWebhooks(source: Standing, paint: Paint): string {
  const { lost, announced, lostSinceLastEvent } = source;
  const webhooks = judgeWebhooks(source);
  const [words, style] = WEBHOOKS[webhooks];
  if (style === undefined) return words;
  const rate = lossRate({ lost, announced });
  const share = rate === null ? "" : ` (${(rate * 100).toFixed(1)} %)`;
  const since =
    webhooks === "stopped" ? `; ${countOf(lostSinceLastEvent, "change")} since the last event` : "";
  const text = `${words}: ${lost} lost${share}, ${announced} announced in 24 h${since}`;
  return style === "plain" ? text : paint(style, text);
}

/** Writes all facts about a source, and the conditions that concern it or all sources. */
function toJson(source: Standing, orders: number, { facts, holding, beginning }: Health) {
  const concerns = ({ condition, subject }: Holding) =>
    condition.label !== "source" || subject === source.sourceId;
  const write = ({ condition: { name, severity }, subject, since, cause, remedy }: Holding) =>
    writeTimes({ name, severity, subject, since, cause, remedy });
  return {
    ...writeTimes(source),
    orders,
    webhooks: judgeWebhooks(source),
    conditions: holding.filter(concerns).map(write),
    beginning: beginning.filter(concerns).map(write),
    resolved: facts.recorded
      .filter(({ subject, endedAt }) => endedAt !== null && (subject === source.sourceId || subject === ""))
      .map((each) => writeTimes({ ...each })),
  };
}

/** The wait for the queue: a command's connection is new, and on a busy machine takes a second to open. */
const TIMEOUT_MS = 3_000;

/** The state of each source and the conditions that hold, judged as for the ops page, the metrics and the alerts. */
export async function readHealth({ config, pool, databaseUrl }: Omit<Mirror, "shutdown">): Promise<Health> {
  const readQueues = async () => [await readApplyQueue(config, databaseUrl, await readMirrorId(pool))];
  const { sources } = config;
  return readHealthOnce({ pool, clock: systemClock, sources, readQueues });
}

async function readApplyQueue(
  { redisUrls }: Config,
  databaseUrl: string,
  mirrorId: string,
): Promise<QueueFacts> {
  let queue;
  try {
    queue = await makeApplyQueue({ databaseUrl, redisUrls, mirrorId, logger: silentLogger });
  } catch (error) {
    if (!(error instanceof OrderMirrorError)) throw error;
    const problem = { problem: error.message, fix: error.fix ?? "Check the queue's database." };
    return { name: "apply", problems: [problem], newestDeadAt: null };
  }
  try {
    return await readQueueFacts(queue, TIMEOUT_MS);
  } finally {
    await queue.close();
  }
}
