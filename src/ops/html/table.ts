import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";

/**
 * A table that scrolls sideways where it is wider than the window. With `cards`, a narrow window shows each row as a
 * card of labelled lines; the roles keep it a table for screen readers, because the style changes its layout.
 */
export function renderTable(table: {
  title: string;
  columns: readonly (string | Html)[];
  rows: readonly (readonly (string | Html)[])[];
  /** True, or the columns' names as text where `columns` has markup. */
  cards?: true | readonly string[];
}): Html {
  const { title, columns, rows, cards } = table;
  const labels = cards === true ? columns : cards;
  const label = (index: number) =>
    labels === undefined ? html`` : html`role="cell" data-label="${labels[index]}"`;
  const role = (name: string) => (labels === undefined ? html`` : html`role="${name}"`);
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}">
    <table ${labels === undefined ? html`` : html`class="cards" role="table"`}>
      <thead ${role("rowgroup")}>
        <tr ${role("row")}>
          ${columns.map((column) => html`<th scope="col" ${role("columnheader")}>${column}</th>`)}
        </tr>
      </thead>
      <tbody ${role("rowgroup")}>
        ${rows.map(
          (cells) =>
            html`<tr ${role("row")}>
              ${cells.map((cell, index) => html`<td ${label(index)}>${cell}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}
