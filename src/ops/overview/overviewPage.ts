import { VERDICTS } from "../../apply/batchRow.sql.ts";
import type { Overview } from "./readOverview.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { renderChoice } from "../html/choice.ts";
import { CHART_SCRIPT_ASSET } from "../html/assets.ts";
import { renderAlert } from "../../html/marks.ts";
import { renderState } from "./statePanel.ts";
import { VIAS } from "../../domain/order/observation.ts";
import { writeTailFilter } from "./tailLine.ts";
import type { TailFilter } from "./tailLine.ts";
import { moodOf, renderVerdict, sayVerdict } from "./verdict.ts";
import type { Range } from "../trends/range.ts";
import type { Trend } from "../trends/readTrends.ts";
import { renderRangeChoice, renderTrends } from "../trends/trendPanel.ts";

export interface OverviewPage {
  readonly overview: Overview;
  readonly trends: readonly Trend[];
  readonly range: Range;
  /** Lines of the latest decisions, newest first. */
  readonly lines: readonly Html[];
  readonly filter: TailFilter;
  readonly viewer: Viewer;
}

/** The latest decisions are chosen from this many. */
export const TAIL_DECISIONS = 200;

/** One screen: fresh? lost? stuck? budget? with details, and the current decisions. */
export function renderOverview(page: OverviewPage): string {
  const { overview, trends, range, lines, filter, viewer } = page;
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${sayVerdict(overview)}</p>
    <div id="verdict" data-live>${renderVerdict(overview, viewer)}</div>
    <div id="state" data-live>${renderState(overview, viewer)}</div>
    <h2 id="trends-title">Trends <span class="dim">last ${range.title}, per ${range.unit}</span></h2>
    ${renderRangeChoice(range, writeTailFilter(filter))}
    <div id="trends" data-live>${renderTrends(trends, range)}</div>
    ${renderTail({ lines, filter, range, sources: overview.sources.map(({ standing }) => standing.sourceId) })}
    <p class="dim">
      Ages use the database's clock; “complete up to” and “polled up to” use the provider's.
      <a href="/readyz?verbose">Readiness</a> · <a href="/metrics">Metrics</a>
    </p>`;
  return renderPage({
    title: sayVerdict(overview),
    body,
    viewer,
    section: "overview",
    live: true,
    script: CHART_SCRIPT_ASSET.path,
    mood: moodOf(overview),
  });
}

function renderTail(tail: {
  lines: readonly Html[];
  filter: TailFilter;
  range: Range;
  sources: readonly string[];
}): Html {
  const { lines, filter, range, sources } = tail;
  return html`<h2 id="tail-title">
      Decisions <span class="dim">of the latest ${TAIL_DECISIONS}, newest first</span>
    </h2>
    <form class="row" action="/ops#tail-title" id="tail-filter" aria-label="Filter of the decisions">
      <input type="hidden" name="range" value="${range.name}" />
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
  return renderPage({ title: "No database", body });
}
