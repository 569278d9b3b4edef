import type { Area } from "../../health/condition.ts";
import type { Holding } from "../../health/judge.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderAlert, renderGood, renderTime, renderWarning } from "../../html/parts.ts";
import type { Viewer } from "../auth/viewer.ts";
import type { Mood } from "../html/page.ts";
import { answerQuestions } from "./answers.ts";
import type { Overview } from "./overview.sql.ts";
import { describeAge, describeSpan, pageOf, renderSentence, secondsSince } from "./phrases.ts";
import { renderRemedy } from "./remedies.sql.ts";

/** More problems than this are counted: one cause makes the same problem for every source. */
const SHOWN_MAX = 20;

const OURS = "On our side";
const PROVIDERS = "At the provider";
const BETWEEN = "Between us and the provider";

/** Where the cause is, as far as it can be known from here: whom to call. */
const PLACES: Readonly<Record<Area, string>> = {
  database: OURS,
  queue: OURS,
  worker: OURS,
  poller: OURS,
  provider: PROVIDERS,
  events: BETWEEN,
  coverage: BETWEEN,
  quarantine: BETWEEN,
  outgoing: "Between us and your endpoint",
};
/** The same for conditions about which their area says too little, or something false. */
const PLACES_OF: Readonly<Record<string, string>> = {
  OrderMirrorEventsRefused: OURS,
  OrderMirrorNoSecret: OURS,
  OrderMirrorListIncomplete: PROVIDERS,
  OrderMirrorProviderAway: "At the provider, or on the way to it",
  OrderMirrorKeyRefused: BETWEEN,
  OrderMirrorRateLimited: BETWEEN,
  OrderMirrorPollFailing: BETWEEN,
};

/**
 * Whether anybody is needed: the most urgent problem, whole, with what to do; it stays in sight. Each problem stands on
 * the page once: the others follow the tiles.
 */
export function renderVerdict(overview: Overview, viewer: Viewer): Html {
  const [worst, ...others] = overview.holding;
  if (worst === undefined)
    return html`<div class="verdict ${moodOf(overview)}"><p>${renderNoTrouble(overview)}</p></div>`;
  const more = others.length !== 0 && html` <a href="#problems">and ${others.length} more</a>`;
  return renderProblem(worst, { overview, viewer, more });
}

/** The other problems, and what may become one. */
export function renderProblems(overview: Overview, viewer: Viewer): Html {
  const [, ...others] = overview.holding;
  const watched = overview.holding.length === 0 ? overview.beginning.slice(1) : overview.beginning;
  if (others.length + watched.length === 0) return html``;
  const left = others.length - SHOWN_MAX;
  return html`<section id="problems" aria-label="What else is wrong">
    ${others.slice(0, SHOWN_MAX).map((each) => renderProblem(each, { overview, viewer, more: false }))}
    ${left > 0 && html`<p>and ${left} more, on the <a href="#sources">sources' pages</a></p>`}
    ${watched.slice(0, SHOWN_MAX).map((each) => html`<p class="dim">${renderBeginning(each, overview)}</p>`)}
  </section>`;
}

/** The verdict without ages, which change all the time: for screen readers, and for the title of the tab. */
export function sayVerdict(overview: Overview): string {
  const { holding, beginning, sources } = overview;
  const [worst] = holding;
  if (worst !== undefined)
    return holding.length === 1 ? worst.cause : `${holding.length} problems: ${worst.cause}`;
  if (beginning[0] !== undefined) return `Watching: ${beginning[0].cause}`;
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

/** What is wrong, where, since when, and what to do. */
function renderProblem(
  problem: Holding,
  { overview, viewer, more }: { overview: Overview; viewer: Viewer; more: Html | false },
): Html {
  const { condition, since, cause, remedy } = problem;
  const { severity, name, area } = condition;
  const sentence = renderSentence(cause);
  return html`<div class="${severity}" data-condition="${name}">
    <p class="cause">${severity === "critical" ? renderAlert(sentence) : renderWarning(sentence)}${more}</p>
    <p>
      <strong>${PLACES_OF[name] ?? PLACES[area]}</strong>
      <span class="nowrap">since ${renderTime(formatInstant(since, 0))}</span>
      (${describeHeld(problem, overview)}). ${renderSentence(remedy)} <a href="${pageOf(problem)}">Details</a>
    </p>
    ${renderRemedy(problem, viewer)}
  </div>`;
}

function renderBeginning(beginning: Holding, overview: Overview): Html {
  const { condition, cause } = beginning;
  return html`<strong><span aria-hidden="true">…</span> Watching:</strong> ${renderSentence(cause)}
    <span class="dim"
      >for ${describeHeld(beginning, overview)}; alerts at
      ${describeSpan(condition.forSeconds).replace(/\u00a00\u00a0s$|\s0\u00a0s$/, "")}</span
    >`;
}

function renderNoTrouble(overview: Overview): Html {
  const { sources, now, beginning } = overview;
  if (beginning[0] !== undefined) return renderBeginning(beginning[0], overview);
  const unproved = sources.filter(({ standing }) => standing.safeThrough === null);
  if (sources.length === 0) return html`No source is configured yet.`;
  if (unproved.length > 0) {
    const names = unproved.slice(0, 3).map(({ standing }) => standing.sourceId);
    const more = unproved.length > names.length ? ` and ${unproved.length - names.length} more` : "";
    return html`<strong><span aria-hidden="true">…</span> Starting:</strong> ${names.join(", ")}${more} not
      verified yet.`;
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
