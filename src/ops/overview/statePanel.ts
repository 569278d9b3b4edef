import { formatInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Viewer } from "../auth/viewer.ts";
import type { Overview, SourceView } from "./readOverview.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
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
import { renderAlert, renderTime } from "../../html/marks.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { describeReason } from "../lists/quarantineReasons.ts";
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
  const { standing } = source;
  const id = `source-${standing.sourceId}`;
  return html`<details class="source">
    <summary id="${id}">${standing.sourceId} <span class="badge">${standing.mode}</span></summary>
    <ul class="cards">
      ${renderFresh(source)}${renderLost(source)}${renderStuck(source)}${renderBudget(source)}
    </ul>
    ${renderTasks(source)}
  </details>`;
}

/** One card: a question, a number that links to its details, the number's meaning, and related facts. */
function renderCard(card: {
  question: string;
  number: string;
  address: string;
  meaning: string | Html;
  facts: readonly (readonly [string, string | Html])[];
}): Html {
  return html`<li>
    <h3>${card.question}</h3>
    <p class="number"><a href="${card.address}">${card.number}</a></p>
    <p>${card.meaning}</p>
    <dl>
      ${card.facts.map(
        ([term, value]) =>
          html`<dt>${term}</dt>
            <dd>${value}</dd> `,
      )}
    </dl>
  </li> `;
}

