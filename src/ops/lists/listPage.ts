import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";

/** The maximum number of lines in a list. */
export const LIST_LINES = 200;

export interface ListContext {
  readonly viewer: Viewer;
  /** Null: every source. */
  readonly sourceId: string | null;
}

/** A page with one table, which scrolls horizontally in a narrow window. */
export function renderList(list: {
  title: string;
  note: string;
  columns: readonly string[];
  rows: readonly (readonly (string | Html)[])[];
  context: ListContext;
  /** Between the note and the table. */
  before?: Html;
  /** Replaces the sentence about omitted rows. */
  after?: Html;
}): string {
  const { title, note, columns, rows, context, before = html``, after } = list;
  const scope = context.sourceId === null ? "all sources" : `source ${context.sourceId}`;
  const cut =
    rows.length < LIST_LINES ? html`` : html`<p class="dim">Only the first ${LIST_LINES} are shown.</p>`;
  const body = html`<h1>${title} <span class="dim">${scope}</span></h1>
    <p>${note}</p>
    ${before}${rows.length === 0 ? html`<p>Nothing here.</p>` : renderTable({ title, columns, rows })}${after ?? cut}`;
  return renderPage({ title, body, viewer: context.viewer });
}

function renderTable(table: {
  title: string;
  columns: readonly string[];
  rows: readonly (readonly (string | Html)[])[];
}): Html {
  return html`<div class="wide" tabindex="0" role="region" aria-label="${table.title}">
    <table>
      <thead>
        <tr>
          ${table.columns.map((column) => html`<th scope="col">${column}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${table.rows.map(
          (cells) =>
            html`<tr>
              ${cells.map((cell) => html`<td>${cell}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}
