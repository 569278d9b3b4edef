import { Router } from "express";
import { numberColumn, renderAlert, renderMinute, renderTable } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { sendPage } from "../html/requests.ts";
import { ACTION_LIST } from "../lists/audit.sql.ts";
import { serveList } from "../lists/list.sql.ts";
import {
  BREACHES,
  CALLS,
  GAPS,
  LOST,
  REFETCHES,
  REQUESTS,
  SLOW,
  TASKS,
  WAITING,
  WALKS,
} from "../lists/opsLists.sql.ts";
import { renderTiles } from "./answers.ts";
import { makeOverviewReader } from "./overview.sql.ts";
import type { Overview, OverviewReaderDeps, SourceView } from "./overview.sql.ts";
import { describeBoundedCount, describeCount, sourceAddress, sourceQuery } from "./phrases.ts";
import { moodOf, renderProblems, renderVerdict, sayVerdict } from "./verdict.ts";

const LISTS = {
  "/lost": LOST,
  "/slow": SLOW,
  "/waiting": WAITING,
  "/refetches": REFETCHES,
  "/requests": REQUESTS,
  "/calls": CALLS,
  "/walks": WALKS,
  "/gaps": GAPS,
  "/breaches": BREACHES,
  "/tasks": TASKS,
  "/actions": ACTION_LIST,
};

/** The overview and the lists behind its figures. */
export function makeOverviewRoutes(deps: OverviewReaderDeps): Router {
  const readOverview = makeOverviewReader(deps);
  const router = Router();
  router.get("/", async (_request, response) => {
    sendPage(response, renderOverview(await readOverview(), viewerOf(response)));
  });
  for (const [path, list] of Object.entries(LISTS))
    router.get(path, serveList(deps.pool, `/ops${path}`, list));
  return router;
}

const HUNDRED = 100;

/** One screen: fresh? lost? stuck? able to catch up? with a line for each source. @internal */
export function renderOverview(overview: Overview, viewer: Viewer): string {
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${sayVerdict(overview)}</p>
    <div id="verdict" data-live>${renderVerdict(overview, viewer)}</div>
    <div id="state" data-live>${renderState(overview, viewer)}</div>
    <p class="dim">
      Ages use the database's clock; “complete up to” uses the provider's.
      <a href="/readyz?verbose">Readiness</a> · <a href="/metrics">Metrics</a>
    </p>`;
  return renderPage({
    title: sayVerdict(overview),
    body,
    viewer,
    section: "overview",
    live: true,
    mood: moodOf(overview),
  });
}

function renderState(overview: Overview, viewer: Viewer): Html {
  const { sources } = overview;
  if (sources.length === 0)
    return html`<p class="empty">No source is configured yet. Set DELIVERY_LIVE_API_KEY or SOURCES_FILE.</p>`;
  return html`${renderTiles(overview)}${renderProblems(overview, viewer)}${renderSources(sources)}`;
}

const WEBHOOKS: Readonly<Record<SourceView["webhooks"], string | Html>> = {
  "not-configured": "polled only",
  "never-seen": "never arrived",
  working: "working",
  losing: "some lost",
  stopped: renderAlert("stopped"),
  refused: renderAlert("all refused"),
  "without-secret": renderAlert("no secret"),
};

/** Trends and all figures of a source are on its page. */
function renderSources(sources: readonly SourceView[]): Html {
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
      rows: sources.map(({ standing, webhooks, listReads }) => {
        const { sourceId, safeThrough, lost, pending, quarantined } = standing;
        return [
          html`<a class="name" href="${sourceAddress(sourceId)}">${sourceId}</a>`,
          safeThrough === null ? "not yet" : link("walks", sourceId, renderMinute(safeThrough)),
          WEBHOOKS[webhooks],
          link("lost", sourceId, describeCount(lost)),
          link("waiting", sourceId, describeCount(pending)),
          link("quarantine", sourceId, describeBoundedCount(quarantined)),
          link("requests", sourceId, `${Math.ceil((listReads.sent / listReads.allowed) * HUNDRED)} %`),
        ];
      }),
    })}`;
}
