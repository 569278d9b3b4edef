import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import { describeCount } from "../../health/condition.ts";
import type { Breach } from "../../poll/ledger/breaches.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { orderAddress, renderAlert, renderInstant, renderTime, sourceQuery } from "./phrases.ts";

export const CELLS = 144;
export const CELL_NANOS = 600n * NANOS_PER_SECOND;

/**
 * - `proved`: the mirror has every change of this time.
 * - `breach`: a proof of this time was withdrawn within the last day, whether or not it has been proved again.
 * - `gap`: part of this time is unproved but later time is proved, so changes may be missing.
 * - `open`: too recent to be proved.
 * - `before`: before the start of the history.
 */
type Cell = "breach" | "proved" | "gap" | "open" | "before";

export interface CoverageDay {
  readonly sourceId: string;
  readonly cells: readonly Cell[];
  /** Unproved periods followed by proved time. */
  readonly gaps: readonly Window[];
  /** Of the last day, newest first. */
  readonly breaches: readonly Breach[];
}

/** The last 24 h in cells of 10 min, oldest first; `missing` are the periods that no proved window covers. */
export function divideDay(span: {
  sourceId: string;
  now: Instant;
  historySince: Instant | null;
  provedUntil: Instant | null;
  missing: readonly Window[];
  breaches: readonly Breach[];
}): CoverageDay {
  const { sourceId, now, historySince, provedUntil, missing, breaches } = span;
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
    const overlaps = (one: Window) => one.since < until && from < one.until;
    if (breaches.some(overlaps)) return "breach";
    if (gaps.some(overlaps)) return "gap";
    if (until <= begin) return "before";
    return until <= end ? "proved" : "open";
  });
  return { sourceId, cells, gaps, breaches };
}

/** Cells for the eye, with a text alternative. */
function renderStrip({ sourceId, cells, gaps, breaches }: CoverageDay): Html {
  const proved = cells.filter((cell) => cell === "proved").length;
  const gapCount = gaps.length === 0 ? "no gap" : describeCount(gaps.length, "gap");
  const taken = breaches.length === 0 ? "" : `, ${describeCount(breaches.length, "proof")} withdrawn`;
  const words = `${proved} of ${CELLS} cells of 10 min proved, ${gapCount}${taken}`;
  return html`<div class="strip" role="img" aria-label="${`${sourceId}, last 24 h, oldest first: ${words}`}">
    ${cells.map((cell) => html`<span class="${cell}"></span>`)}
  </div>`;
}

/** The strip with its legend, followed by unproved periods and withdrawn proofs. */
export function renderCoverage(coverage: CoverageDay): Html {
  const { gaps, cells, sourceId, breaches } = coverage;
  const proved = cells.filter((cell) => cell === "proved").length;
  const list = html`<ul class="plain">
    ${breaches.map(renderBreach)}
    ${gaps.map(
      ({ since, until }) =>
        html`<li>
          ${renderAlert("Gap")} ${renderTime(formatInstant(since, 0))} to
          ${renderTime(formatInstant(until, 0))}: the poller reads it again automatically; to do so now:
          <code
            >order-mirror backfill --source ${sourceId} --from ${formatInstant(since, 0)} --to
            ${formatInstant(until + 999_999_999n, 0)}</code
          >
        </li> `,
    )}
  </ul>`;
  return html`<h3>Coverage <span class="dim">last 24 h, a cell is 10 min, oldest first</span></h3>
    ${renderStrip(coverage)}
    <p class="dim legend">
      <span class="key proved"></span> proved (${proved}) <span class="key gap"></span> gap (${gaps.length})
      <span class="key breach"></span> proof withdrawn (${breaches.length}) <span class="key open"></span> too
      recent to be proved <span class="key before"></span> before the history ·
      <a href="/ops/walks${sourceQuery(sourceId)}">windows read</a>
    </p>
    ${gaps.length + breaches.length === 0 ? html`` : list}`;
}

function renderBreach({ sourceId, since, until, reference, detail, foundAt, reprovedAt }: Breach): Html {
  return html`<li>
    ${renderAlert("Proof withdrawn")} ${renderTime(formatInstant(since, 0))} to
    ${renderTime(formatInstant(until, 0))}, found ${renderInstant(foundAt)} by
    <a href="${orderAddress({ sourceId, reference })}">${reference}</a>: ${detail}
    ${reprovedAt === null ? "It is read again automatically." : "It has been read again and proved."}
  </li> `;
}
