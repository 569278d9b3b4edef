import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { describeSpan } from "../../domain/duration.ts";
import { readStandings, type Standing } from "../../health/conditions/standing.ts";
import { sourceQuery } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import { renderAlert, renderFacts, renderInstant, renderMinute } from "../../html/parts.ts";
import { readField, sendRefusal, sendPage, viewerOf, type Page, type Viewer } from "../page.ts";
import { describeBoundedCount, describeCount, renderFreshness } from "../phrases.ts";
import { renderRemedyButton } from "../remedies.ts";
import { readSource, type StoredSource } from "../../sources/sources.sql.ts";
import { parseRange, readTrend, type Bucket, type Range } from "./trend.sql.ts";
import { renderTrend } from "./trendCharts.ts";

interface SourcePage {
  readonly standing: Standing;
  readonly source: StoredSource;
  readonly buckets: readonly Bucket[];
  readonly range: Range;
  readonly viewer: Viewer;
}

/** Serves what is known of one source. */
export function makeSourceRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/sources/:sourceId", async ({ params, query }, response) => {
    const sourceId = readField(params.sourceId);
    const [standing] = await readStandings(pool, sourceId);
    const source = await readSource(pool, sourceId);
    if (standing === undefined || source === undefined)
      return sendRefusal(response, 404, "There is no source of that name.");
    const range = parseRange(query["range"]);
    const page = {
      standing,
      source,
      buckets: await readTrend(pool, { standing, range }),
      range,
      viewer: viewerOf(response),
    };
    sendPage(response, renderSource(page));
  });
  return router;
}

function renderSource(page: SourcePage): Page {
  const { standing, source, buckets, range, viewer } = page;
  const { sourceId, mode } = standing;
  const body = html`<h1>${sourceId} <span class="badge">${mode}</span></h1>
    <div id="source" data-live>
      ${renderFreshness([standing])} ${renderStanding(page)}
      <h2>Polling</h2>
      <p>While polling is paused, webhooks are still applied. The poller later reads what it has missed.</p>
      <div class="row">
        ${renderRemedyButton(standing.pausedAt === null ? "pause" : "resume", sourceId, viewer)}
        ${standing.oldestGap !== null && renderRemedyButton("gap", sourceId, viewer)}
      </div>
    </div>
    <h2 id="trends">Trends <span class="dim">last ${range.title}, per ${range.unit}</span></h2>
    ${renderTrend(sourceId, buckets, range)}
    <h2>Provider</h2>
    ${renderProvider(standing, source)}
    <h2>More of ${sourceId}</h2>
    <ul>
      ${Object.entries(MORE).map(([path, name]) => html`<li><a href="/ops/${path}${sourceQuery(sourceId)}">${name}</a></li> `)}
    </ul>`;
  return { title: `Source ${sourceId}`, body, section: "overview", live: true, hasCharts: true };
}

const MORE = {
  tasks: "Backfills and verifications",
  walks: "Reads from the provider",
  calls: "Calls by minute",
  lost: "Lost events",
  actions: "Audit log",
};

/** Every figure with the list behind it. */
function renderStanding({ standing }: SourcePage): Html {
  const { sourceId, safeThrough, polledThrough, historySince, lastCycleEndedAt, lastError } = standing;
  const { marginSeconds } = standing;
  const { gaps, breaches, exceptions, quarantined, pending, refetches, lastEventAt, lost, announced } =
    standing;
  const query = sourceQuery(sourceId);
  const link = (page: string, count: number) =>
    html`<a href="/ops/${page}${query}">${describeBoundedCount(count)}</a>`;
  return renderFacts({
    Polling: describePolling(standing),
    "Complete up to": html`<a href="/ops/walks${query}">${renderInstant(safeThrough)}</a>`,
    "Exceptions to that": exceptions === 0 ? "0" : renderAlert(link("exceptions", exceptions)),
    "Proofs withdrawn": link("breaches", breaches),
    Gaps: link("gaps", gaps),
    "History from": renderInstant(historySince),
    "Polled up to": renderInstant(polledThrough),
    "Last poll ended": renderInstant(lastCycleEndedAt),
    "Last poll": lastError === null ? "no error" : renderAlert(lastError),
    Poller: standing.leader ?? "none",
    "Proofs trail the present by at least": marginSeconds === null ? "–" : describeSpan(marginSeconds),
    "Last event": renderInstant(lastEventAt),
    "Missed webhooks, 24 h": html`${link("lost", lost)} of ${describeCount(lost + announced)}`,
    "Events waiting": link("waiting", pending),
    "Single reads waiting": link("refetches", refetches),
    "In quarantine": link("quarantine", quarantined),
  });
}

function renderProvider({ baseUrl, createdAt }: Standing, { provider, refusedBranches }: StoredSource): Html {
  return renderFacts({
    Address: html`<span class="mono">${baseUrl}</span>`,
    Identity: html`<span class="mono">${provider ?? "not recorded"}</span>`,
    "Configured here since": renderMinute(createdAt),
    Key:
      refusedBranches === null
        ? "matches"
        : renderAlert(`of another organization, with the branches ${refusedBranches}`),
  });
}

function describePolling({ pausedAt, lastError, leader }: Standing): Html | string {
  if (pausedAt !== null) return html`paused since ${renderMinute(pausedAt)}`;
  if (leader === null) return renderAlert("no poller is running");
  return lastError === null ? "running" : renderAlert("failing");
}
