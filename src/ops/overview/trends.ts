import type { HourOfEvents } from "../../health/opsFigures.sql.ts";
import type { Overview, SourceView } from "./readOverview.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";

const HUNDRED = 100;

/** Events hour by hour, as tables. A script draws charts from them; without it the tables show the same. */
export function renderTrends({ sources }: Overview): Html {
  const announced = sources.filter(
    ({ webhooks }) => webhooks !== "not-configured" && webhooks !== "never-seen",
  );
  if (announced.length === 0) return html`<p class="dim">No event has arrived yet.</p>`;
  return html`${announced.map(renderTrend)}`;
}

function renderTrend({ standing, hours }: SourceView): Html {
  const { sourceId } = standing;
  const plot = (name: string, title: string) =>
    html`<figure class="plot" data-plot="${name}">
      <figcaption>${sourceId}: ${title}</figcaption>
    </figure>`;
  return html`<div class="trend">
    ${plot("lost", "events lost and late per hour")} ${plot("lag", "95 % of events arrived within, seconds")}
    <details>
      <summary>${sourceId}: the last ${hours.length} hours as a table</summary>
      <div class="wide" tabindex="0" role="region" aria-label="${sourceId}: events per hour">
        <table>
          <thead>
            <tr>
              ${["Hour", "On time", "Late", "Lost", "Lost, %", "95 % within, s"].map((name) => html`<th scope="col">${name}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${hours.map(renderHour)}
          </tbody>
        </table>
      </div>
    </details>
  </div>`;
}

function renderHour({ hour, onTime, late, lost, p95Seconds }: HourOfEvents): Html {
  const at = new Date(hour * 1_000).toISOString();
  const total = onTime + late + lost;
  const cells = [
    onTime,
    late,
    lost,
    total === 0 ? "–" : ((lost / total) * HUNDRED).toFixed(2),
    p95Seconds ?? "–",
  ];
  return html`<tr>
    <th scope="row"><time datetime="${at}">${at.slice(5, 16).replace("T", " ")}</time></th>
    ${cells.map((cell) => html`<td>${cell}</td>`)}
  </tr> `;
}