function renderFresh({ standing, lag }: SourceView): Html {
  const { sourceId, now, safeThrough, polledThrough, lastCycleEndedAt, lastEventAt } = standing;
  const query = sourceQuery(sourceId);
  const ago = (at: Instant | null, never: string) =>
    at === null ? never : describeAge(secondsSince(now, at));
  const meaning =
    safeThrough === null
      ? html`nothing is verified yet`
      : html`complete up to ${renderTime(formatInstant(safeThrough, 0))}`;
  const late =
    lag === null
      ? html`no event has changed an order`
      : html`<a href="/ops/slow${query}"
            >${describeDelay(lag.p50Seconds)} / ${describeDelay(lag.p95Seconds)}</a
          >
          of ${describeCount(lag.events)} events`;
  return renderCard({
    question: "Fresh?",
    number: ago(safeThrough, "not yet"),
    address: `/ops/walks${query}`,
    meaning: html`${meaning}${renderExceptions(standing)}`,
    facts: [
      ...renderBreaches(standing),
      [
        "Last event, all time",
        html`<a href="/ops?via=webhook#tail-title">${ago(lastEventAt, "none received")}</a>`,
      ],
      ["Webhook lag p50 / p95, last hour", late],
      ["Polled up to", html`<a href="/ops/walks${query}">${ago(polledThrough, "never polled")}</a>`],
      ["Last poll ended", ago(lastCycleEndedAt, "never")],
    ],
  });
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

function renderBreaches({ breaches, lastBreachAt, now }: SourceView["standing"]): [string, Html][] {
  if (lastBreachAt === null) return [];
  const times = breaches === 1 ? "once" : `${describeCount(breaches)} times`;
  return [
    [
      "Proofs withdrawn",
      html`${renderAlert(`${times}, last ${describeAge(secondsSince(now, lastBreachAt))}`)}`,
    ],
  ];
}

const WEBHOOKS: Readonly<Record<WebhookHealth, string>> = {
  "not-configured": "polled only",
  "never-seen": "never arrived",
  working: "working",
  losing: "some lost",
  stopped: "stopped",
};

const HEALTH: Readonly<Record<WebhookHealth, string>> = {
  ...WEBHOOKS,
  "not-configured": "polled only: no webhook secret is set",
  "never-seen": "no event has ever arrived: is the address entered at the provider?",
  losing: "some lost, repaired by reads",
};

function renderLost({ standing, webhooks }: SourceView): Html {
  const { sourceId, lost, announced, late } = standing;
  const rate = lossRate(standing);
  const share = rate === null ? "none was due" : `${(rate * HUNDRED).toFixed(2)} %`;
  const address = `/ops/lost${sourceQuery(sourceId)}`;
  return renderCard({
    question: "Lost?",
    number: describeCount(lost),
    address,
    meaning: "webhooks missed in the last 24 h; polling repairs them",
    facts: [
      [
        "Webhooks",
        webhooks === "stopped"
          ? html`${renderAlert("stopped")} <a href="${address}">since when?</a>`
          : HEALTH[webhooks],
      ],
      [
        "Missed webhooks, last 24 h",
        html`<a href="${address}">${share}</a> of ${describeCount(lost + announced)}`,
      ],
      ["Late webhooks, last 24 h", html`<a href="#trends">${describeCount(late)}</a>`],
      ["Webhooks still awaited, now", html`<a href="${address}">${describeCount(standing.awaited)}</a>`],
      ["Missed, all time", describeCount(standing.lostEver)],
    ],
  });
}

function renderStuck({ standing, quarantinedReasons }: SourceView): Html {
  const { sourceId, now, pending, oldestPendingAt, refetches, quarantined } = standing;
  const query = sourceQuery(sourceId);
  const reasons = quarantinedReasons.map(
    ({ reason, count }) =>
      html` ·
        <a href="/ops/quarantine${query}&reason=${encodeURIComponent(reason)}"
          >${describeReason(reason).name} ${describeCount(count)}</a
        >`,
  );
  return renderCard({
    question: "Stuck?",
    number: describeCount(pending),
    address: `/ops/waiting${query}`,
    meaning: "events waiting, now",
    facts: [
      [
        "Oldest waiting, now",
        oldestPendingAt === null
          ? "none waiting"
          : describeSpan(Math.max(0, secondsSince(now, oldestPendingAt) ?? 0)),
      ],
      [
        "In quarantine, open, all time",
        html`<a href="/ops/quarantine${query}">${describeBoundedCount(quarantined)}</a
          >${quarantined > COUNT_MAX ? ", of the newest" : ""}${reasons}`,
      ],
      [
        "Orders waiting for a re-read, now",
        html`<a href="/ops/refetches${query}">${describeBoundedCount(refetches)}</a>`,
      ],
      ["Jobs", html`<a href="/ops/queues">queues</a>`],
    ],
  });
}

function renderBudget({ standing, requests, listReads }: SourceView): Html {
  const { sourceId, lastError, historySince } = standing;
  const { sent, allowed } = listReads;
  const query = sourceQuery(sourceId);
  const purposes = [...new Set(requests.map(({ purpose }) => purpose))].map((purpose) => {
    const all = requests.filter((each) => each.purpose === purpose);
    return `${purpose} ${describeCount(all.reduce((sum, each) => sum + each.requests, 0))}`;
  });
  return renderCard({
    question: "Budget?",
    number: `${Math.max(0, HUNDRED - Math.ceil((sent / allowed) * HUNDRED))} % left`,
    address: `/ops/requests${query}`,
    meaning: "of our API rate limit for order lists, last 10 min",
    facts: [
      [
        "Order lists, last 10 min",
        html`${renderMeter(sent, allowed)} ${describeCount(sent)} of ${describeCount(allowed)}`,
      ],
      [
        "All requests by purpose, last hour",
        html`<a href="/ops/requests${query}">${purposes.join(" · ") || "none"}</a>`,
      ],
      ["Reads from the provider", html`<a href="/ops/walks${query}">latest</a>`],
      ["Certificates", html`<a href="/ops/certificates${query}">all</a>`],
      ["History, from", historySince === null ? "never polled" : renderTime(formatInstant(historySince, 0))],
      ["Last poll", lastError === null ? "no error" : renderAlert(lastError)],
    ],
  });
}

function renderMeter(sent: number, allowed: number): Html {
  return html`<meter
    min="0"
    max="${allowed}"
    value="${Math.min(sent, allowed)}"
    aria-label="Order lists sent"
  ></meter>`;
}
