import { formatInstant, NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import { describeCount as countNouns } from "../../health/condition.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { describeCount, describeDelay, sourceQuery } from "../overview/phrases.ts";
import { renderAlert } from "../../html/marks.ts";
import { listKinds } from "./coverage.ts";
import {
  drawGrid,
  drawTimeAxis,
  KINDS,
  lossShare,
  ordersAddress,
  plotBudget,
  plotCoverage,
  plotEvents,
  plotLag,
  plotLosses,
} from "./plots.ts";
import type { Plot } from "./plots.ts";
import { RANGES } from "./range.ts";
import type { Range } from "./range.ts";
import type { Bucket, Trend } from "./readTrends.ts";

const HUNDRED = 100;

/** The links that choose the period; `others` is the rest of the address. */
export function renderRangeChoice(chosen: Range, others: URLSearchParams): Html {
  const address = (name: string) => {
    const query = new URLSearchParams(others);
    query.set("range", name);
    return `/ops?${query.toString()}#trends-title`;
  };
  return html`<nav class="views" aria-label="Period of the charts">
    <ul>
      ${RANGES.map(
        (range) =>
          html`<li>
            <a href="${address(range.name)}" ${range === chosen && html`aria-current="true"`}
              >${range.title}</a
            >
          </li> `,
      )}
    </ul>
  </nav>`;
}

/** Charts of each source on one time axis, with all their figures as a table. */
export function renderTrends(trends: readonly Trend[], range: Range): Html {
  if (trends.length === 0) return html`<p class="dim">There will be charts once a source is configured.</p>`;
  return html`${trends.map((trend) => renderTrend(trend, range))}`;
}

function renderTrend(trend: Trend, range: Range): Html {
  const { sourceId, buckets } = trend;
  const plots = [
    plotCoverage(trend, range),
    plotEvents(trend, range),
    plotLosses(trend),
    plotLag(trend, range),
    plotBudget(trend),
  ];
  const grid = drawGrid(buckets, range);
  return html`<section class="trend" aria-label="Charts of ${sourceId}">
    <h3>${sourceId}</h3>
    ${plots.map((plot) => renderPlot(plot, { grid, buckets: buckets.length }))}
    <div class="chart"><span class="scale" data-zone>UTC</span>${drawTimeAxis(buckets, range)}</div>
    ${renderFindings(trend)}
    <details>
      <summary>${sourceId}: the same as a table, per ${range.unit}</summary>
      ${renderFigures(trend, range)}
    </details>
  </section>`;
}

function renderPlot(
  { title, keys, scale, drawing, columns }: Plot,
  frame: { grid: Html; buckets: number },
): Html {
  const [top, bottom] = scale;
  const size = top === "" ? "thin" : "tall";
  return html`<figure class="plot" data-columns="${columns.join(" ")}">
    <figcaption>
      <strong>${title}</strong>
      ${keys.map(([name, words]) => html`<span class="nowrap"><span class="key ${name}"></span> ${words}</span> `)}
      <output></output>
    </figcaption>
    <div class="chart">
      <div class="scale"><span>${top}</span><span>${bottom}</span></div>
      <svg
        class="${size}"
        viewBox="0 0 ${frame.buckets * 10} 100"
        preserveAspectRatio="none"
        aria-hidden="true"
      >
        ${frame.grid}${drawing}
      </svg>
    </div>
  </figure>`;
}

function renderFigures(trend: Trend, range: Range): Html {
  const { sourceId, buckets } = trend;
  const query = sourceQuery(sourceId);
  const link = (address: string, text: string) => html`<a href="${address}">${text}</a>`;
  const lag = (seconds: number | null, { onTime, late }: Bucket) =>
    onTime + late === 0 ? "–" : seconds === null ? "over 1 h" : describeDelay(seconds);
  return renderTable({
    title: `${sourceId}: figures per ${range.unit}`,
    columns: [
      "From",
      "Coverage",
      numberColumn("On time"),
      numberColumn("Late"),
      numberColumn("Missed"),
      numberColumn("Missed, %"),
      numberColumn("p50"),
      numberColumn("p95"),
      numberColumn("p99"),
      numberColumn("Order lists"),
      numberColumn("Rate used, %"),
      numberColumn("Refused"),
    ],
    rows: buckets.map((bucket) => {
      const { since, onTime, late, lost, lists, allowed, refused } = bucket;
      const at = BigInt(since) * NANOS_PER_SECOND;
      const until = at + BigInt(range.bucketSeconds) * NANOS_PER_SECOND;
      const share = lossShare(bucket);
      const kinds = listKinds(trend.coverage, { since: at, until });
      const words = kinds.map((kind) => KINDS[kind].cell).join(", ");
      const text = formatInstant(at, 0);
      return [
        html`<a href="${ordersAddress(sourceId, since, range)}"
          ><time datetime="${text}">${text.slice(5, 16).replace("T", " ")}</time></a
        >`,
        kinds.includes("gap") ? link(`/ops/gaps${query}`, words) : words,
        describeCount(onTime),
        describeCount(late),
        lost === 0 ? "0" : link(`/ops/lost${query}`, describeCount(lost)),
        share === null ? "–" : (share * HUNDRED).toFixed(2),
        lag(bucket.p50, bucket),
        lag(bucket.p95, bucket),
        lag(bucket.p99, bucket),
        lists === 0 ? "0" : link(`/ops/requests${query}`, describeCount(lists)),
        ((lists / allowed) * HUNDRED).toFixed(1),
        describeCount(refused),
      ];
    }),
  });
}

/** How many unproved periods and withdrawn proofs there are, with links to their lists. */
function renderFindings({ sourceId, coverage: { gaps, breaches } }: Trend): Html {
  const query = sourceQuery(sourceId);
  const found = [
    [gaps.length, "gap", "gaps"],
    [breaches.length, "withdrawn proof", "breaches"],
  ] as const;
  return html`${found.map(
    ([count, noun, page]) =>
      count !== 0 &&
      html`<p>${renderAlert(countNouns(count, noun))} <a href="/ops/${page}${query}">Details</a></p> `,
  )}`;
}
