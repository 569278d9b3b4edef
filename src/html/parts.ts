import { formatInstant, type Instant } from "../domain/order/instant.ts";
import { html, type Html } from "./html.ts";

/** Fields that the form of an action sends besides its visible ones. */
export type Sent = Readonly<Record<string, string>>;

/** The button of an action: a form that sends only what is given. */
export function renderAction(address: string, label: string, sent: Sent = {}): Html {
  return html`<form method="post" action="${address}">${renderHidden(sent)}<button>${label}</button></form>`;
}

export function renderHidden(sent: Sent): Html {
  return html`${Object.entries(sent).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )}`;
}

/** A redacted document's fields, one per line; null: it has none that could be told apart. */
export function renderFields(fields: readonly { path: string; value: string | null }[] | null): Html {
  if (fields === null) return html`<p>It is not a JSON object; none of it can be shown.</p>`;
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
  /** Name of each row, for a table that is kept up to date without moving its rows. */
  keys?: readonly string[];
}): Html {
  const { title, columns, rows, cards, keys } = table;
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
          (cells, row) =>
            html`<tr ${role("row")} ${keys !== undefined && html`data-key="${keys[row]}"`}>
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

/** Colour and symbol, so that neither is needed alone. */
export function renderAlert(text: string | Html): Html {
  return html`<span class="alert"><span aria-hidden="true">✖</span> ${text}</span>`;
}

export function renderWarning(text: string | Html): Html {
  return html`<span class="warn"><span aria-hidden="true">▲</span> ${text}</span>`;
}

export function renderGood(text: string): Html {
  return html`<span class="good"><span aria-hidden="true">✔</span> ${text}</span>`;
}

/** Characters that reorder or hide text: a name that contains them must not look like another one. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\p{Cc}]/gu;

/** Shows a name that somebody else chose: its invisible characters are named. */
function revealInvisible(name: string): string {
  return name.replaceAll(
    INVISIBLE,
    (character) => `⟨U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}

/** A name of unknown length and direction; the style cuts a long one, and its title has the whole of it. */
export function renderName(name: string): Html {
  const shown = revealInvisible(name);
  return html`<bdi class="cap" title="${shown}">${shown}</bdi>`;
}

/**
 * A time in UTC as 2026-11-22 14:32:07, from its ISO 8601 text. The page's script shows it in local time, with as many
 * digits, unless the reader prefers UTC.
 */
export function renderTime(text: string): Html {
  return html`<time datetime="${text}">${text.replace("T", " ").replace("Z", "")}</time>`;
}

/** Shows an instant to the millisecond; the markup has the whole instant. */
export function renderInstant(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32:07.123".length);
}

/** Shows an instant to the minute; the script leaves out today's date. */
export function renderMinute(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32".length);
}

function renderDigits(instant: Instant | null, length: number): Html {
  if (instant === null) return html`<span class="dim">–</span>`;
  const exact = formatInstant(instant);
  const short = formatInstant(instant, 3).slice(0, length).replace("T", " ");
  return html`<time datetime="${exact}" title="${exact}">${short}</time>`;
}

/**
 * Renders a labelled list of words to choose from in a form. Unless `any` is null, none of them may be chosen as well.
 * A link may have chosen another word, such as a value that no order has now: it is shown, too.
 */
export function renderChoice(choice: {
  label: string | Html;
  name: string;
  words: readonly string[];
  /** Null or empty: none. */
  chosen: string | null;
  /** Name of the choice of none; default: any. */
  any?: string | null;
  /** A word as people read it; default: as it is. */
  describe?: ((word: string) => string) | undefined;
}): Html {
  const { label, name, words, chosen, any = "any", describe = (word) => word } = choice;
  const all = chosen === null || chosen === "" || words.includes(chosen) ? words : [...words, chosen];
  return html`<label
    >${label}
    <select name="${name}">
      ${any !== null && html`<option value="">${any}</option>`}
      ${all.map((word) => html`<option value="${word}" ${word === chosen && html`selected`}>${describe(word)}</option>`)}
    </select></label
  >`;
}
