import type { Instant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Viewer } from "../auth/viewer.ts";
import type { Overview, SourceView } from "./readOverview.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import type { WebhookLag } from "../../health/opsFigures.sql.ts";
import { COUNT_MAX } from "../../health/standing.sql.ts";
import {
  describeAge,
  describeBoundedCount,
  describeCount,
  describeDelay,
  describeMinute,
  describeSpan,
  secondsSince,
  sourceQuery,
} from "./phrases.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderAlert } from "../../html/marks.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { describeReason } from "../lists/quarantinePage.ts";
import { renderTasks } from "./taskList.ts";
import { renderTiles } from "./tiles.ts";
import { renderTroubles } from "./verdict.ts";

const HUNDRED = 100;

/** The answers: four tiles, what is wrong, a line for each source, and all figures, folded. */
export function renderState(overview: Overview, viewer: Viewer): Html {
  const { sources } = overview;
  if (sources.length === 0) return html`<p class="empty">No source is configured yet.</p>`;
  return html`${renderTiles(overview)}${renderTroubles(overview, viewer)}${renderSourceTable(sources)}${sources.map(renderSource)}`;
}

function renderSourceTable(sources: readonly SourceView[]): Html {
  const link = (page: string, sourceId: string, text: string) =>
    html`<a href="/ops/${page}${sourceQuery(sourceId)}">${text}</a>`;
  return html`<h2>Sources</h2>
    ${renderTable({
      title: "Sources",
      columns: [
        "Source",
        "Complete up to",
        "Webhooks",
        numberColumn("Missed, 24 h"),
        numberColumn("Waiting"),
        numberColumn("In quarantine"),
        numberColumn("Rate used"),
      ],
      cards: true,
      rows: sources.map(({ standing, webhooks, listReads }) => {
        const { sourceId, safeThrough, lost, pending, quarantined } = standing;
        return [
          html`<strong>${sourceId}</strong>`,
          safeThrough === null ? "not yet" : link("walks", sourceId, describeMinute(safeThrough)),
          WEBHOOKS[webhooks],
          link("lost", sourceId, describeCount(lost)),
          link("waiting", sourceId, describeCount(pending)),
          link("quarantine", sourceId, describeBoundedCount(quarantined)),
          link("requests", sourceId, `${Math.ceil((listReads.sent / listReads.allowed) * HUNDRED)} %`),
        ];
      }),
    })}`;
}

function renderSource(source: SourceView): Html {
  const { sourceId, mode } = source.standing;
  return html`<details class="source">
    <summary id="source-${sourceId}">${sourceId} <span class="badge">${mode}</span></summary>
    ${renderFacts(listFacts(source))} ${renderTasks(source)}
    <p><a href="/ops/sources/${encodeURIComponent(sourceId)}">More of ${sourceId}</a></p>
  </details>`;
}

/** Figures with their scope, each with a link to the list behind it. */
function listFacts({ standing, lag, requests, quarantinedReasons }: SourceView): Record<string, Html> {
  const { sourceId, now, safeThrough, polledThrough, lastEventAt, pending, oldestPendingAt } = standing;
  const { lost, announced, quarantined } = standing;
  const query = sourceQuery(sourceId);
  const ago = (at: Instant | null, never: string) =>
    at === null ? never : describeAge(secondsSince(now, at));
  const link = (page: string, text: string) => html`<a href="/ops/${page}">${text}</a>`;
  const rate = lossRate(standing);
  const share = rate === null ? "none was due" : `${(rate * HUNDRED).toFixed(2)} %`;
  const oldest = secondsSince(now, oldestPendingAt);
  const reasons = quarantinedReasons.map(({ reason, count }) => {
    const words = `${describeReason(reason).name} ${describeCount(count)}`;
    return html` · ${link(`quarantine${query}&reason=${encodeURIComponent(reason)}`, words)}`;
  });
  return {
    "Complete up to": html`${link(`walks${query}`, ago(safeThrough, "not yet"))}${renderExceptions(standing)}`,
    ...renderBreaches(standing),
    "Polled up to": link(`walks${query}`, ago(polledThrough, "never polled")),
    "Last event, all time": html`<a href="/ops?via=webhook#tail-title"
      >${ago(lastEventAt, "none received")}</a
    >`,
    "Webhook lag p50 / p95, last hour":
      lag === null ? html`no event has changed an order` : renderLag(lag, `/ops/slow${query}`),
    "Missed webhooks, last 24 h": html`${link(`lost${query}`, share)} of ${describeCount(lost + announced)}`,
    "Events waiting, now": html`${link(`waiting${query}`, describeCount(pending))}${
      oldest !== null && `, the oldest for ${describeSpan(Math.max(0, oldest))}`
    }`,
    "In quarantine, open, all time": html`${link(`quarantine${query}`, describeBoundedCount(quarantined))}${
      quarantined > COUNT_MAX && ", of the newest"
    }${reasons}`,
    "All requests by purpose, last hour": link(`requests${query}`, describePurposes(requests) || "none"),
  };
}

function renderLag({ events, p50Seconds, p95Seconds }: WebhookLag, address: string): Html {
  const text = `${describeDelay(p50Seconds)} / ${describeDelay(p95Seconds)}`;
  return html`<a href="${address}">${text}</a> of ${describeCount(events)} events`;
}

/** The exceptions to the claim, directly next to it. */
function renderExceptions({ exceptions, sourceId }: SourceView["standing"]): Html {
  if (exceptions === 0) return html``;
  const orders = exceptions === 1 ? "order that was" : "orders that were";
  return html`,
    <a href="/ops/quarantine${sourceQuery(sourceId)}"
      >${renderAlert(`except for ${describeCount(exceptions)} ${orders} seen but not read or confirmed`)}</a
    >`;
}

function renderBreaches({ breaches, lastBreachAt, now }: SourceView["standing"]): Record<string, Html> {
  if (lastBreachAt === null) return {};
  const times = breaches === 1 ? "once" : `${describeCount(breaches)} times`;
  return {
    "Proofs withdrawn": renderAlert(`${times}, last ${describeAge(secondsSince(now, lastBreachAt))}`),
  };
}

function describePurposes(requests: SourceView["requests"]): string {
  const sent = new Map<string, number>();
  for (const each of requests) sent.set(each.purpose, (sent.get(each.purpose) ?? 0) + each.requests);
  return [...sent].map(([purpose, count]) => `${purpose} ${describeCount(count)}`).join(" · ");
}

const WEBHOOKS: Readonly<Record<WebhookHealth, string>> = {
  "not-configured": "polled only",
  "never-seen": "never arrived",
  working: "working",
  losing: "some lost",
  stopped: "stopped",
};
