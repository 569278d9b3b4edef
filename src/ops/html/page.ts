import { CHART_ASSET, CHART_STYLE_ASSET, OVERVIEW_SCRIPT_ASSET, STYLE_ASSET } from "./assets.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
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

export interface PageParts {
  readonly title: string;
  readonly body: Html;
  /** Absent on pages before the login, which have neither search nor navigation. */
  readonly viewer?: Viewer;
  /** The search text. */
  readonly query?: string;
  /** The page keeps itself up to date and draws charts. */
  readonly updates?: boolean;
}

/** A whole document. The empty icon keeps browsers from requesting one. */
export function renderPage({ title, body, viewer, query = "", updates = false }: PageParts): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex" />
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="${STYLE_ASSET.path}" />
        ${updates ? OVERVIEW_HEAD : html``}
        <title>${title} · order-mirror</title>
      </head>
      <body>
        ${viewer === undefined ? html`<header class="top"><span class="name">order-mirror</span></header>` : renderTop(viewer, query)}
        <main id="main">${body}</main>
      </body>
    </html> `.markup;
}

const OVERVIEW_HEAD = html`<link rel="stylesheet" href="${CHART_STYLE_ASSET.path}" />
  <script src="${CHART_ASSET.path}" defer></script>
  <script src="${OVERVIEW_SCRIPT_ASSET.path}" defer></script>`;

function renderTop({ role, person, session }: Viewer, query: string): Html {
  const who = (role === "viewer" ? "viewer (read-only)" : role) + (person === null ? "" : `, ${person}`);
  return html`<a class="skip" href="#main">Skip to content</a>
    <header class="top">
      <a class="name" href="/ops">order-mirror</a>
      <nav aria-label="Pages">
        <ul>
          <li><a href="/ops">Overview</a></li>
          <li><a href="/ops/quarantine">Quarantine</a></li>
          <li><a href="/ops/queues">Queues</a></li>
          <li><a href="/ops/actions">Audit log</a></li>
        </ul>
      </nav>
      <form class="search" role="search" action="/ops/search">
        <input
          type="search"
          name="q"
          value="${query}"
          required
          maxlength="512"
          autocomplete="off"
          aria-label="Order reference, external id or event id"
          placeholder="Order, external id or event id"
        />
        <button>Search</button>
      </form>
      <span class="dim">${who}</span>
      ${session !== undefined ? html`<form method="post" action="/ops/logout"><button class="plain">Log out</button></form>` : ""}
    </header>`;
}
