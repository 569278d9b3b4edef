import { html } from "../html/html.ts";
import { renderPage } from "../html/page.ts";

/** The form to log in, which then leads to `next`. `trouble` says what was wrong with the last attempt. */
export function renderLogin({ next, trouble }: { next: string; trouble?: string }): string {
  const body = html`<h1>Log in</h1>
    ${trouble === undefined ? "" : html`<p class="alert" role="alert">${trouble}</p>`}
    <form class="row" method="post" action="/ops/login">
      <input type="hidden" name="next" value="${next}" />
      <label
        >Password
        <input
          type="password"
          name="password"
          required
          maxlength="1000"
          autocomplete="current-password"
          autofocus
      /></label>
      <button>Log in</button>
    </form>
    <p class="dim">
      The operator's password (OPS_PASSWORD) may change things; the viewer's (OPS_VIEWER_PASSWORD) may look.
    </p>`;
  return renderPage({ title: "Log in", body });
}
