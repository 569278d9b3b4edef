import type { RateRule } from "../../domain/window/rate.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { judgeWebhooks } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Pool } from "../../database/database.ts";
import type { SourceFacts } from "../../health/condition.ts";
import type { HealthReader } from "../../health/health.ts";
import type { Holding } from "../../health/judge.ts";
import { readOpenTasks, readQuarantinedReasons, readWebhookLag } from "../../health/opsFigures.sql.ts";
import type { OpenTask, QuarantinedReason, WebhookLag } from "../../health/opsFigures.sql.ts";
import { COUNT_MAX } from "../../health/standing.sql.ts";
import { readRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { RequestCount } from "../../poll/ledger/providerRequests.sql.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { readPace } from "./pace.sql.ts";
import type { Pace } from "./pace.sql.ts";

export interface SourceView {
  readonly standing: SourceFacts;
  readonly webhooks: WebhookHealth;
  /** Null if no event has changed an order recently. */
  readonly lag: WebhookLag | null;
  /** Sent to the provider within the last hour, by all processes. */
  readonly requests: readonly RequestCount[];
  /** Order lists of the last 10 minutes, and how many our rate allows in that time. */
  readonly listReads: { readonly sent: number; readonly allowed: number };
  readonly quarantinedReasons: readonly QuarantinedReason[];
  readonly tasks: readonly OpenTask[];
}

export interface Overview {
  /** The database's clock at the time of the reading. */
  readonly now: Instant;
  readonly sources: readonly SourceView[];
  /** The conditions that hold, the most urgent first. */
  readonly holding: readonly Holding[];
  /** Those that begin to hold. */
  readonly beginning: readonly Holding[];
  readonly pace: Pace;
}

/** The last reading, at most HOLD_MS old; rejects with the database's error. */
export type ReadOverview = () => Promise<Overview>;

export interface OverviewReaderDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly health: HealthReader;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
}

/** The database is queried at most this often, however many tabs are open. */
const HOLD_MS = 4_000;
const RECENT_MINUTES = 10;
const LIST_POLICY = "order-list";

/** Makes the one reader for all pages of a process. */
export function makeOverviewReader(deps: OverviewReaderDeps): ReadOverview {
  return shareReading(() => readOverview(deps), { clock: deps.clock, holdMs: HOLD_MS });
}

async function readOverview(deps: OverviewReaderDeps): Promise<Overview> {
  const { pool, health } = deps;
  // One statement after another, so that a page does not take all connections of the pool.
  const { facts, holding, beginning } = await health.read();
  const lags = await readWebhookLag(pool);
  const quarantinedReasons = await readQuarantinedReasons(pool, COUNT_MAX);
  const tasks = await readOpenTasks(pool);
  const sources: SourceView[] = [];
  for (const standing of facts.sources) {
    const { sourceId } = standing;
    const isIts = (row: { readonly sourceId: string }) => row.sourceId === sourceId;
    sources.push({
      standing,
      webhooks: judgeWebhooks(standing),
      lag: lags.find(isIts) ?? null,
      requests: await readRequests(pool, { sourceId, minutes: 60 }),
      listReads: await readListReads(deps, sourceId),
      quarantinedReasons: quarantinedReasons.filter(isIts),
      tasks: tasks.filter(isIts),
    });
  }
  return { now: facts.now, sources, holding, beginning, pace: await readPace(pool) };
}

async function readListReads({ pool, listRate }: OverviewReaderDeps, sourceId: string) {
  const recent = await readRequests(pool, { sourceId, minutes: RECENT_MINUTES });
  const lists = recent.filter(({ policy }) => policy === LIST_POLICY);
  const windows = (RECENT_MINUTES * 60_000) / listRate.windowMs;
  return {
    sent: lists.reduce((sum, { requests }) => sum + requests, 0),
    allowed: Math.floor(listRate.requestsMax * windows),
  };
}
