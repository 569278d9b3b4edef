import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import { html } from "../html/html.ts";
import type { Html } from "../html/html.ts";

export const CELLS = 144;
export const CELL_NANOS = 600n * NANOS_PER_SECOND;

/**
 * - `proved`: every change of this time is here.
 * - `gap`: later time is proved and part of this is not: changes may be missing.
 * - `open`: not proved yet, because it is so young.
 * - `before`: from before the history that is kept.
 */
type Cell = "proved" | "gap" | "open" | "before";

export interface CoverageDay {
  readonly sourceId: string;
  readonly cells: readonly Cell[];
  /** Unproved spans with proved time after them. */
  readonly gaps: readonly Window[];
}

/** The last 24 h in cells of 10 min, oldest first; `missing` is what no proved window covers. */
export function divideDay(span: {
  sourceId: string;
  now: Instant;
  historySince: Instant | null;
  provedUntil: Instant | null;
  missing: readonly Window[];
}): CoverageDay {
  const { sourceId, now, historySince, provedUntil, missing } = span;
  const since = now - BigInt(CELLS) * CELL_NANOS;
  const begin = historySince ?? now;
  const end = provedUntil ?? since;
  const gaps = missing
    .map((gap) => ({
      since: gap.since > begin ? gap.since : begin,
      until: gap.until < end ? gap.until : end,
    }))
    .filter((gap) => gap.since < gap.until);
  const cells = Array.from({ length: CELLS }, (_, index): Cell => {
    const from = since + BigInt(index) * CELL_NANOS;
    const until = from + CELL_NANOS;
    if (gaps.some((gap) => gap.since < until && from < gap.until)) return "gap";
    if (until <= begin) return "before";
    return until <= end ? "proved" : "open";
  });
  return { sourceId, cells, gaps };
}

/** Cells for the eye, the same in words beside them. */
export function renderStrip({ sourceId, cells, gaps }: CoverageDay): Html {
  const proved = cells.filter((cell) => cell === "proved").length;
  const words =
    gaps.length === 0
      ? `${proved} of ${CELLS} cells of 10 min proved, no gap`
      : `${proved} of ${CELLS} cells of 10 min proved, ${gaps.length} ${gaps.length === 1 ? "gap" : "gaps"}`;
  return html`<div class="strip" role="img" aria-label="${`${sourceId}, last 24 h, oldest first: ${words}`}">
    ${cells.map((cell) => html`<span class="${cell}"></span>`)}
  </div>`;
}
