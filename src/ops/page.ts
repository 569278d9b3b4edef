import type { Role } from "../database/auditLog.sql.ts";
import { createHash } from "node:crypto";
import { Router, urlencoded, type Request, type RequestHandler, type Response } from "express";
import { formatInstant } from "../domain/order/instant.ts";
import { html, type Html } from "../html/html.ts";
import { readAsset, readPackageFile, STYLE } from "../html/style.ts";
import { systemClock } from "../process/clock.ts";
import { describeBoundedCount, renderSentence } from "./phrases.ts";

// What every page has: who views it, its frame with styles and scripts, and how it is sent. A page says what it shows
// (`Page`), and `sendPage` puts it into the frame for the viewer whom the login has found.

/** The person or program that views a page. */
export interface Viewer {
  readonly role: Role;
  /** The name from single sign-on; null: anybody who knows the role's password, or a trusted local program. */
  readonly person: string | null;
  /** Whether there is a session to be ended; programs and people named by a proxy have none. */
  readonly hasSession?: boolean;
  /** Number of things that wait for a person, by the section of the pages that shows them. */
  readonly waiting?: Readonly<Record<string, number>>;
}

export function setViewer(response: Response, viewer: Viewer, next: () => void): void {
  response.locals["viewer"] = viewer;
  next();
}

const findViewer = ({ locals }: Response) => locals["viewer"] as Viewer | undefined;

export function viewerOf(response: Response): Viewer {
  return findViewer(response) ?? { role: "viewer", person: null };
}

/**
 * Notes the path below which the program around us has mounted the pages; empty in a server of our own. Everything in
 * these rooms is written without it; `sendPage` and `redirect` add it.
 */
export function setBasePath(response: Response, basePath: string): void {
  response.locals["basePath"] = basePath;
}

export const basePathOf = ({ locals }: Response) => (locals["basePath"] as string | undefined) ?? "";

/** Leads the browser to an address of the pages. */
export function redirect(response: Response, address: string): void {
  response.redirect(303, basePathOf(response) + address);
}

/**
 * The page where a form was sent from, as far as the browser says so: an address of ours with its choice, but without
 * what it says of an earlier action.
 */
export function pressedOn(response: Response): string | null {
  const { referer = "" } = response.req.headers;
  if (!URL.canParse(referer)) return null;
  const { pathname, searchParams } = new URL(referer);
  const basePath = basePathOf(response);
  const path = pathname.startsWith(basePath) ? pathname.slice(basePath.length) : "";
  if (!/^\/ops(?:\/|$)/.test(path) || path.startsWith("/ops/login")) return null;
  for (const name of ["did", "on", "many"]) searchParams.delete(name);
  return searchParams.size === 0 ? path : `${path}?${searchParams.toString()}`;
}

/** Shows a sentence on top of the page that is sent: what an action has done. */
export function announce(response: Response, done: Html): void {
  response.locals["done"] = done;
}

/** Whether buttons are offered that change something. */
export function mayAct({ role }: Viewer): boolean {
  return role === "operator";
}

interface Asset {
  readonly path: string;
  readonly type: string;
  readonly body: string;
}

/** The address contains a hash of the file, so browsers may cache it forever and never use an old version. */
function makeAsset(name: string, type: "text/css" | "text/javascript", body: string): Asset {
  const version = createHash("sha256").update(body).digest("hex").slice(0, 12);
  return { path: `/ops/assets/${version}-${name}`, type, body };
}

const STYLE_ASSET = makeAsset("ops.css", "text/css", STYLE);
const LIVE_SCRIPT_ASSET = makeAsset("live.js", "text/javascript", readAsset("live.js"));
/** uPlot, and what draws the tables of a page with it. */
const CHART_ASSETS: readonly Asset[] = [
  makeAsset("uplot.css", "text/css", readPackageFile("uplot/dist/uPlot.min.css")),
  makeAsset("uplot.js", "text/javascript", readPackageFile("uplot/dist/uPlot.iife.min.js")),
  makeAsset("charts.js", "text/javascript", readAsset("charts.js")),
];

/** Styles and scripts of our pages: public, because the login page needs them and they contain nothing secret. */
export function makeAssetRouter(): Router {
  const router = Router();
  for (const { path, type, body } of [STYLE_ASSET, LIVE_SCRIPT_ASSET, ...CHART_ASSETS]) {
    router.get(path, (_request, response) => {
      response
        .set({ "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff" })
        .type(type)
        .send(body);
    });
  }
  return router;
}

