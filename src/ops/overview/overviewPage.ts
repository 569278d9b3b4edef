import { Router } from "express";
import { readLastDecisions } from "../../changes/changeTail.sql.ts";
import type { DecisionRow } from "../../changes/changeTail.sql.ts";
import { numberColumn, renderAlert, renderInstant, renderMinute, renderTable } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
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
import {
  VERDICT_CLASS,
  describeBoundedCount,
  describeCount,
  describeDelay,
  linkOrder,
  sourceAddress,
  sourceQuery,
} from "./phrases.ts";
import { moodOf, renderProblems, renderVerdict, sayVerdict } from "./verdict.ts";

const LINES_SHOWN = 20;
const RECENT_HELD_MS = 500;

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
  const { pool, clock } = deps;
  const readOverview = makeOverviewReader(deps);
  const readRecent = shareReading(
    () => readLastDecisions(pool, { sourceId: null, reference: null, limit: LINES_SHOWN }),
    { clock, holdMs: RECENT_HELD_MS },
  );
  const router = Router();
  router.get("/", async (_request, response) => {
    const overview = await readOverview();
    const lines = (await readRecent()).toReversed().map(renderTailLine);
    sendPage(response, renderOverview({ overview, lines, viewer: viewerOf(response) }));
  });
  for (const [path, list] of Object.entries(LISTS)) router.get(path, serveList(pool, `/ops${path}`, list));
  return router;
}

export interface OverviewPage {
  readonly overview: Overview;
  /** Lines of the latest decisions, newest first. */
  readonly lines: readonly Html[];
  readonly viewer: Viewer;
}

const HUNDRED = 100;

/** One screen: fresh? lost? stuck? able to catch up? with a line for each source, and the current decisions. @internal */
export function renderOverview(page: OverviewPage): string {
  const { overview, lines, viewer } = page;
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${sayVerdict(overview)}</p>
    <div id="verdict" data-live>${renderVerdict(overview, viewer)}</div>
    <div id="state" data-live>${renderState(overview, viewer)}</div>
    <h2>Latest decisions</h2>
    <ol id="tail" class="tail" data-live>
      ${lines}
    </ol>
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

const NANOS_PER_SECOND = 1e9;

function renderTailLine(decision: DecisionRow): Html {
  const { sourceId, via, verdict, conflict, eventType, version, seenAt } = decision;
  const lag = version === null ? "" : describeDelay(Number(seenAt - version) / NANOS_PER_SECOND);
  return html`<li>
    ${renderInstant(seenAt)} <span class="via">${via}</span> <span class="order">${linkOrder(decision)}</span>
    <span class="verdict ${VERDICT_CLASS[verdict] ?? ""}">${verdict}${conflict ? " (conflict)" : ""}</span>
    <span>${describeMove(decision)}</span>
    <span class="dim">${sourceId} ${eventType ?? ""}${lag === "" ? "" : ` · ${lag} after the change`}</span>
  </li> `;
}

function describeMove({ status, previousStatus }: DecisionRow): string {
  if (status === null) return "";
  return previousStatus === null || previousStatus === status ? status : `${previousStatus} → ${status}`;
}
