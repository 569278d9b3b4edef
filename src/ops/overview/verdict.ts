import type { Holding } from "../../health/judge.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Mood } from "../html/page.ts";
import {
  describeAge,
  describeSpan,
  renderAlert,
  renderGood,
  renderInstant,
  renderSentence,
  renderWarning,
  secondsSince,
  sourceQuery,
} from "./phrases.ts";
import type { Overview } from "./readOverview.ts";
import { renderRemedy } from "./remedies.ts";

/** The one line that answers whether anybody is needed; it stays in sight. */
export function renderVerdict(overview: Overview): Html {
  const { holding, now } = overview;
  const [worst, ...others] = holding;
  if (worst === undefined)
    return html`<p class="verdict-line ${moodOf(overview)}">${renderNoTrouble(overview)}</p>`;
  const since = describeSpan(secondsSince(now, worst.since) ?? 0);
  const more = others.length === 0 ? html`` : html` <a href="#troubles">and ${others.length} more</a>`;
  return html`<p class="verdict-line ${moodOf(overview)}">
    ${renderCause(worst)} <span class="dim">for ${since}</span>${more}
  </p>`;
}

/** The same without ages, which change all the time: for screen readers, and for the title of the tab. */
export function sayVerdict({ sources, holding }: Overview): string {
  const [worst] = holding;
  if (worst !== undefined)
    return holding.length === 1 ? worst.cause : `${holding.length} problems: ${worst.cause}`;
  return sources.some(({ standing }) => standing.safeThrough === null) ? "Starting" : "All good";
}

export function moodOf({ holding }: Overview): Mood {
  return holding[0]?.condition.severity ?? "good";
}

function renderNoTrouble({ sources, now }: Overview): Html {
  const unproved = sources.filter(({ standing }) => standing.safeThrough === null);
  if (sources.length === 0) return html`No source is configured yet.`;
  if (unproved.length > 0) {
    const names = unproved.map(({ standing }) => standing.sourceId).join(", ");
    return html`<span class="warn">Starting</span>: ${names} not verified yet.`;
  }
  const safe = sources.map(({ standing }) => standing.safeThrough ?? now);
  const earliest = safe.reduce((least, each) => (each < least ? each : least));
  const exact = formatInstant(earliest);
  const age = describeAge(secondsSince(now, earliest));
  return html`${renderGood("All good.")} Complete up to
    <time datetime="${exact}" title="${exact}">${formatInstant(earliest, 0).slice(11, 16)}</time> (${age}).`;
}

const renderCause = ({ condition, cause }: Holding): Html =>
  condition.severity === "critical" ? renderAlert(cause) : renderWarning(cause);

/** The conditions that hold, the most urgent first, each with its remedy and what can be done from here. */
export function renderTroubles({ holding, now, sources }: Overview): Html {
  if (holding.length === 0) return html``;
  return html`<ul class="plain troubles" id="troubles" aria-label="What is wrong">
    ${holding.map((each) => {
      const { condition, subject, since, remedy } = each;
      const { severity, page, label, name } = condition;
      const address =
        label === "source" && page !== "/readyz?verbose" ? `${page}${sourceQuery(subject)}` : page;
      const standing = sources.find((source) => source.standing.sourceId === subject)?.standing;
      return html`<li class="${severity}" data-condition="${name}">
        ${renderCause(each)} <a href="${address}">Details</a>
        <span class="dim"
          >Since ${renderInstant(since)} (${describeSpan(secondsSince(now, since) ?? 0)}).
          ${renderSentence(remedy)}</span
        >
        ${standing === undefined ? html`` : renderRemedy(name, standing)}
      </li> `;
    })}
  </ul>`;
}
