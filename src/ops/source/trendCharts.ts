import { describeDelay } from "../../domain/duration.ts";
import { NANOS_PER_SECOND, formatInstant } from "../../domain/order/instant.ts";
import { sourceQuery } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import { numberColumn, renderTable } from "../../html/parts.ts";
import { describeCount } from "../phrases.ts";
import { KINDS, RANGES, type Bucket, type Range } from "./trend.sql.ts";

interface Column {
  readonly title: string;
  /** Finds the value that the chart draws; null: nothing. */
  readonly value: (bucket: Bucket) => number | null;
  readonly show: (bucket: Bucket) => string;
}

const delay = (title: string, value: Column["value"]): Column => ({
  title,
  value,
  show: (bucket) => {
    const seconds = value(bucket);
    if (bucket.onTime + bucket.late === 0) return "–";
    return seconds === null ? "over 1 h" : describeDelay(seconds);
  },
});

const count = (title: string, value: (bucket: Bucket) => number): Column => ({
  title,
  value,
  show: (bucket) => describeCount(value(bucket)),
});

/** The figures of a bucket, after its time and coverage. */
const COLUMNS = {
  onTime: count("On time", ({ onTime }) => onTime),
  late: count("Late", ({ late }) => late),
  lost: count("Missed", ({ lost }) => lost),
  p50: delay("p50", ({ p50 }) => p50),
  p95: delay("p95", ({ p95 }) => p95),
} satisfies Readonly<Record<string, Column>>;

/** Charts that `assets/charts.js` draws from the table: the columns of each, and how. */
const CHARTS: readonly (readonly [title: string, kind: string, ...columns: (keyof typeof COLUMNS)[]])[] = [
  ["Coverage", "coverage"],
  ["Changes of status", "bars", "onTime", "late", "lost"],
  ["Seconds from the change to the mirror", "lines", "p50", "p95"],
];

/** The choice of the range, and places for the charts; without the script the table is open. */
export function renderTrend(sourceId: string, buckets: readonly Bucket[], range: Range): Html {
  const names = Object.keys(COLUMNS);
  return html`<nav class="views" aria-label="Period of the charts">
      <ul>
        ${RANGES.map(
          ({ name, title }) =>
            html`<li>
              <a href="?range=${name}#trends" ${name === range.name && html`aria-current="true"`}>${title}</a>
            </li> `,
        )}
      </ul>
    </nav>
    <div id="charts" hidden>
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

function renderFigures(sourceId: string, buckets: readonly Bucket[], { unit, bucketSeconds }: Range): Html {
  const columns: readonly Column[] = Object.values(COLUMNS);
  const at = (seconds: number) => formatInstant(BigInt(seconds) * NANOS_PER_SECOND, 0);
  return renderTable({
    title: `Figures per ${unit}`,
    columns: ["From", "Coverage", ...columns.map(({ title }) => numberColumn(title))],
    rows: buckets.map((bucket) => {
      const { since, coverage } = bucket;
      const period = `&from=${at(since).slice(0, 16)}&until=${at(since + bucketSeconds).slice(0, 16)}`;
      return [
        html`<a href="/ops/orders${sourceQuery(sourceId)}${period}"
          ><time datetime="${at(since)}">${at(since).slice(5, 16).replace("T", " ")}</time></a
        >`,
        html`<data value="${coverage}">${KINDS[coverage]}</data>`,
        ...columns.map(
          ({ value, show }) => html`<data value="${value(bucket) ?? ""}">${show(bucket)}</data>`,
        ),
      ];
    }),
  });
}
