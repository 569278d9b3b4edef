import { formatInstant } from "../domain/order/instant.ts";
import type { Instant } from "../domain/order/instant.ts";
import { html } from "../runtime/http/html.ts";
import type { Html } from "../runtime/http/html.ts";

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

/** What people read of a name that somebody else chose: its invisible characters are named. */
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

/** The same to the millisecond; the markup has the whole instant. */
export function renderInstant(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32:07.123".length);
}

/** The same to the minute; the script leaves out today's date. */
export function renderMinute(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32".length);
}

function renderDigits(instant: Instant | null, length: number): Html {
  if (instant === null) return html`<span class="dim">–</span>`;
  const exact = formatInstant(instant);
  const short = formatInstant(instant, 3).slice(0, length).replace("T", " ");
  return html`<time datetime="${exact}" title="${exact}">${short}</time>`;
}
