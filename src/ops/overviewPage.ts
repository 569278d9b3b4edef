import { formatInstant } from "../domain/instant.ts";
import type { Backlog, SourceState } from "../mirror/readOverview.ts";
import { html } from "./html.ts";
import type { Html } from "./html.ts";
import { renderPage } from "./page.ts";
import type { Viewer } from "./login.ts";
import { describeAge, describeCount, renderAlert, renderTime } from "./phrases.ts";

export interface Overview {
  readonly sources: readonly SourceState[];
  readonly backlog: Backlog;
  readonly viewer: Viewer;
}

/** One screen: how fresh each source is, what waits, and where to look further. */
export function renderOverview({ sources, backlog, viewer }: Overview): string {
  const states = sources.map(renderSource);
  const body = html`<h1>Overview</h1>
    <p class="dim">as of ${renderTime(backlog.asOf)} · <a href="/ops">Refresh</a></p>
    <h2>Sources</h2>
    ${
      states.length === 0
        ? html`<p>None was ever configured.</p>`
        : html`<ul class="cards">
            ${states}
          </ul>`
    }
    <h2>Waiting</h2>
    <ul class="cards">
      ${renderPending(backlog)} ${renderQuarantine(backlog)}
    </ul>
    <h2 id="more">More</h2>
    <nav aria-labelledby="more">
      <ul>
        <li><a href="/ops/queues">Queues</a></li>
        <li><a href="/readyz?verbose">Readiness</a></li>
      </ul>
    </nav>
    <p class="dim">Ages are by the database's clock; safe through is a time of the provider's.</p>`;
  return renderPage({ title: "Overview", body, viewer });
}

/** What the page says when the database, which it is about, does not answer. */
export function renderUnavailable(): string {
  const body = html`<h1>No database</h1>
    <p>${renderAlert("The database does not answer, so nothing can be said of the mirror.")}</p>
    <p><a href="/ops">Try again</a> · <a href="/readyz?verbose">Readiness</a></p>`;
  return renderPage({ title: "No database", body });
}

function renderSource(source: SourceState): Html {
  return html`<li>
    <h3>${source.sourceId} <span class="dim">${source.mode} mode</span></h3>
    <dl>
      <dt>Every change is here up to (safe through)</dt>
      <dd>${renderSafeThrough(source)}</dd>
      <dt>Last poll</dt>
      <dd>${renderPoll(source)}</dd>
      <dt>Last poll error, all time</dt>
      <dd>${renderError(source)}</dd>
    </dl>
  </li> `;
}

function renderSafeThrough({ safeThrough, safeThroughAgeSeconds }: SourceState): Html {
  if (safeThrough === null) return html`not known yet`;
  return html`${renderTime(formatInstant(safeThrough, 0))} · ${describeAge(safeThroughAgeSeconds)}`;
}

function renderPoll({ pollStartedAgeSeconds: started, pollEndedAgeSeconds: ended }: SourceState): Html {
  if (started === null && ended === null) return html`never`;
  const running = started !== null && (ended === null || started < ended);
  const end = ended === null ? html`none has ended` : html`ended ${describeAge(ended)}`;
  return running ? html`${end}, one more started ${describeAge(started)}` : end;
}

function renderError({ lastError, lastErrorAgeSeconds }: SourceState): Html {
  if (lastError === null) return html`none`;
  return html`${renderAlert(lastError)} · ${describeAge(lastErrorAgeSeconds)}`;
}

function renderPending({ pending, oldestPendingAgeSeconds: age }: Backlog): Html {
  const oldest = age === null ? "nothing waits" : `the oldest came ${describeAge(age)}`;
  return html`<li>
    <p class="number">${describeCount(pending)}</p>
    <p>events without a decision: ${oldest}</p>
    <p class="dim">now, all sources</p>
  </li> `;
}

function renderQuarantine({ quarantined }: Backlog): Html {
  const count = describeCount(quarantined);
  return html`<li>
    <p class="number">${quarantined === 0 ? count : renderAlert(count)}</p>
    <p>in quarantine: could not be applied and need a person</p>
    <p class="dim">open, all time, all sources</p>
  </li> `;
}
