import { html } from "../runtime/http/html.ts";
import type { Html } from "../runtime/http/html.ts";

/** A redacted document's fields, one per line. */
export function renderFields(fields: readonly { path: string; value: string | null }[]): Html {
  return html`<ul class="diff">
    ${fields.map(
      ({ path, value }) =>
        html`<li>
          <span class="mono">${path}</span>:
          ${value === null ? html`<span class="dim">not shown</span>` : html`<span class="mono">${value}</span>`}
        </li> `,
    )}
  </ul>`;
}

/** Terms with what is to be said of each. */
export function renderFacts(facts: Readonly<Record<string, string | number | Html>>): Html {
  return html`<dl class="facts">
    ${Object.entries(facts).map(
      ([term, value]) =>
        html`<div>
          <dt>${term}</dt>
          <dd>${value}</dd>
        </div> `,
    )}
  </dl>`;
}
