import { isUpToDate, judgeFreshness } from "../../health/freshness.ts";
import { describeCount as countNouns } from "../../health/condition.ts";
import type { Area } from "../../health/condition.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Mood } from "../html/page.ts";
import type { Overview, SourceView } from "./overview.sql.ts";
import {
  describeAge,
  describeBoundedCount,
  describeCount,
  describeSpan,
  secondsSince,
  pageOf,
} from "./phrases.ts";

/** The answer to one of the four questions. */
export interface Answer {
  readonly question: string;
  readonly mood: Mood;
  /** A few words that are the answer. */
  readonly words: string;
  readonly detail: string;
  readonly address: string;
}

interface Tile {
  readonly question: string;
  /** The conditions of these areas make the answer. */
  readonly areas: readonly Area[];
  /** The answer while none of them holds or begins: good, or neither good nor bad. */
  readonly otherwise: (overview: Overview) => { readonly mood: "good" | "neither"; readonly words: string };
  readonly address: string;
  readonly detail: (overview: Overview) => string;
}

const HUNDRED = 100;

/** The answer while a condition of the area holds, and while one begins. */
const WORDS: Readonly<Record<Area, readonly [holds: string, begins: string]>> = {
  coverage: ["Not certain", "Catching up"],
  events: ["Check webhooks", "Check webhooks"],
  worker: ["Stuck", "Waiting"],
  database: ["Stuck", "Waiting"],
  quarantine: ["Some stuck", "Some stuck"],
  queue: ["Queue fails", "Queue fails"],
  outgoing: ["Outgoing stuck", "Outgoing waits"],
  provider: ["Yes, but it changed", "Yes"],
  poller: ["No", "Interrupted"],
};
/** The same for conditions about which their area says too little. */
const WORDS_OF: Readonly<Record<string, readonly [holds: string, begins: string]>> = {
  OrderMirrorClocksDisagree: ["Clocks disagree", "Clocks disagree"],
  OrderMirrorIncomplete: ["Behind", "Catching up"],
  OrderMirrorGaps: ["Not certain", "Closing a gap"],
  OrderMirrorEventsStopped: ["Webhooks stopped", ""],
  OrderMirrorWebhooksRefused: ["Webhooks refused", ""],
  OrderMirrorNoSecret: ["No secret", ""],
  OrderMirrorEventsRefused: ["Webhooks fail", "Some refused"],
  OrderMirrorEventsLost: ["Some missed", "Some missed"],
  OrderMirrorEventsLate: ["Some late", ""],
};

const good = (words: string) => ({ mood: "good", words }) as const;
const neither = (words: string) => ({ mood: "neither", words }) as const;
const sum = (sources: readonly SourceView[], of: (standing: SourceView["standing"]) => number) =>
  sources.reduce((total, { standing }) => total + of(standing), 0);

/** Seconds since the mirror was complete, of the source that is furthest behind; null: one never was. */
function worstAge({ sources, now }: Overview): number | null {
  const ages = sources.map(({ standing }) => secondsSince(now, standing.safeThrough));
  return ages.includes(null) ? null : Math.max(...ages.map(Number));
}

