import { Router } from "express";
import { VERDICTS } from "../../apply/batchRow.sql.ts";
import { readLastDecisions } from "../../changes/changeTail.sql.ts";
import type { DecisionRow } from "../../changes/changeTail.sql.ts";
import { VIAS } from "../../domain/order/observation.ts";
import { numberColumn, renderAlert, renderInstant, renderMinute, renderTable } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { shareReading } from "../../runtime/lifecycle/shareReading.ts";
import { viewerOf } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderChoice } from "../html/choice.ts";
import { renderPage } from "../html/page.ts";
import { sendPage } from "../html/requests.ts";
import { ACTION_LIST } from "../lists/audit.sql.ts";
import { BREACHES, GAPS, WALKS } from "../lists/coverageLists.sql.ts";
import { serveList } from "../lists/listPage.ts";
import { CALLS, LOST, REFETCHES, REQUESTS, SLOW, TASKS, WAITING } from "../lists/opsLists.sql.ts";
import { renderTiles } from "./answers.ts";
import { makeOverviewReader } from "./overview.sql.ts";
import type { Overview, OverviewReaderDeps, SourceView } from "./overview.sql.ts";
import {
  VERDICT_CLASS,
  describeBoundedCount,
  describeCount,
  describeDelay,
  linkOrder,
  sourceQuery,
} from "./phrases.ts";
import { moodOf, renderProblems, renderVerdict, sayVerdict } from "./verdict.ts";

const LINES_SHOWN = 40;
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
    () => readLastDecisions(pool, { sourceId: null, reference: null, limit: TAIL_DECISIONS }),
    { clock, holdMs: RECENT_HELD_MS },
  );
  const router = Router();
  router.get("/", async (request, response) => {
    const filter = parseTailFilter(request.query);
    const overview = await readOverview();
    const fitting = (await readRecent()).filter((row) => fitsTail(filter, row));
    const lines = fitting.toReversed().slice(0, LINES_SHOWN).map(renderTailLine);
    sendPage(response, renderOverview({ overview, lines, filter, viewer: viewerOf(response) }));
  });
  for (const [path, list] of Object.entries(LISTS)) router.get(path, serveList(pool, `/ops${path}`, list));
  return router;
}

export interface OverviewPage {
  readonly overview: Overview;
  /** Lines of the latest decisions, newest first. */
  readonly lines: readonly Html[];
  readonly filter: TailFilter;
  readonly viewer: Viewer;
}

/** The latest decisions are chosen from this many. */
const TAIL_DECISIONS = 200;
const HUNDRED = 100;

/** One screen: fresh? lost? stuck? able to catch up? with a line for each source, and the current decisions. @internal */
export function renderOverview(page: OverviewPage): string {
  const { overview, lines, filter, viewer } = page;
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${sayVerdict(overview)}</p>
    <div id="verdict" data-live>${renderVerdict(overview, viewer)}</div>
    <div id="state" data-live>${renderState(overview, viewer)}</div>
    ${renderTail({ lines, filter, sources: overview.sources.map(({ standing }) => standing.sourceId) })}
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
  return html`<h2>Sources</h2>
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
          html`<a class="name" href="/ops/sources/${encodeURIComponent(sourceId)}">${sourceId}</a>`,
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

function renderTail(tail: { lines: readonly Html[]; filter: TailFilter; sources: readonly string[] }): Html {
  const { lines, filter, sources } = tail;
  return html`<h2 id="tail-title">
      Decisions <span class="dim">of the latest ${TAIL_DECISIONS}, newest first</span>
    </h2>
    <form class="row" action="/ops#tail-title" id="tail-filter" aria-label="Filter of the decisions">
      ${renderChoice({ label: "Source", name: "source", words: sources, chosen: filter.source })}
      ${renderChoice({ label: "Via", name: "via", words: VIAS, chosen: filter.via })}
      ${renderChoice({ label: "Decision", name: "verdict", words: VERDICTS, chosen: filter.verdict })}
      <button>Show</button>
    </form>
    <div id="tail" data-live>
      ${
        lines.length === 0
          ? html`<p class="dim">No match.</p>`
          : html`<ol class="tail">
              ${lines}
            </ol>`
      }
    </div>`;
}

/** The page shown when the database does not answer. */
export function renderUnavailable(): string {
  const body = html`<h1>No database</h1>
    <p>${renderAlert("The database does not answer, so the state of the mirror is unknown.")}</p>
    <p><a href="/ops">Try again</a> · <a href="/readyz?verbose">Readiness</a></p>`;
  return renderPage({ title: "No database", body, mood: "critical" });
}

const NANOS_PER_SECOND = 1e9;

/** The decisions to show; null means no restriction. */
export interface TailFilter {
  readonly source: string | null;
  readonly via: string | null;
  readonly verdict: string | null;
}

/** Unknown words are ignored: a mistyped address shows everything. @internal */
export function parseTailFilter(query: Readonly<Record<string, unknown>>): TailFilter {
  const pick = (words: readonly string[], value: unknown) => words.find((word) => word === value) ?? null;
  const { source } = query;
  return {
    source: typeof source === "string" && source !== "" ? source : null,
    via: pick(VIAS, query["via"]),
    verdict: pick(VERDICTS, query["verdict"]),
  };
}

/** @internal */
export function fitsTail({ source, via, verdict }: TailFilter, decision: DecisionRow): boolean {
  return (
    (source === null || source === decision.sourceId) &&
    (via === null || via === decision.via) &&
    (verdict === null || verdict === decision.verdict)
  );
}

/** @internal */
export function renderTailLine(decision: DecisionRow): Html {
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
