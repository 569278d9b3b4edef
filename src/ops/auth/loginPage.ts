import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderPage } from "../html/page.ts";

export interface LoginWays {
  readonly hasPasswords: boolean;
  readonly hasOpenIdConnect: boolean;
}

/** The login page; each way then leads to `next`. `trouble` says what was wrong with the last attempt. */
export function renderLogin(login: { next: string; trouble?: string; ways: LoginWays }): string {
  const { next, trouble, ways } = login;
  const { hasPasswords, hasOpenIdConnect } = ways;
  const body = html`<h1>Log in</h1>
    ${trouble === undefined ? "" : html`<p class="alert" role="alert">${trouble}</p>`}
    ${hasOpenIdConnect ? html`<p><a href="/ops/login/oidc?next=${encodeURIComponent(next)}">Log in with single sign-on</a></p>` : ""}
    ${hasPasswords ? renderForm(next) : ""}
    ${hasPasswords || hasOpenIdConnect ? "" : html`<p>Use the address of the sign-on proxy; this address has no login.</p>`}`;
  return renderPage({ title: "Log in", body });
}

function renderForm(next: string): Html {
  return html`<form class="row" method="post" action="/ops/login">
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
      With the operator's password (OPS_PASSWORD) you can make changes; with the viewer's
      (OPS_VIEWER_PASSWORD) you can only look.
    </p>`;
}
