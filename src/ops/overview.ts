import { Router } from "express";
import type { Pool } from "../database/database.ts";
import { describeAge, describeChosenSpan, describeSpan, secondsSince } from "../domain/duration.ts";
import { formatInstant } from "../domain/order/instant.ts";
import type { RateRule } from "../domain/window/rate.ts";
import { readRateUsed } from "../health/calls.sql.ts";
import { describeCount as countNouns, SOURCE_PAGE, type Area } from "../health/conditions/condition.ts";
import type { Standing } from "../health/conditions/standing.ts";
import { describeWebhooks } from "../health/conditions/webhookCalls.sql.ts";
import { isUpToDate, judgeFreshness } from "../health/freshness.ts";
import type { Health, HealthReader } from "../health/health.ts";
import {
  describeLasted,
  describeRecorded,
  groupProblems,
  type Holding,
  type Problem,
} from "../health/judge.ts";
import { sourceAddress, sourceQuery } from "../health/pageAddresses.ts";
import { html, type Html } from "../html/html.ts";
import {
  numberColumn,
  renderAlert,
  renderGood,
  renderMinute,
  renderTable,
  renderTime,
  renderWarning,
} from "../html/parts.ts";
import type { Clock } from "../process/clock.ts";
import { shareReading } from "../process/shareReading.ts";
import { sendPage, viewerOf, type Mood, type Page, type Viewer } from "./page.ts";
import { describeBoundedCount, describeCount, renderFirstSteps, renderSentence } from "./phrases.ts";
import { renderRemedy } from "./remedies.ts";

// What the overview says: first the verdict, which is the most urgent problem, then four questions with an answer each,
// then the other problems, then the sources. All of it is from the conditions that `health` judges, so nothing
// contradicts anything else. Start at `makeOverviewRoutes`.

/** Content of the overview. */
export interface Overview extends Health {
  /** Share of our rate of order lists that was used lately, 0 to 1, by source; absent: nothing. */
  readonly rateUsed: ReadonlyMap<string, number>;
}

export interface OverviewDeps {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly health: HealthReader;
  /** Our rate of order lists. */
  readonly listRate: RateRule;
}

/** The database is queried at most this often, however many tabs are open. */
const HOLD_MS = 4_000;
/** The overview. It rejects with the database's error. */
export function makeOverviewRoutes({ pool, clock, health, listRate }: OverviewDeps): Router {
  const readUse = shareReading(() => readRateUsed(pool, listRate), { clock, holdMs: HOLD_MS });
  return Router().get("/", async (_request, response) => {
    const overview = { ...(await health.read()), rateUsed: await readUse() };
    sendPage(response, renderOverview(overview, viewerOf(response)));
  });
}

/** Renders one screen: fresh? lost? stuck? able to catch up? with a line for each source. @internal */
export function renderOverview(overview: Overview, viewer: Viewer): Page {
  const { title, verdict, others } = renderVerdict(overview, viewer);
  const body = html`<h1>Overview</h1>
    <p id="verdict-words" class="hidden-text" role="status" data-live>${title}</p>
    <div id="verdict" data-live>${verdict}</div>
    <div id="state" data-live>${renderState(overview, others)}</div>
    <p class="dim">Ages use the database's clock; “complete up to” uses the provider's.</p>`;
  return { title, body, section: "overview", live: true, mood: moodOf(overview) };
}

function renderState(overview: Overview, problems: Html): Html {
  if (overview.facts.sources.length === 0)
    return html`<p class="empty">No source is configured yet. Set DELIVERY_LIVE_API_KEY or SOURCES_FILE.</p>`;
  return html`${renderTiles(overview)}${problems} ${renderFirstSteps(overview.facts.sources)}
  ${renderResolved(overview)}${renderSources(overview)}`;
}

const WEBHOOKS: Readonly<Record<ReturnType<typeof describeWebhooks>, string | Html>> = {
  "not-configured": "polled only",
  "never-seen": "never arrived",
  working: "working",
  losing: "some missed",
  stopped: renderAlert("stopped"),
  refused: renderAlert("all refused"),
  "without-secret": renderAlert("no secret"),
};

