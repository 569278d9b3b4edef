import { LIVE_SCRIPT_ASSET, STYLE_ASSET } from "./assets.ts";
import type { Asset } from "./assets.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { describeBoundedCount } from "../overview/phrases.ts";
import { systemClock } from "../../runtime/lifecycle/clock.ts";
import type { Viewer } from "../auth/viewer.ts";

/** Our pages load styles and scripts only from this host; nothing is inline. */
export const PAGE_POLICY = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

const SECTIONS = {
  orders: ["/ops/orders", "Orders"],
  overview: ["/ops", "Overview"],
  quarantine: ["/ops/quarantine", "Quarantine"],
  queues: ["/ops/queue-health", "Queue"],
  outgoing: ["/ops/outgoing", "Outgoing"],
  actions: ["/ops/actions", "Audit log"],
} as const;
export type Section = keyof typeof SECTIONS;

/** What the tab's icon says. */
export type Mood = "good" | "neither" | "warning" | "critical";

export interface PageParts {
  readonly title: string;
  readonly body: Html;
  /** Absent on pages before the login, which have neither search nor navigation. */
  readonly viewer?: Viewer;
  readonly section?: Section;
  /** Its parts with `data-live` are kept up to date. */
  readonly live?: boolean;
  /** Styles and scripts that only this page needs. */
  readonly assets?: readonly Asset[];
  readonly mood?: Mood;
}

/** A whole document. Its times are UTC; the script shows local ones to readers who do not prefer UTC. */
export function renderPage(page: PageParts): string {
  const { title, body, viewer, section, live = false, assets = [], mood } = page;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <link rel="icon" href="${mood === undefined ? "data:," : drawIcon(mood)}" />
        ${[STYLE_ASSET, ...(viewer === undefined ? [] : [LIVE_SCRIPT_ASSET]), ...assets].map(renderAsset)}
        <title>${title} · order-mirror</title>
      </head>
      <body ${live && html`data-updates`}>
        ${viewer === undefined ? html`<header class="top"><span class="name">order-mirror</span></header>` : renderTop(viewer, section)}
        <main id="main">${viewer !== undefined && renderTimeLine(live)}${body}</main>
      </body>
    </html> `.markup;
}

const renderAsset = ({ path, type }: Asset): Html =>
  type === "text/css"
    ? html`<link rel="stylesheet" href="${path}" />`
    : html`<script src="${path}" defer></script>`;

/** The time of the page and its zone, also for print; without the script it stands still and says so. */
function renderTimeLine(live: boolean): Html {
  const asOf = formatInstant(systemClock.now(), 0);
  const time = html`<time id="made" datetime="${asOf}">${asOf.replace("T", " ").replace("Z", "")}</time>`;
  return html`<p class="as-of dim">
    <span id="updates-word">As of ${time}</span> · times in <span data-zone>UTC</span>
    ${live && html`<button type="button" class="plain" id="pause" aria-pressed="false" hidden>Pause</button>`}
  </p>`;
}

/** A dot that says in a background tab how things are; its shape differs, too. */
function drawIcon(mood: Mood): string {
  const [colour, shape] = {
    good: ["#1c6b34", "<circle cx='8' cy='8' r='7'/>"],
    neither: ["#6d7885", "<path d='M1 5h14v6H1z'/>"],
    warning: ["#b98a1d", "<path d='M8 1 15 15H1z'/>"],
    critical: ["#c2371c", "<path d='M1 1h14v14H1z'/>"],
  }[mood] as [string, string];
  const image = `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='${colour}'>${shape}</svg>`;
  return `data:image/svg+xml,${encodeURIComponent(image)}`;
}

/** The way to the first and to the next page of a list, where there is one. */
export function renderPaging({ first, next }: { first: string | null; next: string | null }): Html {
  if (first === null && next === null) return html``;
  return html`<nav class="paging" aria-label="Pages of the list">
    ${first !== null && html`<a class="button" href="${first}" rel="first">First page</a>`}
    ${next !== null && html`<a class="button" href="${next}" rel="next">Next page</a>`}
  </nav>`;
}

/** A page without its own time: equal for two pages that show the same. */
export function withoutTime(markup: string): string {
  return markup.replace(/<time id="made"[^>]*>[^<]*</, "");
}

function renderTop(viewer: Viewer, section: Section | undefined): Html {
  const { role, person, hasSession, waiting = {} } = viewer;
  const who = (role === "viewer" ? "viewer (read-only)" : role) + (person === null ? "" : `, ${person}`);
  return html`<a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <a class="name" href="/ops/start">order-mirror</a>
      <nav aria-label="Pages">
        <ul>
          ${Object.entries(SECTIONS).map(
            ([name, [address, title]]) =>
              html`<li>
                <a href="${address}" ${name === section && html`aria-current="page"`}
                  >${title}${renderCount(waiting[name])}</a
                >
              </li> `,
          )}
        </ul>
      </nav>
      ${section !== "orders" && SEARCH}
      <details class="account">
        <summary>${role}</summary>
        <div>
          <p class="who">${who}</p>
          <p><button type="button" class="plain" id="zone" hidden></button></p>
          ${hasSession === true && html`<form method="post" action="/ops/logout"><button>Log out</button></form>`}
        </div>
      </details>
    </header>`;
}

function renderCount(count: number | undefined): Html {
  return count === undefined || count === 0
    ? html``
    : html` <span class="badge count">${describeBoundedCount(count)}</span>`;
}

/** The list of orders has its own field. */
const SEARCH = html`<form class="search" role="search" action="/ops/search">
  <input
    type="search"
    name="q"
    required
    maxlength="512"
    autocomplete="off"
    aria-label="Order reference, external id or event id"
    placeholder="Order, external id or event id"
  />
  <button>Search</button>
</form>`;
