import type { Area } from "../../health/condition.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeAge, describeBoundedCount, describeCount, secondsSince } from "./phrases.ts";
import type { Overview, SourceView } from "./readOverview.ts";

interface Tile {
  readonly question: string;
  /** The conditions of these areas make the answer. */
  readonly areas: readonly Area[];
  readonly good: string;
  readonly bad: string;
  /** The answer while no condition holds and yet it is not good; undefined: it is good. */
  readonly between?: (overview: Overview) => string | undefined;
  readonly address: string;
  readonly detail: (overview: Overview) => string;
}

const HUNDRED = 100;

const sum = (sources: readonly SourceView[], of: (standing: SourceView["standing"]) => number) =>
  sources.reduce((total, { standing }) => total + of(standing), 0);

/** The delayed sweep proves what is a few minutes old; longer than this means that something is being caught up. */
const FRESH_SECONDS = 900;

/** Seconds since the mirror was complete, of the source that is furthest behind; null: one never was. */
function worstAge({ sources, now }: Overview): number | null {
  const ages = sources.map(({ standing }) => secondsSince(now, standing.safeThrough));
  return ages.includes(null) ? null : Math.max(...ages.map(Number));
}

const TILES: readonly Tile[] = [
  {
    question: "Fresh?",
    areas: ["coverage", "poller"],
    good: "Up to date",
    bad: "Behind",
    between: (overview) => {
      const age = worstAge(overview);
      if (age === null) return "Starting";
      return age > FRESH_SECONDS ? "Catching up" : undefined;
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
    good: "Webhooks arrive",
    bad: "Webhooks fail",
    address: "/ops/lost",
    detail: ({ sources }) => {
      const lost = sum(sources, (standing) => standing.lost);
      const due = lost + sum(sources, (standing) => standing.announced);
      if (due === 0) return "none was due in 24 h";
      return `${describeCount(lost)} of ${describeCount(due)} missed in 24 h, repaired`;
    },
  },
  {
    question: "Stuck?",
    areas: ["worker", "quarantine", "queue", "database", "outgoing"],
    good: "Nothing stuck",
    bad: "Stuck",
    address: "/ops/waiting",
    detail: ({ sources }) => {
      const waiting = describeBoundedCount(sum(sources, (standing) => standing.pending));
      const quarantined = describeBoundedCount(sum(sources, (standing) => standing.quarantined));
      return `${waiting} waiting, ${quarantined} in quarantine`;
    },
  },
  {
    question: "Able to catch up?",
    areas: ["provider"],
    good: "Yes",
    bad: "Not now",
    address: "/ops/requests",
    detail: ({ sources }) => {
      const shares = sources.map(({ listReads: { sent, allowed } }) => sent / allowed);
      const free = Math.max(0, HUNDRED - Math.ceil(Math.max(0, ...shares) * HUNDRED));
      const running = sources.reduce((total, { tasks }) => total + tasks.length, 0);
      const work = running === 0 ? "" : `, ${running} larger ${running === 1 ? "read" : "reads"} under way`;
      return `${free} % of the request rate free${work}`;
    },
  },
];

/** Four answers, whose colour and words come from the conditions that hold. */
export function renderTiles(overview: Overview): Html {
  return html`<ul class="tiles">
    ${TILES.map((tile) => renderTile(tile, overview))}
  </ul>`;
}

function renderTile(tile: Tile, overview: Overview): Html {
  const { question, areas, good, bad, between, address, detail } = tile;
  const worst = overview.holding.find(({ condition }) => areas.includes(condition.area));
  const neither = worst === undefined ? between?.(overview) : undefined;
  const mood = worst?.condition.severity ?? (neither === undefined ? "good" : "neither");
  const symbol = { good: "✔", warning: "▲", critical: "✖", neither: "…" }[mood];
  return html`<li class="${mood}">
    <h2>${question}</h2>
    <p class="answer">
      <a href="${address}"
        ><span aria-hidden="true">${symbol}</span> ${worst === undefined ? (neither ?? good) : bad}</a
      >
    </p>
    <p class="dim">${detail(overview)}</p>
  </li> `;
}
