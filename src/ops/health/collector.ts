import { ALERTS } from "../../health/alerts.ts";
import type { Alert } from "../../health/alerts.ts";
import type { RateRule } from "../../domain/window/budget.ts";
import { instantFromMillis } from "../../domain/order/instant.ts";
import { judgeWebhooks } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import { readGaps } from "../../poll/ledger/coverage.sql.ts";
import type { Pool } from "../../database/database.ts";
import { readWebhookRecord } from "../../poll/ledger/lostEvents.sql.ts";
import type { WebhookFigures } from "../../poll/ledger/lostEvents.sql.ts";
import {
  readHoursOfEvents,
  readOpenWorks,
  readParkedReasons,
  readStandings,
  readWebhookLag,
} from "../../health/opsFigures.sql.ts";
import type {
  HourOfEvents,
  OpenWork,
  ParkedReason,
  Standing,
  WebhookLag,
} from "../../health/opsFigures.sql.ts";
import { readRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { RequestCount } from "../../poll/ledger/providerRequests.sql.ts";
import { readSourceFigures } from "../../health/readMetrics.sql.ts";
import type { SourceFigures } from "../../health/readMetrics.sql.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { CELL_NANOS, CELLS, divideDay } from "../overview/coverageStrip.ts";
import type { CoverageDay } from "../overview/coverageStrip.ts";
import { COUNT_MAX } from "../overview/phrases.ts";

/** What the overview shows of one source. */
export interface SourceView {
  readonly figures: SourceFigures;
  readonly standing: Standing;
  readonly webhooks: WebhookHealth;
  readonly record: WebhookFigures;
  /** Null when no event has changed an order lately. */
  readonly lag: WebhookLag | null;
  readonly hours: readonly HourOfEvents[];
  /** Sent to the provider within the last hour, by all processes. */
  readonly requests: readonly RequestCount[];
  /** Order lists of the last 10 minutes, and how many the rate that is ours allows in that time. */
  readonly listReads: { readonly sent: number; readonly allowed: number };
  readonly parked: readonly ParkedReason[];
  readonly works: readonly OpenWork[];
  readonly coverage: CoverageDay;
  /** The conditions that hold now, also those of which nobody is told yet. */
  readonly alerts: readonly Alert[];
}

export interface Collected {
  readonly sources: readonly SourceView[];
}

export interface Collector {
  /** What was last collected, at most HOLD_MS old; rejects with the database's error. */
  read(): Promise<Collected>;
}

export interface CollectorDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  /** Sources with a webhook address; null where the configuration is not known. */
  readonly webhookSources: ReadonlySet<string> | null;
  /** The rate of order lists that is ours. */
  readonly listRate: RateRule;
}

/** However many tabs are open, the database is asked so often at most. */
const HOLD_MS = 4_000;
const GAPS_MAX = 50;
const RECENT_MINUTES = 10;
const LIST_POLICY = "order-list";

/** One for all pages of a process. */
export function makeCollector(deps: CollectorDeps): Collector {
  const { clock } = deps;
  let held: Promise<Collected> | undefined;
  let begunMs = 0;
  return {
    read() {
      if (held !== undefined && clock.monotonicMs() - begunMs < HOLD_MS) return held;
      begunMs = clock.monotonicMs();
      const reading = collect(deps);
      held = reading;
      // A failure is told to all who asked, and not kept for those who ask later.
      reading.catch(() => {
        if (held === reading) held = undefined;
      });
      return reading;
    },
  };
}

async function collect(deps: CollectorDeps): Promise<Collected> {
  const { pool, webhookSources } = deps;
  // One statement after another: a page must not take all connections of the pool.
  const figures = await readSourceFigures(pool, COUNT_MAX);
  const standings = await readStandings(pool);
  const lags = await readWebhookLag(pool);
  const hours = await readHoursOfEvents(pool);
  const parked = await readParkedReasons(pool, COUNT_MAX);
  const works = await readOpenWorks(pool);
  const sources: SourceView[] = [];
  for (const each of figures) {
    const { sourceId } = each;
    const isIts = (row: { readonly sourceId: string }) => row.sourceId === sourceId;
    const standing = standings.find(isIts) ?? makeUnknownStanding(each);
    // Events that came tell as well: a source may be added while this process runs.
    const configured = webhookSources?.has(sourceId) === true || each.lastEventAt !== null;
    const record = await readWebhookRecord(pool, { sourceId, configured });
    sources.push({
      figures: each,
      standing,
      record,
      webhooks: judgeWebhooks(record),
      lag: lags.find(isIts) ?? null,
      hours: hours.filter(isIts),
      requests: await readRequests(pool, { sourceId, minutes: 60 }),
      listReads: await readListReads(deps, sourceId),
      parked: parked.filter(isIts),
      works: works.filter(isIts),
      coverage: await readCoverageDay(pool, standing),
      alerts: ALERTS.filter(({ holds }) => holds(each)),
    });
  }
  return { sources };
}

async function readListReads({ pool, listRate }: CollectorDeps, sourceId: string) {
  const recent = await readRequests(pool, { sourceId, minutes: RECENT_MINUTES });
  const lists = recent.filter(({ policy }) => policy === LIST_POLICY);
  const windows = (RECENT_MINUTES * 60_000) / listRate.windowMs;
  return {
    sent: lists.reduce((sum, { requests }) => sum + requests, 0),
    allowed: Math.floor(listRate.requestsMax * windows),
  };
}

async function readCoverageDay(pool: Pool, standing: Standing): Promise<CoverageDay> {
  const { sourceId, now } = standing;
  const within = { since: now - BigInt(CELLS) * CELL_NANOS, until: now };
  return divideDay({ ...standing, missing: await readGaps(pool, { sourceId, within, limit: GAPS_MAX }) });
}

/** A source that was configured between two statements. */
function makeUnknownStanding({ sourceId, now }: SourceFigures): Standing {
  const unknown = {
    historySince: null,
    safeThrough: null,
    provedUntil: null,
    pausedAt: null,
    unannounced: 0,
  };
  return { sourceId, now: instantFromMillis(now * 1_000), ...unknown };
}
