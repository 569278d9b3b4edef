import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { readStandings } from "../../health/standing.sql.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { readRequests } from "../../poll/ledger/providerRequests.sql.ts";
import type { RequestCount } from "../../poll/ledger/providerRequests.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { readSource } from "../../sources/sources.sql.ts";
import type { KnownSource } from "../../sources/sources.sql.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderPage } from "../html/page.ts";
import { readField, refuse } from "../html/requests.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { serveList } from "../lists/serveList.ts";
import { describeBoundedCount, describeCount, describeSpan, sourceQuery } from "../overview/phrases.ts";
import { renderAlert, renderInstant, renderMinute } from "../../html/marks.ts";
import { describePolling, SOURCE_LIST } from "./sourceList.ts";

/** The sources, and what is known of each. */
export function makeSourceRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/sources", serveList(pool, "/ops/sources", SOURCE_LIST));
  router.get("/sources/:sourceId", async ({ params }, response) => {
    const sourceId = readField(params.sourceId);
    const [standing] = await readStandings(pool, sourceId);
    const source = await readSource(pool, sourceId);
    if (standing === undefined || source === undefined)
      return refuse(response, 404, "There is no source of that name.");
    const page = {
      standing,
      source,
      requests: await readRequests(pool, { sourceId, minutes: 60 }),
      viewer: viewerOf(response),
    };
    response.type("html").send(renderSource(page));
  });
  return router;
}

function renderSource(page: {
  standing: Standing;
  source: KnownSource;
  requests: readonly RequestCount[];
  viewer: Viewer;
}): string {
  const { standing, source, requests, viewer } = page;
  const { sourceId, mode } = standing;
  const body = html`<h1>${sourceId} <span class="badge">${mode}</span></h1>
    <div id="source" data-live>
      ${renderActions(standing)} ${renderStanding(standing)}
      <h2>Provider</h2>
      ${renderProvider(standing, source)}
      <h2>Requests <span class="dim">last hour</span></h2>
      ${renderRequests(requests, standing)}
    </div>
    ${renderMore(sourceId)}`;
  return renderPage({ title: `Source ${sourceId}`, body, viewer, section: "sources", live: true });
}

/** Each button leads to a page that says what would happen. */
function renderActions({ sourceId, pausedAt, oldestGap }: Standing): Html {
  const lead = (page: string, label: string) =>
    html`<a class="button" href="/ops/${page}${sourceQuery(sourceId)}">${label}</a>`;
  return html`<p class="actions">
    ${pausedAt === null ? lead("pause", "Pause polling…") : lead("resume", "Resume polling…")}
    ${oldestGap !== null && lead("gap", "Read the gaps…")}
  </p>`;
}

function renderStanding(standing: Standing): Html {
  const { sourceId, safeThrough, polledThrough, historySince, lastCycleEndedAt, lastError, leader } =
    standing;
  const { gaps, breaches, exceptions, quarantined, pending, refetches, lastEventAt, marginSeconds } =
    standing;
  const link = (page: string, count: number) =>
    html`<a href="/ops/${page}${sourceQuery(sourceId)}">${describeBoundedCount(count)}</a>`;
  return renderFacts({
    Polling: describePolling(standing),
    "Complete up to": renderInstant(safeThrough),
    "History from": renderInstant(historySince),
    "Polled up to": renderInstant(polledThrough),
    "Last poll ended": renderInstant(lastCycleEndedAt),
    "Last poll": lastError === null ? "no error" : renderAlert(lastError),
    Poller: leader ?? "none",
    "Last event": renderInstant(lastEventAt),
    "A change may appear late by": marginSeconds === null ? "not polled yet" : describeSpan(marginSeconds),
    Gaps: link("gaps", gaps),
    "Proofs withdrawn": link("breaches", breaches),
    "Orders seen but not read or confirmed": link("quarantine", exceptions),
    "Events waiting": link("waiting", pending),
    "Re-reads waiting": link("refetches", refetches),
    "In quarantine": link("quarantine", quarantined),
  });
}

function renderProvider({ baseUrl, createdAt }: Standing, { provider, refusedBranches }: KnownSource): Html {
  return renderFacts({
    Address: html`<span class="mono">${baseUrl}</span>`,
    Identity: html`<span class="mono">${provider ?? "not recorded"}</span>`,
    "Configured here since": renderMinute(createdAt),
    "Configured key":
      refusedBranches === null
        ? "not seen to belong to another organization"
        : renderAlert(`of another organization, with the branches ${refusedBranches}`),
  });
}

function renderRequests(requests: readonly RequestCount[], { rateRefusals }: Standing): Html {
  const refused = html`<p>
    ${rateRefusals === 0 ? "The provider refused none within the last 10 minutes." : renderAlert(`The provider refused ${describeCount(rateRefusals)} within the last 10 minutes (429).`)}
  </p>`;
  if (requests.length === 0)
    return html`<p class="empty">Nothing was sent. Requests by rate policy and purpose would be here.</p>`;
  return html`${refused}
  ${renderTable({
    title: "Requests of the last hour",
    columns: ["Rate policy", "For", numberColumn("Requests")],
    rows: requests.map(({ policy, purpose, requests: count }) => [policy, purpose, describeCount(count)]),
  })}`;
}

const MORE = {
  tasks: "Backfills and verifications",
  walks: "Reads from the provider",
  requests: "Requests by minute",
  lost: "Lost events",
  actions: "Audit log",
};

function renderMore(sourceId: string): Html {
  return html`<h2>More of ${sourceId}</h2>
    <ul>
      ${Object.entries(MORE).map(([page, name]) => html`<li><a href="/ops/${page}${sourceQuery(sourceId)}">${name}</a></li> `)}
    </ul>`;
}
