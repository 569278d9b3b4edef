import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import type { RateRule } from "../../domain/window/rate.ts";
import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { HealthReader } from "../../health/health.ts";
import { readStandings } from "../../health/standing.sql.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { readSource } from "../../sources/sources.sql.ts";
import type { KnownSource } from "../../sources/sources.sql.ts";
import { renderAlert, renderFacts, renderInstant, renderMinute, renderTime } from "../../html/parts.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { CHART_ASSETS } from "../html/assets.ts";
import { renderFreshness } from "../html/freshness.ts";
import { renderPage } from "../html/page.ts";
import { readField, refuse, sendPage } from "../html/requests.ts";
import { describeBoundedCount, describeCount, describeSpan, sourceQuery } from "../overview/phrases.ts";
import { readOpenTasks } from "../overview/overview.sql.ts";
import type { OpenTask } from "../overview/overview.sql.ts";
import { renderRemedyButton } from "../overview/remedies.sql.ts";
import { parseRange, readTrend, renderTrend } from "./trends.sql.ts";
import type { Bucket, Range } from "./trends.sql.ts";

export interface SourceRoutesDeps {
  readonly pool: Pool;
  readonly health: HealthReader;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
}

interface SourcePage {
  readonly standing: Standing;
  readonly source: KnownSource;
  readonly tasks: readonly OpenTask[];
  readonly buckets: readonly Bucket[];
  readonly range: Range;
  readonly viewer: Viewer;
}

/** What is known of one source. */
export function makeSourceRoutes({ pool, health, listRate }: SourceRoutesDeps): Router {
  const router = Router();
  router.get("/sources/:sourceId", async ({ params, query }, response) => {
    const sourceId = readField(params.sourceId);
    const isIts = (row: { readonly sourceId: string }) => row.sourceId === sourceId;
    const [stored] = await readStandings(pool, sourceId);
    const source = await readSource(pool, sourceId);
    if (stored === undefined || source === undefined)
      return refuse(response, 404, "There is no source of that name.");
    const { facts } = await health.read();
    const standing = { ...stored, configured: facts.sources.find(isIts)?.configured ?? null };
    const range = parseRange(query["range"]);
    const page = {
      standing,
      source,
      tasks: (await readOpenTasks(pool)).filter(isIts),
      buckets: await readTrend(pool, { standing, range, listRate }),
      range,
      viewer: viewerOf(response),
    };
    sendPage(response, renderSource(page));
  });
  return router;
}

function renderSource(page: SourcePage): string {
  const { standing, source, buckets, range, viewer } = page;
  const { sourceId, mode } = standing;
  const body = html`<h1>${sourceId} <span class="badge">${mode}</span></h1>
    <div id="source" data-live>
      ${renderFreshness([standing])} ${renderStanding(page)} ${renderTasks(page)}
      <h2>Polling</h2>
      <p>While polling is paused, webhooks are still applied. The poller later reads what it has missed.</p>
      ${renderRemedyButton(standing.pausedAt === null ? "pause" : "resume", sourceId, viewer)}
      ${standing.oldestGap !== null && renderRemedyButton("gap", sourceId, viewer)}
    </div>
    <h2 id="trends">Trends <span class="dim">last ${range.title}, per ${range.unit}</span></h2>
    ${renderTrend(sourceId, buckets, range)}
    <h2>Provider</h2>
    ${renderProvider(standing, source)}
    <h2>More of ${sourceId}</h2>
    <ul>
      ${Object.entries(MORE).map(([path, name]) => html`<li><a href="/ops/${path}${sourceQuery(sourceId)}">${name}</a></li> `)}
    </ul>`;
  return renderPage({
    title: `Source ${sourceId}`,
    body,
    viewer,
    section: "overview",
    live: true,
    assets: CHART_ASSETS,
  });
}

const MORE = {
  tasks: "Backfills and verifications",
  walks: "Reads from the provider",
  requests: "Requests by minute",
  slow: "Slowest events",
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
    "Exceptions to that": exceptions === 0 ? "0" : renderAlert(link("quarantine", exceptions)),
    "Proofs withdrawn": link("breaches", breaches),
    Gaps: link("gaps", gaps),
    "History from": renderInstant(historySince),
    "Polled up to": renderInstant(polledThrough),
    "Last poll ended": renderInstant(lastCycleEndedAt),
    "Last poll": lastError === null ? "no error" : renderAlert(lastError),
    Poller: standing.leader ?? "none",
    "Polls trail the present by": marginSeconds === null ? "–" : describeSpan(marginSeconds),
    "Last event": renderInstant(lastEventAt),
    "Missed webhooks, 24 h": html`${link("lost", lost)} of ${describeCount(lost + announced)}`,
    "Events waiting": link("waiting", pending),
    "Re-reads waiting": link("refetches", refetches),
    "In quarantine": link("quarantine", quarantined),
  });
}

const HOUR_NANOS = 3_600n * NANOS_PER_SECOND;
const HUNDRED = 100;
const SHARE_MIN = 0.02;

/** Reads that run next to current polling, with their progress. */
function renderTasks({ standing, tasks }: SourcePage): Html {
  const history = renderHistory(standing);
  if (history === undefined && tasks.length === 0) return html``;
  return html`<h2>Backfills and verifications <span class="dim">running and waiting</span></h2>
    <ul class="plain tasks">
      ${history}${tasks.map(renderTask)}
    </ul>`;
}

/** The history of a new source, or the changes missed while nobody polled; undefined once it has caught up. */
function renderHistory({ now, historySince, safeThrough }: Standing): Html | undefined {
  if (historySince === null) return undefined;
  const reached = safeThrough ?? historySince;
  if (now - reached < HOUR_NANOS || now <= historySince) return undefined;
  const share = Number(reached - historySince) / Number(now - historySince);
  return html`<li>
    <strong>history</strong> ${renderTime(formatInstant(historySince, 0))} to now
    ${renderBar("history", share)}
    <span class="dim">read without gaps from its beginning</span>
  </li> `;
}

function renderTask(task: OpenTask): Html {
  const { kind, id, since, until, running, share, orders, elapsedSeconds, lastError } = task;
  const name = `${kind} ${id}`;
  const rate = elapsedSeconds > 0 ? `${describeCount(Math.round(orders / elapsedSeconds))} orders/s` : "";
  // With less done, an estimate would be a guess.
  const seconds = share < SHARE_MIN ? null : (elapsedSeconds * (1 - share)) / share;
  const left = seconds === null ? "" : `about ${describeSpan(seconds)} left`;
  const pace = [`${describeCount(orders)} orders`, rate, left].filter((part) => part !== "").join(" · ");
  return html`<li>
    <strong>${name}</strong> ${renderTime(formatInstant(since, 0))} to ${renderTime(formatInstant(until, 0))}
    ${running ? renderBar(name, share) : html`<span class="dim">waiting</span>`}
    <span class="dim">${running ? pace : ""}</span>
    ${lastError !== null && html`${renderAlert(lastError)} <span class="dim">will be retried</span>`}
  </li> `;
}

function renderBar(name: string, share: number): Html {
  const percent = Math.floor(share * HUNDRED * 10) / 10;
  return html`<progress max="100" value="${percent}" aria-label="${name}"></progress> ${percent} %`;
}

function renderProvider({ baseUrl, createdAt }: Standing, { provider, refusedBranches }: KnownSource): Html {
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
