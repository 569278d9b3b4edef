import { html } from "../runtime/http/html.ts";
import type { Html } from "../runtime/http/html.ts";

/** A column that is not plain: numbers are aligned to the right, and sentences wrap, which nothing else does. */
export interface KindOfColumn {
  readonly title: string;
  readonly kind: "number" | "sentence";
}

/**
 * A table that scrolls sideways where it is wider than the window. With `cards`, a narrow window shows each row as a
 * card of labelled lines; the roles keep it a table for screen readers, because the style changes its layout.
 */
export function renderTable(table: {
  title: string;
  columns: readonly (string | Html | KindOfColumn)[];
  rows: readonly (readonly (string | Html)[])[];
  /** True, or the columns' names as text where `columns` has markup. */
  cards?: true | readonly string[];
}): Html {
  const { title, columns, rows, cards } = table;
  const titles = columns.map((column) => (isOfKind(column) ? column.title : column));
  const kinds = columns.map((column) => (isOfKind(column) ? html`class="${column.kind}"` : html``));
  const labels = cards === true ? titles : cards;
  const label = (index: number) => labels !== undefined && html`role="cell" data-label="${labels[index]}"`;
  const role = (name: string) => labels !== undefined && html`role="${name}"`;
  return html`<div class="wide" tabindex="0" role="region" aria-label="${title}">
    <table ${labels !== undefined && html`class="cards" role="table"`}>
      <thead ${role("rowgroup")}>
        <tr ${role("row")}>
          ${titles.map((each, index) => html`<th scope="col" ${kinds[index]} ${role("columnheader")}>${each}</th>`)}
        </tr>
      </thead>
      <tbody ${role("rowgroup")}>
        ${rows.map(
          (cells) =>
            html`<tr ${role("row")}>
              ${cells.map((cell, index) => html`<td ${kinds[index]} ${label(index)}>${cell}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}

function isOfKind(column: string | Html | KindOfColumn): column is KindOfColumn {
  return typeof column === "object" && "kind" in column;
}

/** A column of numbers, which stand below each other digit by digit. */
export function numberColumn(title: string): KindOfColumn {
  return { title, kind: "number" };
}
