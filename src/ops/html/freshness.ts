import type { Standing } from "../../health/standing.sql.ts";
import { judgeFreshness } from "../../health/freshness.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderMinute, renderWarning } from "../../html/parts.ts";
import { describeAge, describeSpan, secondsSince } from "../overview/phrases.ts";

/** More sources with old data than this are counted. */
const NAMED_MAX = 3;

/** How far the data on a page reaches, for everybody: of each source that is behind, why and since when. */
export function renderFreshness(sources: readonly Standing[]): Html {
  if (sources.length === 0) return html``;
  const old = sources.filter((source) => judgeFreshness(source).isOld);
  const named = old
    .slice(0, NAMED_MAX)
    .map((source) => html`<li>${renderOld(source, sources.length > 1)}</li> `);
  const more =
    old.length > named.length &&
    html`<li>and of ${old.length - named.length} more <a href="/ops#sources">sources</a></li>`;
  return html`<div class="freshness" role="status">
    ${
      old.length === 0
        ? renderUpToDate(sources)
        : html`<ul class="plain">
            ${named}${more}
          </ul>`
    }
  </div>`;
}

function renderOld(source: Standing, isNamed: boolean): Html {
  const { upTo, why, since } = judgeFreshness(source);
  const of = isNamed ? ` of ${source.sourceId}` : "";
  const data =
    upTo === null
      ? html`Nothing${of} was read from the provider yet.`
      : html`Data${of} up to ${renderMinute(upTo)}.`;
  const span = since === null ? "" : ` (${describeSpan(secondsSince(source.now, since) ?? 0)})`;
  const from = since === null ? html`` : html` since ${renderMinute(since)}${span}`;
  return renderWarning(html`${data} ${why !== null && html`${why}${from}.`}`);
}

function renderUpToDate(sources: readonly Standing[]): Html {
  const [first, ...others] = sources
    .map((source) => ({ source, upTo: judgeFreshness(source).upTo ?? source.createdAt }))
    .toSorted((one, other) => (one.upTo < other.upTo ? -1 : 1));
  if (first === undefined) return html``;
  const { source, upTo } = first;
  const all = others.length === 0 ? "" : ` of all ${sources.length} sources`;
  return html`<span class="dim"
    >Data${all} up to ${renderMinute(upTo)} (${describeAge(secondsSince(source.now, upTo))}).</span
  >`;
}
