import { html } from "../runtime/http/html.ts";
import type { Html } from "../runtime/http/html.ts";

/** What the form of an action sends besides its visible fields. */
export type Sent = Readonly<Record<string, string>>;

/** The button of an action: a form that sends only what is given. `look` is the class of the form. */
export function renderAction(
  address: string,
  label: string,
  { sent = {}, look }: { sent?: Sent; look?: string } = {},
): Html {
  const attributes = look !== undefined && html`class="${look}"`;
  return html`<form method="post" action="${address}" ${attributes}>
    ${renderHidden(sent)}<button>${label}</button>
  </form>`;
}

export function renderHidden(sent: Sent): Html {
  return html`${Object.entries(sent).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )}`;
}

/** The button of an action that this person may not carry out, with the reason. */
export function renderForbidden(label: string, reason: string): Html {
  return html`<p><button disabled>${label}</button> <span class="dim">${reason}</span></p>`;
}