const SECTIONS = {
  orders: ["/ops/orders", "Orders"],
  overview: ["/ops", "Overview"],
  quarantine: ["/ops/quarantine", "Quarantine"],
  queues: ["/ops/queue-health", "Queue"],
  outgoing: ["/ops/outgoing", "Outgoing"],
  actions: ["/ops/actions", "Audit log"],
} as const;
export type Section = keyof typeof SECTIONS;

/** State that the tab's icon shows. */
export type Mood = "good" | "neither" | "warning" | "critical";

/** Content of a page. */
export interface Page {
  readonly title: string;
  readonly body: Html;
  readonly section?: Section;
  /** Its parts with `data-live` are kept up to date. */
  readonly live?: boolean;
  readonly hasCharts?: true;
  readonly mood?: Mood;
  /** Whether the page has a field of its own to search with. */
  readonly searches?: true;
}

/**
 * A whole document; without a viewer, before the login, it has neither search nor navigation. Its times are UTC; the
 * script shows local ones to readers who do not prefer UTC. @internal
 */
export function renderPage(page: Page, viewer: Viewer | undefined, done?: Html): string {
  const { title, body, live = false, hasCharts, mood } = page;
  const assets = [STYLE_ASSET, ...(viewer ? [LIVE_SCRIPT_ASSET] : []), ...(hasCharts ? CHART_ASSETS : [])];
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <link rel="icon" href="${mood === undefined ? "data:," : drawIcon(mood)}" />
        ${assets.map(renderAsset)}
        <title>${title} · order-mirror</title>
      </head>
      <body ${live && html`data-updates`}>
        ${viewer === undefined ? html`<header class="top"><span class="name">order-mirror</span></header>` : renderTop(viewer, page)}
        <main id="main">${viewer !== undefined && renderTimeLine(live)}${done}${body}</main>
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

function renderTop(viewer: Viewer, { section, searches }: Page): Html {
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
      ${searches !== true && SEARCH}
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

const SEARCH = html`<form class="search" role="search" action="/ops/search">
  <input
    type="search"
    name="q"
    required
    maxlength="512"
    autocomplete="off"
    aria-label="Order reference, external id or event id"
    placeholder="Order or event id"
  />
  <button>Search</button>
</form>`;

/** A parameter's text; empty if it is absent or given twice. NUL, which Postgres refuses, is removed. */
export function readField(value: unknown): string {
  return typeof value === "string" ? value.replaceAll("\0", "") : "";
}

/** Parses the form of a request, for readFormField. */
export const parseForm: RequestHandler = urlencoded({ extended: false, limit: "8kb" });

/** Reads a field of the form; empty if it is absent or given twice. */
export function readFormField({ body }: Request, name: string): string {
  return readField((body as Readonly<Record<string, unknown>> | undefined)?.[name]);
}

/** Sends a page to its viewer, or 304 if it shows what the browser has already. */
export function sendPage(response: Response, page: Page): void {
  const rendered = renderPage(page, findViewer(response), response.locals["done"] as Html | undefined);
  // Values have no bare quotation marks, so only attributes of our templates match.
  const basePath = html`${basePathOf(response)}`.markup;
  const markup = rendered.replaceAll(/ (?:href|action|src)="(?=\/)/g, (start) => start + basePath);
  const shown = markup.replace(/<time id="made"[^>]*>[^<]*</, "");
  const tag = createHash("sha256").update(shown).digest("base64url");
  // Weak: the same page may be sent compressed.
  response.set("ETag", `W/"${tag}"`).type("html");
  if (response.req.get("If-None-Match")?.includes(tag) === true && response.statusCode === 200)
    response.status(304).end();
  else response.send(markup);
}

/** Answers with one sentence: as a page to people, as text to programs. */
export function sendRefusal(response: Response, status: number, sentence: string): void {
  response.status(status);
  if (!(response.req.headers.accept ?? "").includes("text/html")) {
    response.type("text/plain").send(`${sentence}\n`);
    return;
  }
  const title = TITLES[status] ?? "This did not work";
  const body = html`<h1>${title}</h1>
    <p>${renderSentence(sentence)}</p>
    <p><a class="button" href="/ops/start">Back to the first page</a></p>`;
  // Without the database nobody is known to be logged in; the ways to the other pages show nothing.
  if (status === 503) response.locals["viewer"] ??= { role: "viewer", person: null } satisfies Viewer;
  sendPage(response, { title, body });
}

const TITLES: Readonly<Record<number, string>> = {
  401: "Log in",
  403: "Not allowed",
  404: "Not found",
  429: "Too many attempts",
  503: "Not available now",
};