/** Trends and all figures of a source are on its page. */
function renderSources({ facts, rateUsed }: Overview): Html {
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
      rows: facts.sources.map((source) => {
        const { sourceId, safeThrough, lost, pending, quarantined } = source;
        return [
          html`<a class="name" href="${sourceAddress(sourceId)}">${sourceId}</a>`,
          safeThrough === null ? "not yet" : link("walks", sourceId, renderMinute(safeThrough)),
          WEBHOOKS[describeWebhooks(source)],
          link("lost", sourceId, describeCount(lost)),
          link("waiting", sourceId, describeCount(pending)),
          link("quarantine", sourceId, describeBoundedCount(quarantined)),
          link("calls", sourceId, `${Math.ceil((rateUsed.get(sourceId) ?? 0) * HUNDRED)} %`),
        ];
      }),
    })}`;
}

/** Question of the overview, with its answer. */
interface Tile {
  readonly question: string;
  /** The conditions of these areas make the answer. */
  readonly areas: readonly Area[];
  /** The answer while none of them holds or begins: good, or neither good nor bad. */
  readonly otherwise: (overview: Overview) => { readonly mood: Mood; readonly words: string };
  readonly address: string;
  readonly detail: (overview: Overview) => string;
}

const HUNDRED = 100;
const good = (words: string) => ({ mood: "good", words }) as const;
const neither = (words: string) => ({ mood: "neither", words }) as const;
const sum = ({ facts }: Overview, of: (source: Standing) => number) =>
  facts.sources.reduce((total, source) => total + of(source), 0);

/** Seconds since the mirror was complete, of the source that is furthest behind; null: one never was. */
function worstAge({ facts }: Overview): number | null {
  const ages = facts.sources.map(({ safeThrough }) => secondsSince(facts.now, safeThrough));
  return ages.includes(null) ? null : Math.max(...ages.map(Number));
}

/** Says beside the age of the data which part of it is waited for on purpose, at the source that is furthest behind. */
function sayMargin({ facts }: Overview): string {
  const earliest = facts.sources.toSorted((one, other) =>
    Number((one.safeThrough ?? 0n) - (other.safeThrough ?? 0n)),
  )[0];
  const seconds = earliest?.marginSeconds ?? null;
  // After it was raised, the data are for a while younger than that.
  const age = earliest === undefined ? null : secondsSince(facts.now, earliest.safeThrough);
  return seconds === null || age === null || age < seconds
    ? ""
    : `; ${describeChosenSpan(seconds)} of it are the margin`;
}

const TILES: readonly Tile[] = [
  {
    question: "Fresh?",
    areas: ["coverage"],
    otherwise: (overview) => {
      if (worstAge(overview) === null) return neither("Starting");
      // The promise is the age of the data, whatever the reason is.
      if (overview.facts.sources.some(isStale)) return { mood: "warning", words: "Data is old" };
      return overview.facts.sources.every(isUpToDate) ? good("Up to date") : neither("Behind");
    },
    address: "/ops/walks",
    detail: (overview) => {
      const age = worstAge(overview);
      return age === null
        ? "not complete yet"
        : `complete up to ${describeAge(age)}${describeExceptions(overview)}${sayMargin(overview)}`;
    },
  },
  {
    question: "Lost?",
    areas: ["events"],
    otherwise: ({ facts: { sources } }) => {
      const silent = sources.filter(
        (source) => source.hasOrders && describeWebhooks(source) === "never-seen",
      );
      if (silent.length > 0) return neither(`No webhook of ${nameSome(silent)} yet`);
      // Only reads show whether an event is missing.
      if (sources.some((source) => judgeFreshness(source).isOld)) return neither("Not known now");
      if (sources.some(({ lastEventAt }) => lastEventAt !== null)) return good("Webhooks arrive");
      const isPolledOnly = sources.every((source) => describeWebhooks(source) === "not-configured");
      return isPolledOnly ? good("Polled only") : neither("No webhook yet");
    },
    address: "/ops/lost",
    detail: (overview) => {
      const lost = sum(overview, (source) => source.lost);
      const due = lost + sum(overview, ({ announced }) => announced);
      if (due === 0) return "none expected in 24 h";
      return lost === 0
        ? `none of ${describeCount(due)} missed in 24 h`
        : `${describeCount(lost)} of ${describeCount(due)} missed in 24 h, repaired`;
    },
  },
  {
    question: "Stuck?",
    areas: ["worker", "quarantine", "queue", "database", "outgoing"],
    otherwise: () => good("Nothing stuck"),
    address: "/ops/waiting",
    detail: (overview) => {
      const waiting = describeBoundedCount(sum(overview, ({ pending }) => pending));
      const quarantined = describeBoundedCount(sum(overview, (source) => source.quarantined));
      return `${waiting} waiting, ${quarantined} in quarantine`;
    },
  },
  {
    question: "Able to catch up?",
    areas: ["poller"],
    otherwise: (overview) => {
      // As the pages of orders say, before a condition holds.
      const areAllRead = overview.facts.sources.every((source) => judgeFreshness(source).why === null);
      if (!areAllRead) return neither("Interrupted");
      return areEventsWaiting(overview) ? neither("Has a backlog") : good("Yes");
    },
    address: "/ops/calls",
    detail: (overview) => {
      const waiting = sum(overview, ({ pending }) => pending);
      const backlog = areEventsWaiting(overview) ? `backlog: ${countNouns(waiting, "event")}` : "no backlog";
      const free = 1 - Math.min(1, Math.max(0, ...overview.rateUsed.values()));
      return `${backlog}; ${Math.floor(free * HUNDRED)} % of the request rate free`;
    },
  },
];

/** Nothing was read for so long that merchants decide on what is no longer so, in seconds. */
const STALE_SECONDS = 600;

/** Whether data is old although polls were due; a pause is a person's decision, which a condition names. */
function isStale(source: Standing): boolean {
  const { isOld, upTo } = judgeFreshness(source);
  return (
    isOld && source.pausedAt === null && secondsSince(source.now, upTo ?? source.createdAt) > STALE_SECONDS
  );
}

function nameSome(sources: readonly Standing[]): string {
  const names = sources.slice(0, 3).map(({ sourceId }) => sourceId);
  const more = sources.length - names.length;
  return names.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** The four answers, from the conditions that hold or begin. */
function answerQuestions(overview: Overview) {
  return TILES.map(({ question, areas, otherwise, address, detail }) => {
    const isIts = ({ condition }: Overview["holding"][number]) => areas.includes(condition.area);
    const worst = overview.holding.find(isIts);
    const first = worst ?? overview.beginning.find(isIts);
    const common = { question, address, detail: detail(overview) };
    if (first === undefined) return { ...common, ...otherwise(overview) };
    const { condition, subject } = first;
    const problem = groupProblems([first])[0];
    const mood: Mood = worst?.condition.severity ?? "neither";
    // The free rate says nothing while nobody can use it, and neither does "none missed" while none can arrive.
    const isFigureIdle = condition.area === "events" && sum(overview, ({ lost }) => lost) === 0;
    const isSaid = condition.area === "poller" || isFigureIdle;
    const why = isSaid ? `${subject}: ${condition.measures}` : common.detail;
    return {
      ...common,
      mood,
      words: condition.answer,
      detail: why,
      address: problem === undefined ? address : pageOf(problem),
    };
  });
}

const SYMBOL: Readonly<Record<Mood, string>> = { good: "✔", warning: "▲", critical: "✖", neither: "…" };

/** The answers as tiles, whose colour and words say all. */
function renderTiles(overview: Overview): Html {
  return html`<ul class="tiles">
    ${answerQuestions(overview).map(
      ({ question, mood, words, detail, address }) =>
        html`<li class="${mood}">
          <h2>${question}</h2>
          <p class="answer">
            <a href="${address}"><span aria-hidden="true">${SYMBOL[mood]}</span> ${words}</a>
          </p>
          <p class="dim">${detail}</p>
        </li> `,
    )}
  </ul>`;
}

/** Younger events are in flight rather than a backlog. */
const BACKLOG_SECONDS = 10;

function areEventsWaiting({ facts: { now, sources } }: Overview): boolean {
  return sources.some(({ oldestPendingAt }) => (secondsSince(now, oldestPendingAt) ?? 0) >= BACKLOG_SECONDS);
}

/** Lists what is wrong, the most urgent first, then what may become so. */
function listProblems({ holding, beginning }: Overview): Shown[] {
  const begun = groupProblems(beginning).map((problem) => ({ ...problem, isBeginning: true }));
  return [...groupProblems(holding).map((problem) => ({ ...problem, isBeginning: false })), ...begun];
}

interface Shown extends Problem {
  /** Whether the problem has not held for long enough to be reported. */
  readonly isBeginning: boolean;
}

/**
 * Whether anybody is needed: the most urgent problem, whole, with what to do; it stays in sight. Each problem stands on
 * the page once: the others follow the tiles. `title` says it without ages, which change all the time, for screen
 * readers and for the tab.
 */
function renderVerdict(overview: Overview, viewer: Viewer): { title: string; verdict: Html; others: Html } {
  const [worst, ...others] = listProblems(overview);
  if (worst === undefined) {
    const { title, words } = describeNoTrouble(overview);
    const verdict = html`<div class="${moodOf(overview)}"><p class="cause">${words}</p></div>`;
    return { title, verdict, others: html`` };
  }
  const many = groupProblems(overview.holding).length;
  const before = worst.isBeginning ? "Watching: " : many === 1 ? "" : `${many} problems: `;
  const more = others.length !== 0 && html` <a href="#problems">and ${others.length} more</a>`;
  return {
    title: before + worst.cause,
    verdict: renderProblem(worst, { overview, viewer, more }),
    others: html`${
      others.length > 0 &&
      html`<section id="problems" aria-label="What else is wrong">
        ${others.map((each) => renderProblem(each, { overview, viewer, more: false }))}
      </section>`
    }`,
  };
}

/** More than these are over are older. */
const RESOLVED_MAX = 10;

/** Renders what was wrong within a day, and for how long: a repair is proved by it. */
function renderResolved({ facts: { recorded } }: Overview): Html {
  const over = recorded.filter(({ endedAt }) => endedAt !== null).slice(0, RESOLVED_MAX);
  if (over.length === 0) return html``;
  return html`<h2>Resolved within a day</h2>
    <ul class="plain" id="resolved">
      ${over.map(
        (each) =>
          html`<li>
            ${renderGood(describeRecorded(each))}
            <span class="dim">resolved ${renderMinute(each.endedAt)}, lasted ${describeLasted(each)}</span>
          </li> `,
      )}
    </ul>`;
}

/** The worst answer's mood: the verdict is as good as its tiles. */
function moodOf(overview: Overview): Mood {
  const moods = answerQuestions(overview).map(({ mood }) => mood);
  const otherwise = overview.facts.sources.length === 0 ? "neither" : "good";
  return (["critical", "warning", "neither"] as const).find((mood) => moods.includes(mood)) ?? otherwise;
}

/**
 * Renders what is wrong, whose it is, since when, and what to do, in the same words whether people were alerted already
 * or not.
 */
function renderProblem(
  problem: Shown,
  { overview, viewer, more }: { overview: Overview; viewer: Viewer; more: Html | false },
): Html {
  const { condition, since, isSeenSince, cause, remedy, holdings, isBeginning } = problem;
  const { severity, name, place, forSeconds, endsBy } = condition;
  const sentence = renderSentence(cause);
  const head = isBeginning
    ? html`<strong><span aria-hidden="true">…</span> Watching:</strong> ${sentence}`
    : severity === "critical"
      ? renderAlert(sentence)
      : renderWarning(sentence);
  const span = describeSpan(secondsSince(overview.facts.now, since));
  const alerts = isBeginning && `; alerts at ${describeChosenSpan(forSeconds)}`;
  return html`<div class="${isBeginning ? "neither" : severity}" data-condition="${isBeginning ? "" : name}">
    <p class="cause">${head}${more}</p>
    <p>
      <strong>${place}</strong>
      <span class="nowrap">${isSeenSince && "seen "}since ${renderTime(formatInstant(since, 0))}</span>
      (${span}${alerts}). ${renderSentence(remedy)}
      ${endsBy !== undefined && `It goes away by itself ${endsBy}.`}
      <a href="${pageOf(problem)}">Details</a>
    </p>
    ${holdings.length > 1 ? renderEach(holdings, viewer) : holdings.map((each) => renderRemedy(each, viewer))}
  </div>`;
}

/** Each source, endpoint or queue that a problem is about. */
function renderEach(holdings: readonly Holding[], viewer: Viewer): Html {
  return html`<details>
    <summary>All ${holdings.length}</summary>
    <ul>
      ${holdings.map((each) => html`<li>${renderSentence(each.cause)} ${renderRemedy(each, viewer)}</li> `)}
    </ul>
  </details>`;
}

/** Says how the mirror is while nothing is wrong. */
function describeNoTrouble(overview: Overview): { title: string; words: Html } {
  const { sources, now } = overview.facts;
  const waits = (title: string, words: string) => ({
    title,
    words: html`<strong><span aria-hidden="true">…</span> ${title}:</strong> ${words}.`,
  });
  const unproved = sources.filter(({ safeThrough }) => safeThrough === null);
  if (sources.length === 0) return waits("No source", "none is configured yet");
  if (unproved.length > 0) return waits("Starting", `${nameSome(unproved)} not verified yet`);
  const unsure = answerQuestions(overview).find(({ mood }) => mood !== "good");
  if (unsure !== undefined) return waits(`${unsure.question} ${unsure.words}`, unsure.detail);
  const safe = sources.map(({ safeThrough }) => safeThrough ?? now);
  const earliest = safe.reduce((least, each) => (each < least ? each : least));
  const exact = formatInstant(earliest);
  const words = html`${renderGood("All good.")} Complete up to
    <time datetime="${exact}" title="${exact}">${formatInstant(earliest, 0).slice(11, 16)}</time>
    (${describeAge(secondsSince(now, earliest))})${describeExceptions(overview)}.`;
  return { title: "All good", words };
}

/** Which orders "complete up to" leaves out. */
function describeExceptions(overview: Overview): string {
  const exceptions = sum(overview, (source) => source.exceptions);
  return exceptions === 0 ? "" : `, except for ${countNouns(exceptions, "order")}`;
}

/** The page behind a problem: of one source's problem only what concerns that source. */
function pageOf({ condition: { page, label }, holdings }: Problem): string {
  const [only, ...others] = holdings;
  const subject = others.length === 0 ? (only?.subject ?? "") : "";
  if (page === SOURCE_PAGE) return subject === "" ? "/ops#sources" : sourceAddress(subject);
  const own = sourceQuery(subject);
  return label === "source" && subject !== ""
    ? page + (page.includes("?") ? own.replace("?", "&") : own)
    : page;
}