const TILES: readonly Tile[] = [
  {
    question: "Fresh?",
    areas: ["coverage"],
    otherwise: (overview) => {
      if (worstAge(overview) === null) return neither("Starting");
      const isFresh = overview.sources.every(({ standing }) => isUpToDate(standing));
      return isFresh ? good("Up to date") : neither("Behind");
    },
    address: "/ops/walks",
    detail: (overview) => {
      const age = worstAge(overview);
      return age === null ? "not complete yet" : `complete up to ${describeAge(age)}`;
    },
  },
  {
    question: "Lost?",
    areas: ["events"],
    otherwise: ({ sources }) => {
      const silent = sources.filter(
        ({ webhooks, standing }) => webhooks === "never-seen" && standing.hasOrders,
      );
      if (silent.length > 0) return neither(`None yet for ${nameSome(silent)}`);
      const isReceiving = sources.some(({ standing }) => standing.lastEventAt !== null);
      if (isReceiving) return good("Webhooks arrive");
      const isPolledOnly = sources.every(({ webhooks }) => webhooks === "not-configured");
      return isPolledOnly ? good("Polled only") : neither("None yet");
    },
    address: "/ops/lost",
    detail: ({ sources }) => {
      const lost = sum(sources, (standing) => standing.lost);
      const due = lost + sum(sources, (standing) => standing.announced);
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
    detail: ({ sources }) => {
      const waiting = describeBoundedCount(sum(sources, (standing) => standing.pending));
      const quarantined = describeBoundedCount(sum(sources, (standing) => standing.quarantined));
      const late = sum(sources, (standing) => standing.waitedForUs);
      const longest = Math.max(0, ...sources.map(({ standing }) => standing.waitedForUsSecondsMax));
      const waited = `; in 24 h ${countNouns(late, "event")} waited for a worker, up to ${describeSpan(longest)}`;
      return `${waiting} waiting, ${quarantined} in quarantine${late === 0 ? "" : waited}`;
    },
  },
  {
    question: "Able to catch up?",
    areas: ["poller", "provider"],
    otherwise: (overview) => {
      // As the pages of orders say, before a condition holds.
      const areAllRead = overview.sources.every(({ standing }) => judgeFreshness(standing).why === null);
      if (!areAllRead) return neither("Interrupted");
      return areEventsWaiting(overview) ? neither("Has a backlog") : good("Yes");
    },
    address: "/ops/requests",
    detail: (overview) => {
      const parts = listBacklog(overview);
      const shares = overview.sources.map(({ listReads: { sent, allowed } }) => sent / allowed);
      const free = Math.max(0, HUNDRED - Math.ceil(Math.max(0, ...shares) * HUNDRED));
      const more = parts.length > 2 ? ` and ${parts.length - 2} more` : "";
      const backlog = parts.length === 0 ? "no backlog" : `backlog: ${parts.slice(0, 2).join(", ")}${more}`;
      return `${backlog}; ${free} % of the request rate free`;
    },
  },
];

function nameSome(sources: readonly SourceView[]): string {
  const names = sources.slice(0, 3).map(({ standing }) => standing.sourceId);
  return (
    names.join(", ") + (sources.length > names.length ? ` and ${sources.length - names.length} more` : "")
  );
}

/** The four answers, from the conditions that hold or begin. */
export function answerQuestions(overview: Overview): Answer[] {
  return TILES.map(({ question, areas, otherwise, address, detail }) => {
    const isIts = ({ condition }: Overview["holding"][number]) => areas.includes(condition.area);
    const worst = overview.holding.find(isIts);
    const first = worst ?? overview.beginning.find(isIts);
    const common = { question, address, detail: detail(overview) };
    if (first === undefined) return { ...common, ...otherwise(overview) };
    const { condition, subject } = first;
    const words = (WORDS_OF[condition.name] ?? WORDS[condition.area])[worst === undefined ? 1 : 0];
    const mood = worst?.condition.severity ?? "neither";
    // The free rate says nothing while nobody can use it, and neither does "none missed" while none can arrive.
    const isFigureIdle = condition.area === "events" && sum(overview.sources, ({ lost }) => lost) === 0;
    const isSaid = condition.area === "poller" || isFigureIdle;
    const why = isSaid ? `${subject}: ${condition.measures}` : common.detail;
    return { ...common, mood, words, detail: why, address: pageOf(first) };
  });
}

const SYMBOL: Readonly<Record<Mood, string>> = { good: "✔", warning: "▲", critical: "✖", neither: "…" };

/** The answers as tiles, whose colour and words say all. */
export function renderTiles(overview: Overview): Html {
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
/** The newest minutes are proved later anyway; only what is older is behind. */
const BEHIND_SECONDS = 900;

function areEventsWaiting({ sources, now }: Overview): boolean {
  return sources.some(
    ({ standing }) => (secondsSince(now, standing.oldestPendingAt) ?? 0) >= BACKLOG_SECONDS,
  );
}

/** What is left to do, in words. */
function listBacklog(overview: Overview): string[] {
  const { sources, now } = overview;
  const waiting = sum(sources, ({ pending }) => pending);
  const reads = sources.flatMap(({ standing, tasks }) => {
    const { sourceId, safeThrough, historySince } = standing;
    const behind = secondsSince(now, safeThrough ?? historySince) ?? 0;
    const changes = behind < BEHIND_SECONDS ? [] : [`${describeSpan(behind)} of changes of ${sourceId}`];
    return [...changes, ...tasks.map(({ kind, id }) => `${kind} ${id}`)];
  });
  return areEventsWaiting(overview) ? [countNouns(waiting, "event"), ...reads] : reads;
}
