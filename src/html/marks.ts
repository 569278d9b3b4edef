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

/**
 * A time in UTC as 2026-11-22 14:32:07, from its ISO 8601 text. The page says that its times are UTC; its script shows
 * them in local time if the reader prefers that, with as many digits.
 */
export function renderTime(text: string): Html {
  return html`<time datetime="${text}">${text.replace("T", " ").replace("Z", "")}</time>`;
}

/** The same to the millisecond; the markup has the whole instant. */
export function renderInstant(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32:07.123".length);
}

/** The same to the minute. */
export function renderMinute(instant: Instant | null): Html {
  return renderDigits(instant, "2026-11-22T14:32".length);
}

function renderDigits(instant: Instant | null, length: number): Html {
  if (instant === null) return html`<span class="dim">–</span>`;
  const exact = formatInstant(instant);
  const short = formatInstant(instant, 3).slice(0, length).replace("T", " ");
  return html`<time datetime="${exact}" title="${exact}">${short}</time>`;
}
