import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { numberColumn, renderTable } from "../../html/parts.ts";
import { describeCount, describeDelay, sourceQuery } from "../overview/phrases.ts";
import { RANGES } from "./trends.sql.ts";
import type { Bucket, CoverageKind, Range } from "./trends.sql.ts";

const HUNDRED = 100;

const KINDS: Readonly<Record<CoverageKind, string>> = {
  before: "before the history",
  proved: "proved",
  open: "too recent",
  gap: "gap",
  breach: "proof withdrawn",
};

interface Column {
  readonly title: string;
  /** What the chart draws; null: nothing. */
  readonly value: (bucket: Bucket) => number | null;
  readonly show: (bucket: Bucket) => string;
  /** The list behind it, if there is something. */
  readonly page?: "lost" | "requests";
}

const delay = (title: string, read: (bucket: Bucket) => number | null): Column => ({
  title,
  value: read,
  show: (bucket) => {
    const seconds = read(bucket);
    if (bucket.onTime + bucket.late === 0) return "–";
    return seconds === null ? "over 1 h" : describeDelay(seconds);
  },
});

const count = (title: string, read: (bucket: Bucket) => number, page?: Column["page"]): Column => ({
  title,
  value: read,
  show: (bucket) => describeCount(read(bucket)),
  ...(page && { page }),
});

const used = ({ lists, allowed }: Bucket) => (lists / allowed) * HUNDRED;

/** The figures of a bucket, after its time and coverage. */
const COLUMNS = {
  onTime: count("On time", ({ onTime }) => onTime),
  late: count("Late", ({ late }) => late),
  lost: count("Missed", ({ lost }) => lost, "lost"),
  p50: delay("p50", ({ p50 }) => p50),
  p95: delay("p95", ({ p95 }) => p95),
  lists: count("Order lists", ({ lists }) => lists, "requests"),
  used: { title: "Rate used, %", value: used, show: (bucket) => used(bucket).toFixed(1) },
  refused: count("Refused", ({ refused }) => refused),
} satisfies Readonly<Record<string, Column>>;
type ColumnName = keyof typeof COLUMNS;

/** What `assets/charts.js` draws from the table: the columns of each chart, and how. */
const CHARTS: readonly (readonly [title: string, kind: "bars" | "lines" | "coverage", ...ColumnName[]])[] = [
  ["Coverage", "coverage"],
  ["Changes of status", "bars", "onTime", "late", "lost"],
  ["Seconds from the change to the mirror", "lines", "p50", "p95"],
  ["Use of our request rate, %", "lines", "used"],
];

/** The links that choose the period. */
export function renderRangeChoice(chosen: Range): Html {
  return html`<nav class="views" aria-label="Period of the charts">
    <ul>
      ${RANGES.map(
        ({ name, title }) =>
          html`<li>
            <a href="?range=${name}#trends" ${name === chosen.name && html`aria-current="true"`}>${title}</a>
          </li> `,
      )}
    </ul>
  </nav>`;
}

/** Places for the charts, which the script draws from the table; without the script the table is open. */
export function renderTrend(sourceId: string, buckets: readonly Bucket[], range: Range): Html {
  const names = Object.keys(COLUMNS);
  return html`<div id="charts" hidden>
      ${CHARTS.map(
        ([title, kind, ...columns]) =>
          html`<figure
            data-kind="${kind}"
            data-columns="${columns.map((name) => names.indexOf(name) + 2).join(" ")}"
          >
            <figcaption>${title}${kind === "bars" && html`, per ${range.unit}`}</figcaption>
          </figure> `,
      )}
    </div>
    <details id="figures" open>
      <summary>The figures per ${range.unit}</summary>
      <div id="figures-table" data-live>${renderFigures(sourceId, buckets, range)}</div>
    </details>`;
}

function renderFigures(sourceId: string, buckets: readonly Bucket[], range: Range): Html {
  const query = sourceQuery(sourceId);
  const columns: readonly Column[] = Object.values(COLUMNS);
  return renderTable({
    title: `Figures per ${range.unit}`,
    columns: ["From", "Coverage", ...columns.map(({ title }) => numberColumn(title))],
    rows: buckets.map((bucket) => {
      const { since, coverage } = bucket;
      const exact = formatInstant(BigInt(since) * NANOS_PER_SECOND, 0);
      const words = html`<data value="${coverage}">${KINDS[coverage]}</data>`;
      return [
        html`<a href="${ordersAddress(sourceId, since, range)}"
          ><time datetime="${exact}">${exact.slice(5, 16).replace("T", " ")}</time></a
        >`,
        coverage === "gap" ? html`<a href="/ops/gaps${query}">${words}</a>` : words,
        ...columns.map(({ value, show, page }) => {
          const number = value(bucket);
          const data = html`<data value="${number ?? ""}">${show(bucket)}</data>`;
          return page === undefined || number === 0 ? data : html`<a href="/ops/${page}${query}">${data}</a>`;
        }),
      ];
    }),
  });
}

/** The orders that changed in a bucket's time. */
function ordersAddress(sourceId: string, since: number, { bucketSeconds }: Range): string {
  const minute = (seconds: number) => formatInstant(BigInt(seconds) * NANOS_PER_SECOND, 0).slice(0, 16);
  const query = new URLSearchParams({
    source: sourceId,
    from: minute(since),
    until: minute(since + bucketSeconds),
  });
  return `/ops/orders?${query.toString()}`;
}
