import { Router } from "express";
import type { RateRule } from "../../domain/window/rate.ts";
import type { Pool } from "../../database/database.ts";
import { describeWebhooks } from "../../health/eventConditions.ts";
import type { HealthReader } from "../../health/health.ts";
import { numberColumn, renderAlert, renderMinute, renderTable } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import type { Clock } from "../../runtime/lifecycle/clock.ts";
import { sendPage, viewerOf } from "../page.ts";
import type { Page, Viewer } from "../page.ts";
import { describeBoundedCount, describeCount, sourceAddress, sourceQuery } from "../phrases.ts";
import { moodOf, renderProblems, renderTiles, renderVerdict, sayVerdict } from "./verdict.ts";
import type { Overview } from "./verdict.ts";

export interface OverviewDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly health: HealthReader;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
}

/** The database is queried at most this often, however many tabs are open. */
const HOLD_MS = 4_000;
const RECENT_MINUTES = 10;

/** Of each source, the share of our rate of order lists that was used lately. */
async function readRateUsed(pool: Pool, { requestsMax, windowMs }: RateRule): Promise<Overview["rateUsed"]> {
  const allowed = (requestsMax * RECENT_MINUTES * 60_000) / windowMs;
  const { rows } = await pool.query<{ sourceId: string; used: number }>(
    `select source_id as "sourceId", sum(calls)::float8 / $2 as used from mirror.calls
     where kind = 'order-list' and minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => $1)
     group by source_id`,
    [RECENT_MINUTES, allowed],
  );
  return new Map(rows.map(({ sourceId, used }) => [sourceId, used]));
}

/** The overview. It rejects with the database's error. */
export function makeOverviewRoutes({ pool, clock, health, listRate }: OverviewDeps): Router {
  const readUse = shareReading(() => readRateUsed(pool, listRate), { clock, holdMs: HOLD_MS });
  return Router().get("/", async (_request, response) => {
    const overview = { ...(await health.read()), rateUsed: await readUse() };
    sendPage(response, renderOverview(overview, viewerOf(response)));
  });
}

const HUNDRED = 100;

/** One screen: fresh? lost? stuck? able to catch up? with a line for each source. @internal */
export function renderOverview(overview: Overview, viewer: Viewer): Page {
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${sayVerdict(overview)}</p>
    <div id="verdict" data-live>${renderVerdict(overview, viewer)}</div>
    <div id="state" data-live>${renderState(overview, viewer)}</div>
    <p class="dim">
      Ages use the database's clock; “complete up to” uses the provider's.
      <a href="/readyz?verbose">Readiness</a> · <a href="/metrics">Metrics</a>
    </p>`;
  return { title: sayVerdict(overview), body, section: "overview", live: true, mood: moodOf(overview) };
}

function renderState(overview: Overview, viewer: Viewer): Html {
  if (overview.facts.sources.length === 0)
    return html`<p class="empty">No source is configured yet. Set DELIVERY_LIVE_API_KEY or SOURCES_FILE.</p>`;
  return html`${renderTiles(overview)}${renderProblems(overview, viewer)}${renderSources(overview)}`;
}

const WEBHOOKS: Readonly<Record<ReturnType<typeof describeWebhooks>, string | Html>> = {
  "not-configured": "polled only",
  "never-seen": "never arrived",
  working: "working",
  losing: "some lost",
  stopped: renderAlert("stopped"),
  refused: renderAlert("all refused"),
  "without-secret": renderAlert("no secret"),
};

/** Trends and all figures of a source are on its page. */
function renderSources({ facts, rateUsed }: Overview): Html {
  const link = (page: string, sourceId: string, text: string | Html) =>
    html`<a href="/ops/${page}${sourceQuery(sourceId)}">${text}</a>`;
  return html`<h2 id="sources">Sources</h2>
    ${renderTable({
      title: "Sources",
      columns: [
        "Source",
        "Complete up to",
        "Webhooks",
        numberColumn("Missed, 24 h"),
        numberColumn("Waiting"),
        numberColumn("In quarantine"),
        numberColumn("Rate used"),
      ],
      cards: true,
      rows: facts.sources.map((source) => {
        const { sourceId, safeThrough, lost, pending, quarantined } = source;
        return [
          html`<a class="name" href="${sourceAddress(sourceId)}">${sourceId}</a>`,
          safeThrough === null ? "not yet" : link("walks", sourceId, renderMinute(safeThrough)),
          WEBHOOKS[describeWebhooks(source)],
          link("lost", sourceId, describeCount(lost)),
          link("waiting", sourceId, describeCount(pending)),
          link("quarantine", sourceId, describeBoundedCount(quarantined)),
          link("requests", sourceId, `${Math.ceil((rateUsed.get(sourceId) ?? 0) * HUNDRED)} %`),
        ];
      }),
    })}`;
}
