import { formatInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Overview, SourceView } from "./readOverview.ts";
import { renderCoverage } from "./coverageStrip.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { COUNT_MAX } from "../../health/standing.sql.ts";
import {
  describeAge,
  describeBoundedCount,
  describeCount,
  describeDelay,
  describeSpan,
  renderAlert,
  renderGood,
  renderInstant,
  renderSentence,
  renderTime,
  renderWarning,
  secondsSince,
  sourceQuery,
} from "./phrases.ts";
import { renderTasks } from "./taskList.ts";

const HUNDRED = 100;

/** The answers in the order of the questions: fresh, lost, stuck, budget, details. Also sent to open pages. */
export function renderState(overview: Overview): Html {
  const { sources } = overview;
  if (sources.length === 0) return html`<p>No source is configured yet.</p>`;
  return html`${renderSummary(overview)}${sources.map(renderSource)}`;
}

/** The conditions that hold, the most urgent first; without any, the time up to which the mirror is complete. */
function renderSummary({ sources, holding, now }: Overview): Html {
  if (holding.length === 0) return renderAllGood(sources, now);
  return html`<ul class="plain troubles" aria-label="What is wrong">
    ${holding.map(({ condition, subject, since, cause, remedy }) => {
      const { severity, page, label } = condition;
      const address =
        label === "source" && page !== "/readyz?verbose" ? `${page}${sourceQuery(subject)}` : page;
      const sentence = severity === "critical" ? renderAlert(cause) : renderWarning(cause);
      return html`<li class="${severity}" data-condition="${condition.name}">
        ${sentence} <a href="${address}">Details</a>
        <span class="dim"
          >Since ${renderInstant(since)} (${describeSpan(secondsSince(now, since) ?? 0)}).
          ${renderSentence(remedy)}</span
        >
      </li> `;
    })}
  </ul>`;
}

function renderAllGood(sources: readonly SourceView[], now: Instant): Html {
  const unproved = sources.filter(({ standing }) => standing.safeThrough === null);
  if (unproved.length > 0) {
    const names = unproved.map(({ standing }) => standing.sourceId).join(", ");
    return html`<p class="summary-line"><span class="warn">Starting</span>: ${names} not verified yet.</p>`;
  }
  const safe = sources.map(({ standing }) => standing.safeThrough ?? now);
  const earliest = safe.reduce((least, each) => (each < least ? each : least));
  const exact = formatInstant(earliest);
  const age = describeAge(secondsSince(now, earliest));
  return html`<p class="summary-line">
    ${renderGood("All good.")} Complete up to
    <time datetime="${exact}" title="${exact}">${formatInstant(earliest, 0).slice(11, 16)}</time> UTC
    (${age}).
  </p>`;
}

function renderSource(source: SourceView): Html {
  const { standing } = source;
  const id = `source-${standing.sourceId}`;
  return html`<section aria-labelledby="${id}" class="source">
    <h2 id="${id}">${standing.sourceId} <span class="badge">${standing.mode}</span></h2>
    <ul class="cards">
      ${renderFresh(source)}${renderLost(source)}${renderStuck(source)}${renderBudget(source)}
    </ul>
    ${renderCoverage(source.coverage)} ${renderTasks(source)}
  </section>`;
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
  const until = safeThrough === null ? html`` : html`: ${renderTime(formatInstant(safeThrough, 0))}`;
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
    meaning: html`every change before this is here (safe through)${until}${renderExceptions(standing)}`,
    facts: [
      ...renderBreaches(standing),
      [
        "Last event, all time",
        html`<a href="/ops?via=webhook#tail-title">${ago(lastEventAt, "none received")}</a>`,
      ],
      ["Webhook lag p50 / p95, last hour", late],
      ["Poll watermark, now", html`<a href="/ops/walks${query}">${ago(polledThrough, "never polled")}</a>`],
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
      >${renderAlert(`except for ${describeCount(exceptions)} ${orders} seen but not read`)}</a
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

const HEALTH: Readonly<Record<WebhookHealth, string>> = {
  "not-configured": "polled only: no webhook secret is set",
  "never-seen": "no event has ever arrived: is the address entered at the provider?",
  working: "working",
  losing: "some lost, repaired by reads",
  stopped: "stopped",
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
          >${reason} ${describeCount(count)}</a
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
    meaning: "of our rate of order lists, last 10 min",
    facts: [
      [
        "Order lists, last 10 min",
        html`${renderMeter(sent, allowed)} ${describeCount(sent)} of ${describeCount(allowed)}`,
      ],
      [
        "All requests by purpose, last hour",
        html`<a href="/ops/requests${query}">${purposes.join(" · ") || "none"}</a>`,
      ],
      ["Windows read", html`<a href="/ops/walks${query}">latest</a>`],
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
