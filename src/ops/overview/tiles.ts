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
  readonly address: string;
  readonly detail: (overview: Overview) => string;
}

const HUNDRED = 100;

const sum = (sources: readonly SourceView[], of: (standing: SourceView["standing"]) => number) =>
  sources.reduce((total, { standing }) => total + of(standing), 0);

const TILES: readonly Tile[] = [
  {
    question: "Fresh?",
    areas: ["coverage", "poller"],
    good: "Up to date",
    bad: "Behind",
    address: "/ops/walks",
    detail: ({ sources, now }) => {
      const ages = sources.map(({ standing }) => secondsSince(now, standing.safeThrough));
      if (ages.includes(null)) return "not complete yet";
      return `complete up to ${describeAge(Math.max(...ages.map(Number)))}`;
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

function renderTile({ question, areas, good, bad, address, detail }: Tile, overview: Overview): Html {
  const worst = overview.holding.find(({ condition }) => areas.includes(condition.area));
  const severity = worst?.condition.severity ?? "good";
  const symbol = { good: "✔", warning: "▲", critical: "✖" }[severity];
  return html`<li class="${severity}">
    <h2>${question}</h2>
    <p class="answer">
      <a href="${address}"><span aria-hidden="true">${symbol}</span> ${worst === undefined ? good : bad}</a>
    </p>
    <p class="dim">${detail(overview)}</p>
  </li> `;
}
