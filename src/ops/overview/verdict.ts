import type { Holding } from "../../health/judge.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import type { Mood } from "../html/page.ts";
import { describeAge, describeSpan, renderSentence, secondsSince, sourceQuery } from "./phrases.ts";
import { renderAlert, renderGood, renderTime, renderWarning } from "../../html/marks.ts";
import type { Overview } from "./readOverview.ts";
import { renderRemedy } from "../remedies/remedies.ts";
import { answerQuestions } from "./tiles.ts";

/** The one line that answers whether anybody is needed, with the button that helps; it stays in sight. */
export function renderVerdict(overview: Overview, viewer: Viewer): Html {
  const { holding, beginning, sources } = overview;
  const [worst, ...others] = holding;
  const mood = moodOf(overview);
  if (worst === undefined)
    return html`<p class="verdict-line ${mood}">
      ${beginning[0] === undefined ? renderNoTrouble(overview) : renderBeginning(beginning[0], overview)}
    </p>`;
  const more = others.length !== 0 && html` <a href="#troubles">and ${others.length} more</a>`;
  return html`<p class="verdict-line ${mood}">
    ${renderCause(worst)} <span class="dim">for ${describeHeld(worst, overview)}</span>${more}
    ${renderRemedy(worst, { standing: findStanding(sources, worst), viewer })}
  </p>`;
}

/** The same without ages, which change all the time: for screen readers, and for the title of the tab. */
export function sayVerdict(overview: Overview): string {
  const { holding, beginning, sources } = overview;
  const [worst] = holding;
  if (worst !== undefined)
    return holding.length === 1 ? worst.cause : `${holding.length} problems: ${worst.cause}`;
  if (beginning[0] !== undefined) return `Not a problem yet: ${beginning[0].cause}`;
  if (sources.length === 0) return "No source";
  if (sources.some(({ standing }) => standing.safeThrough === null)) return "Starting";
  const unsure = answerQuestions(overview).find(({ mood }) => mood !== "good");
  return unsure === undefined ? "All good" : `${unsure.question} ${unsure.words}`;
}

/** The worst answer's mood: the verdict is as good as its tiles. */
export function moodOf(overview: Overview): Mood {
  const moods = answerQuestions(overview).map(({ mood }) => mood);
  return (["critical", "warning", "neither"] as const).find((mood) => moods.includes(mood)) ?? "good";
}

function renderBeginning(beginning: Holding, overview: Overview): Html {
  const { condition, cause } = beginning;
  return html`<strong><span aria-hidden="true">…</span> Not a problem yet:</strong> ${renderSentence(cause)}
    <span class="dim"
      >for ${describeHeld(beginning, overview)}; reported after ${describeSpan(condition.forSeconds)}</span
    >`;
}

function renderNoTrouble(overview: Overview): Html {
  const { sources, now } = overview;
  const unproved = sources.filter(({ standing }) => standing.safeThrough === null);
  if (sources.length === 0) return html`No source is configured yet.`;
  if (unproved.length > 0) {
    const names = unproved.map(({ standing }) => standing.sourceId).join(", ");
    return html`<strong><span aria-hidden="true">…</span> Starting:</strong> ${names} not verified yet.`;
  }
  const unsure = answerQuestions(overview).find(({ mood }) => mood !== "good");
  if (unsure !== undefined)
    return html`<strong><span aria-hidden="true">…</span> ${unsure.question} ${unsure.words}:</strong>
      ${unsure.detail}.`;
  const safe = sources.map(({ standing }) => standing.safeThrough ?? now);
  const earliest = safe.reduce((least, each) => (each < least ? each : least));
  const exact = formatInstant(earliest);
  const age = describeAge(secondsSince(now, earliest));
  return html`${renderGood("All good.")} Complete up to
    <time datetime="${exact}" title="${exact}">${formatInstant(earliest, 0).slice(11, 16)}</time> (${age}).`;
}

const describeHeld = ({ since }: Holding, { now }: Overview) => describeSpan(secondsSince(now, since) ?? 0);

const findStanding = (sources: Overview["sources"], { condition, subject }: Holding) =>
  condition.label === "source"
    ? sources.find(({ standing }) => standing.sourceId === subject)?.standing
    : undefined;

const renderCause = ({ condition, cause }: Holding): Html =>
  condition.severity === "critical"
    ? renderAlert(renderSentence(cause))
    : renderWarning(renderSentence(cause));

/** The conditions that hold, the most urgent first, each with its remedy and what can be done from here. */
export function renderTroubles({ holding, now, sources }: Overview, viewer: Viewer): Html {
  if (holding.length === 0) return html``;
  return html`<ul class="plain troubles" id="troubles" aria-label="What is wrong">
    ${holding.map((each) => {
      const { condition, subject, since, remedy } = each;
      const { severity, page, label, name } = condition;
      const address =
        label === "source" && page !== "/readyz?verbose" ? `${page}${sourceQuery(subject)}` : page;
      return html`<li class="${severity}" data-condition="${name}">
        ${renderCause(each)} <a href="${address}">Details</a>
        <span class="dim"
          >Since ${renderTime(formatInstant(since, 0))} (${describeSpan(secondsSince(now, since) ?? 0)}).
          ${renderSentence(remedy)}</span
        >
        ${renderRemedy(each, { standing: findStanding(sources, each), viewer })}
      </li> `;
    })}
  </ul>`;
}
