import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import type { Aspect } from "../../domain/window/providerBehaviour.ts";
import { readStandings } from "../../health/standing.sql.ts";
import type { Standing } from "../../health/standing.sql.ts";
import { readBehaviour } from "../../poll/ledger/providerBehaviour.sql.ts";
import type { StoredBehaviour } from "../../poll/ledger/providerBehaviour.sql.ts";
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
import { renderAlert, renderInstant, renderMinute, renderTime } from "../../html/marks.ts";
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
      behaviour: await readBehaviour(pool, sourceId),
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
  behaviour: readonly StoredBehaviour[];
  requests: readonly RequestCount[];
  viewer: Viewer;
}): string {
  const { standing, source, behaviour, requests, viewer } = page;
  const { sourceId, mode } = standing;
  const body = html`<h1>${sourceId} <span class="badge">${mode}</span></h1>
    <div id="source" data-live>
      ${renderActions(standing)} ${renderStanding(standing)}
      <h2>Margins</h2>
      ${renderMargins(standing)}
      <h2>Provider</h2>
      ${renderProvider(standing, source)} ${renderBehaviour(behaviour)}
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
  const { gaps, breaches, exceptions, quarantined, pending, refetches, lastEventAt } = standing;
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
    Gaps: link("gaps", gaps),
    "Proofs withdrawn": link("breaches", breaches),
    "Orders seen but not read or confirmed": link("quarantine", exceptions),
    "Events waiting": link("waiting", pending),
    "Re-reads waiting": link("refetches", refetches),
    "In quarantine": link("quarantine", quarantined),
  });
}

function renderMargins({ settleSeconds, overlapSeconds, lateTailSeconds }: Standing): Html {
  const span = (seconds: number | null, without: string) =>
    seconds === null ? without : describeSpan(seconds);
  return html`<p>
      A window ends this far before the present, and the next begins this far before its end, because changes
      can appear late. Both follow what was seen.
    </p>
    ${renderFacts({
      "Ends before the present": span(settleSeconds, "not tuned yet"),
      "Overlaps the window before": span(overlapSeconds, "not tuned yet"),
      "Latest change of the last week":
        lateTailSeconds === 0 ? "none was late" : span(lateTailSeconds, "not known yet"),
    })}`;
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

const ASPECTS: Readonly<Record<Aspect, string>> = {
  sort: "Sort order of order lists",
  precision: "Precision of updatedAt",
  page: "Orders on a full page",
  clock: "Difference of the clocks",
  rate: "Rate limits",
};

function renderBehaviour(behaviour: readonly StoredBehaviour[]): Html {
  if (behaviour.length === 0)
    return html`<p class="empty">
      Nothing is measured yet. The provider's sort order, precision and limits would be here.
    </p>`;
  const time = (seconds: number) =>
    renderTime(new Date(seconds * 1_000).toISOString().replace(/\.\d+Z/, "Z"));
  return renderTable({
    title: "Measured behaviour of the provider",
    columns: ["Measured", "Value", "Last seen", "Before", "Changed"],
    rows: behaviour.map(({ aspect, value, measuredAt, previous, changedAt }) => [
      ASPECTS[aspect],
      value,
      time(measuredAt),
      previous ?? "–",
      changedAt === null ? "never" : time(changedAt),
    ]),
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
