import type { Command } from "commander";
import { formatInstant, millisFromInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { judgeWebhooks, lossRate } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import { readWebhookRecord } from "../../poll/ledger/lostEvents.sql.ts";
import type { WebhookFigures } from "../../poll/ledger/lostEvents.sql.ts";
import { readMargins } from "../../poll/ledger/arrivals.sql.ts";
import type { StoredMargins } from "../../poll/ledger/arrivals.sql.ts";
import { readRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { RequestCount } from "../../poll/ledger/providerRequests.sql.ts";
import { readTraits } from "../../poll/ledger/providerTraits.sql.ts";
import type { StoredTrait } from "../../poll/ledger/providerTraits.sql.ts";
import { isPaused } from "../../sources/sources.sql.ts";
import { readStatus } from "../../health/status.sql.ts";
import type { SourceStatus } from "../../health/status.sql.ts";
import type { Pool } from "../../database/database.ts";
import { withMirror } from "../input/session.ts";
import { describeTraits } from "../input/traits.ts";
import {
  alignColumns,
  formatSpan,
  makePaint,
  printJson,
  printLine,
  printNotice,
} from "../output/terminal.ts";
import type { Paint } from "../output/terminal.ts";

export function addStatusCommand(program: Command): void {
  program
    .command("status")
    .description("show each source: up to when it is complete, what waits, what is stuck")
    .option("--json", "print JSON")
    .action(async (options: { json?: boolean }) => {
      const sources = await withMirror(async ({ pool, config }) => {
        const withSecrets = new Set(
          config.sources.flatMap(({ sourceId, webhookSecrets }) =>
            webhookSecrets.length > 0 ? [sourceId] : [],
          ),
        );
        const known = await readStatus(pool);
        return Promise.all(known.map((source) => withWebhooks(pool, source, withSecrets)));
      });
      if (options.json === true) {
        printJson(sources.map(toJson));
        return;
      }
      if (sources.length === 0) printNotice("No source was ever configured in this database.");
      const paint = makePaint(process.stdout);
      for (const source of sources) printSource(source, paint);
    });
}

const DAY_NANOS = 86_400n * NANOS_PER_SECOND;

interface ShownSource extends SourceStatus {
  readonly paused: boolean;
  readonly webhooks: WebhookHealth;
  readonly webhookRecord: WebhookFigures;
  readonly requests: readonly RequestCount[];
  readonly traits: readonly StoredTrait[];
  readonly margins: StoredMargins | null;
}

async function withWebhooks(
  pool: Pool,
  source: SourceStatus,
  withSecrets: ReadonlySet<string>,
): Promise<ShownSource> {
  const { sourceId, now, lastEventReceivedAt } = source;
  // The secrets may be known to the running processes only (those of the demo are): events that came tell as well.
  const receives = lastEventReceivedAt !== null && now - lastEventReceivedAt < DAY_NANOS;
  const configured = withSecrets.has(sourceId) || receives;
  const record = await readWebhookRecord(pool, { sourceId, configured });
  const paused = await isPaused(pool, sourceId);
  const traits = await readTraits(pool, sourceId);
  const requests = await readRequests(pool, { sourceId, minutes: 60 });
  const margins = await readMargins(pool, sourceId);
  return {
    ...source,
    paused,
    webhooks: judgeWebhooks(record),
    webhookRecord: record,
    traits,
    margins,
    requests,
  };
}

function printSource(source: ShownSource, paint: Paint): void {
  printLine(paint("bold", `${source.sourceId} (${source.mode}) · ${source.orders} orders`));
  const rows = [
    ...(source.paused ? [["  polling", paint("yellow", "paused")]] : []),
    ["  complete up to", describeMoment(source.safeThrough, source.now)],
    ["  except for", describeExceptions(source, paint)],
    ["  taken back", describeBreaches(source, paint)],
    ["  polled up to", describeMoment(source.polledThrough, source.now)],
    ["  last poll ended", describeMoment(source.lastCycleEndedAt, source.now)],
    ["  last event", describeMoment(source.lastEventReceivedAt, source.now)],
    ["  webhooks", describeWebhooks(source, paint)],
    ...(source.traits.length === 0 ? [] : [["  provider", describeTraits(source.traits)]]),
    ...(source.margins === null ? [] : [["  polls reach back", describeMargins(source.margins)]]),
    ["  requests, last hour", describeRequests(source.requests)],
    ["  events waiting", describePending(source)],
    ["  in quarantine", String(source.quarantined)],
    ["  to be read again", String(source.refetches)],
    ...(source.lastError === null ? [] : [["  trouble", paint("red", source.lastError)]]),
  ];
  for (const line of alignColumns(rows)) printLine(line);
}

function describeMoment(moment: Instant | null, now: Instant): string {
  if (moment === null) return "never";
  const agoMs = millisFromInstant(now - moment);
  return `${formatInstant(moment, 0)}  (${agoMs < 0 ? "just now" : `${formatSpan(agoMs)} ago`})`;
}

function describeExceptions({ exceptions }: SourceStatus, paint: Paint): string {
  if (exceptions === 0) return "none";
  return paint("red", `${exceptions} ${exceptions === 1 ? "order" : "orders"} seen and not read`);
}

function describeBreaches({ breaches, lastBreachAt, now }: SourceStatus, paint: Paint): string {
  if (lastBreachAt === null) return "never";
  return paint(
    "red",
    `${breaches} ${breaches === 1 ? "time" : "times"}, last ${describeMoment(lastBreachAt, now)}`,
  );
}

function describeMargins({ settleSeconds, overlapSeconds, tailSeconds }: StoredMargins): string {
  const late = tailSeconds === 0 ? "no change appeared late" : `late changes were seen by ${tailSeconds} s`;
  return `${overlapSeconds} s, from ${settleSeconds} s ago; ${late} in the last week`;
}

function describeRequests(requests: readonly RequestCount[]): string {
  const phrases = requests.map(({ policy, purpose, requests: sent }) => `${sent} ${purpose} (${policy})`);
  return phrases.join(", ") || "none";
}

function describePending({ pending, oldestPendingSeconds }: SourceStatus): string {
  if (pending === 0 || oldestPendingSeconds === null) return "0";
  return `${pending}, the oldest for ${formatSpan(oldestPendingSeconds * 1_000)}`;
}

const HEALTH: Record<WebhookHealth, string> = {
  "not-configured": "polled only: no webhook secret is set",
  "never-seen": "no event has ever come",
  working: "working",
  losing: "losing events",
  stopped: "stopped",
};

function describeWebhooks({ webhooks, webhookRecord }: ShownSource, paint: Paint): string {
  const { lost, announced, lostSinceLastEvent } = webhookRecord;
  const rate = lossRate({ lost, announced });
  const share = rate === null ? "" : ` (${(rate * 100).toFixed(1)} %)`;
  const figures = `${lost} lost${share}, ${announced} announced in 24 h`;
  const since = webhooks === "stopped" ? `; ${lostSinceLastEvent} changes since the last event` : "";
  switch (webhooks) {
    case "not-configured":
    case "never-seen":
      return HEALTH[webhooks];
    case "working":
      return `${HEALTH[webhooks]}: ${figures}`;
    case "losing":
      return paint("yellow", `${HEALTH[webhooks]}: ${figures}`);
    case "stopped":
      return paint("red", `${HEALTH[webhooks]}: ${figures}${since}`);
    default: {
      const never: never = webhooks;
      return never;
    }
  }
}

function toJson(source: ShownSource) {
  const moment = (instant: Instant | null) => (instant === null ? null : formatInstant(instant));
  const { lost, announced, lostSinceLastEvent, delays } = source.webhookRecord;
  return {
    ...source,
    safeThrough: moment(source.safeThrough),
    polledThrough: moment(source.polledThrough),
    lastCycleEndedAt: moment(source.lastCycleEndedAt),
    lastEventReceivedAt: moment(source.lastEventReceivedAt),
    lastBreachAt: moment(source.lastBreachAt),
    traits: Object.fromEntries(source.traits.map(({ trait, value }) => [trait, value])),
    webhookRecord: { lost, announced, lossRate: lossRate({ lost, announced }), lostSinceLastEvent, delays },
    now: formatInstant(source.now),
  };
}
