import type { Command } from "commander";
import { formatInstant, millisFromInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import { describeWebhooks as judgeWebhooks } from "../../health/eventConditions.ts";
import type { QueueFacts, SourceFacts } from "../../health/condition.ts";
import { readHealthOnce } from "../../health/health.ts";
import type { Health } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
import { countMirroredOrders } from "../../health/serverFacts.sql.ts";
import { readRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { RequestCount } from "../../poll/ledger/providerRequests.sql.ts";
import { makePool } from "../../database/database.ts";
import type { Pool } from "../../database/database.ts";
import { withMirror } from "../input/session.ts";
import {
  alignColumns,
  formatSpan,
  makePaint,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";
import type { Paint } from "../output/terminal.ts";
import { OrderMirrorError } from "../../domain/errors.ts";
import { makeApplyQueue } from "../../queue/applyQueue.ts";
import { readQueueFacts } from "../../roles/health.ts";
import type { Config } from "../../runtime/config/config.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import { silentLogger } from "../../runtime/telemetry/logger.ts";

export function register(program: Command): void {
  program
    .command("status")
    .description("show what is wrong, and for each source how complete it is and what is waiting")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const { sources, holding, beginning } = await withMirror(async (mirror) => {
        const health = await readHealth(mirror);
        const orders = await countMirroredOrders(mirror.pool);
        const shown = health.facts.sources.map((standing) => {
          const count = orders.get(standing.sourceId) ?? 0;
          return addDetails(mirror.pool, { standing, orders: count, health });
        });
        const { holding, beginning } = health;
        return { sources: await Promise.all(shown), holding, beginning };
      });
      if (options.json === true) {
        printJson(sources.map(toJson));
        return;
      }
      if (sources.length === 0) printNotice("No source is configured yet.");
      const paint = makePaint(process.stdout);
      printVerdict({ sources, holding, beginning }, paint);
      for (const source of sources) printSource(source, paint);
    });
}

interface ShownSource {
  readonly standing: SourceFacts;
  readonly orders: number;
  /** The conditions of this source, and those that concern all sources. */
  readonly holding: readonly Holding[];
  /** The same of those that may pass by themselves. */
  readonly beginning: readonly Holding[];
  readonly webhooks: ReturnType<typeof judgeWebhooks>;
  readonly requests: readonly RequestCount[];
}

async function addDetails(
  pool: Pool,
  { standing, orders, health }: Pick<ShownSource, "standing" | "orders"> & { health: Health },
): Promise<ShownSource> {
  const { sourceId } = standing;
  const concerns = ({ condition, subject }: Holding) => condition.label !== "source" || subject === sourceId;
  return {
    standing,
    orders,
    holding: health.holding.filter(concerns),
    beginning: health.beginning.filter(concerns),
    webhooks: judgeWebhooks(standing),
    requests: await readRequests(pool, { sourceId, minutes: 60 }),
  };
}

function printVerdict(
  {
    sources,
    holding,
    beginning,
  }: Pick<Health, "holding" | "beginning"> & { sources: readonly ShownSource[] },
  paint: Paint,
): void {
  for (const { condition, cause, since, remedy } of holding) {
    const isCritical = condition.severity === "critical";
    const mark = isCritical ? paint("red", "✖") : paint("yellow", "!");
    printLine(`${mark} ${condition.severity}: ${cause} Since ${formatInstant(since, 0)}.`);
    printLine(`  fix: ${remedy}`);
  }
  for (const { cause, since } of beginning)
    printLine(`… Watching: ${cause} Since ${formatInstant(since, 0)}.`);
  if (holding.length > 0 || beginning.length > 0 || sources.length === 0) return;
  const isProved = sources.every(({ standing }) => standing.safeThrough !== null);
  printLine(isProved ? `${paint("green", "✔")} All good.` : "Starting: not everything is verified yet.");
}

function printSource(source: ShownSource, paint: Paint): void {
  const { standing } = source;
  const { now } = standing;
  printLine(paint("bold", `${standing.sourceId} (${standing.mode}) · ${source.orders} orders`));
  const rows = [
    ...(standing.pausedAt === null ? [] : [["  polling", paint("yellow", "paused")]]),
    ["  complete up to", describeMoment(standing.safeThrough, now)],
    ["  except for", describeExceptions(standing, paint)],
    ["  proofs withdrawn", describeBreaches(standing, paint)],
    ["  polled up to", describeMoment(standing.polledThrough, now)],
    ["  last poll ended", describeMoment(standing.lastCycleEndedAt, now)],
    ["  last event", describeMoment(standing.lastEventAt, now)],
    ["  webhooks", describeWebhooks(source, paint)],
    ["  requests, last hour", describeRequests(source.requests)],
    ["  events waiting", describePending(standing)],
    ["  in quarantine", String(standing.quarantined)],
    ["  waiting for re-read", String(standing.refetches)],
    ...(standing.lastError === null ? [] : [["  trouble", paint("red", standing.lastError)]]),
  ];
  for (const line of alignColumns(rows)) printLine(line);
}

function describeMoment(moment: Instant | null, now: Instant): string {
  if (moment === null) return "never";
  const agoMs = millisFromInstant(now - moment);
  const age =
    agoMs <= -1_000 ? `${formatSpan(-agoMs)} ahead of this clock` : `${formatSpan(Math.max(0, agoMs))} ago`;
  return `${formatInstant(moment, 0)}  (${age})`;
}

function describeExceptions({ exceptions }: SourceFacts, paint: Paint): string {
  if (exceptions === 0) return "none";
  return paint(
    "red",
    `${exceptions} ${exceptions === 1 ? "order" : "orders"} seen but not read or confirmed`,
  );
}

function describeBreaches({ breaches, lastBreachAt, now }: SourceFacts, paint: Paint): string {
  if (lastBreachAt === null) return "never";
  return paint(
    "red",
    `${breaches} ${breaches === 1 ? "time" : "times"}, last ${describeMoment(lastBreachAt, now)}`,
  );
}

function describeRequests(requests: readonly RequestCount[]): string {
  const phrases = requests.map(({ policy, purpose, requests: sent }) => `${sent} ${purpose} (${policy})`);
  return phrases.join(", ") || "none";
}

function describePending({ pending, oldestPendingAt, now }: SourceFacts): string {
  if (oldestPendingAt === null) return "0";
  return `${pending}, the oldest for ${formatSpan(Math.max(0, millisFromInstant(now - oldestPendingAt)))}`;
}

/** The style is of a state that has figures. */
const HEALTH: Record<
  ShownSource["webhooks"],
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

function describeWebhooks({ webhooks, standing }: ShownSource, paint: Paint): string {
  const { lost, announced, lostSinceLastEvent } = standing;
  const [words, style] = HEALTH[webhooks];
  if (style === undefined) return words;
  const rate = lossRate({ lost, announced });
  const share = rate === null ? "" : ` (${(rate * 100).toFixed(1)} %)`;
  const since = webhooks === "stopped" ? `; ${lostSinceLastEvent} changes since the last event` : "";
  const text = `${words}: ${lost} lost${share}, ${announced} announced in 24 h${since}`;
  return style === "plain" ? text : paint(style, text);
}

function describeHolding({ condition: { name, severity }, subject, since, cause, remedy }: Holding) {
  return { name, severity, subject, since: formatInstant(since), cause, remedy };
}

function toJson({ standing, orders, holding, beginning, webhooks, requests }: ShownSource) {
  const moment = (instant: Instant | null) => (instant === null ? null : formatInstant(instant));
  const { sourceId, mode, now, pending, quarantined, refetches, lastError, oldestPendingAt } = standing;
  const { lost, announced, late, lostSinceLastEvent } = standing;
  return {
    sourceId,
    mode,
    orders,
    conditions: holding.map(describeHolding),
    beginning: beginning.map(describeHolding),
    safeThrough: moment(standing.safeThrough),
    polledThrough: moment(standing.polledThrough),
    lastCycleEndedAt: moment(standing.lastCycleEndedAt),
    lastEventReceivedAt: moment(standing.lastEventAt),
    exceptions: standing.exceptions,
    breaches: standing.breaches,
    lastBreachAt: moment(standing.lastBreachAt),
    lastError,
    failingSince: moment(standing.failingSince),
    leader: standing.leader,
    paused: standing.pausedAt !== null,
    pending,
    oldestPendingSeconds: oldestPendingAt === null ? null : millisFromInstant(now - oldestPendingAt) / 1_000,
    quarantined,
    refetches,
    webhooks,
    webhookRecord: { lost, announced, late, lossRate: lossRate({ lost, announced }), lostSinceLastEvent },
    requests,
    marginSeconds: standing.marginSeconds,
    now: formatInstant(now),
  };
}

/** For the replica and the queue: a command's connections are new, and on a busy machine take a second to open. */
const TIMEOUT_MS = 3_000;

/** The state of each source and the conditions that hold, judged as for the ops page, the metrics and the alerts. */
export async function readHealth(deps: { config: Config; pool: Pool; databaseUrl: string }): Promise<Health> {
  const { config, pool, databaseUrl } = deps;
  const replicaPool = openReplica(config);
  const readQueues = async () => [await readApplyQueue(config, databaseUrl)];
  const { sources } = config;
  try {
    return await readHealthOnce({ pool, replicaPool, clock: systemClock, sources, readQueues });
  } finally {
    await replicaPool?.end();
  }
}

function openReplica({ databaseReadUrl: url }: Config): Pool | undefined {
  if (url === null) return undefined;
  return makePool({ url, purpose: "command", max: 1, statementTimeoutMs: TIMEOUT_MS });
}

async function readApplyQueue({ redisUrls }: Config, databaseUrl: string): Promise<QueueFacts> {
  let queue;
  try {
    queue = await makeApplyQueue({ databaseUrl, redisUrls, logger: silentLogger });
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
