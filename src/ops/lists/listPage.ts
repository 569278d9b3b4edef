import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import type { Section } from "../html/page.ts";
import { renderTable } from "../html/table.ts";

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
  section?: Section;
  /** Between the note and the table. */
  before?: Html;
  /** Replaces the sentence about omitted rows. */
  after?: Html;
}): string {
  const { title, note, columns, rows, context, section = "overview", before = html``, after } = list;
  const scope = context.sourceId === null ? "all sources" : `source ${context.sourceId}`;
  const cut =
    rows.length < LIST_LINES ? html`` : html`<p class="dim">Only the first ${LIST_LINES} are shown.</p>`;
  const body = html`<h1>${title} <span class="dim">${scope}</span></h1>
    <p>${note}</p>
    ${before}
    <div id="list" data-live>
      ${rows.length === 0 ? html`<p class="empty">Nothing here.</p>` : renderTable({ title, columns, rows })}${after ?? cut}
    </div>`;
  return renderPage({ title, body, viewer: context.viewer, section, live: true });
}
