import { formatInstant } from "../../domain/order/instant.ts";
import { lossRate } from "../../domain/order/lostEvents.ts";
import type { WebhookHealth } from "../../domain/order/lostEvents.ts";
import type { Collected, SourceView } from "../health/collector.ts";
import { renderStrip } from "./coverageStrip.ts";
import { html } from "../html/html.ts";
import type { Html } from "../html/html.ts";
import {
  COUNT_MAX,
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
  sourceQuery,
} from "./phrases.ts";
import { renderWorks } from "./workList.ts";

const HUNDRED = 100;

/** The answers in the order in which people ask: fresh, lost, stuck, budget, details. Sent to open pages as well. */
export function renderState({ sources }: Collected): Html {
  if (sources.length === 0) return html`<p>None was ever configured.</p>`;
  return html`${renderVerdict(sources)}${sources.map(renderSource)}`;
}

/** Where to look first when an alert holds; its sentence says what to do. */
const ALERT_PLACES: Readonly<Record<string, string>> = {
  OrderMirrorQuarantine: "/ops/quarantine",
  OrderMirrorEventsWait: "/ops/waiting",
  OrderMirrorEventsStopped: "/ops/lost",
};

function renderVerdict(sources: readonly SourceView[]): Html {
  const troubles = sources.flatMap(({ figures, alerts }) => alerts.map((alert) => ({ alert, figures })));
  const unproved = sources.filter(({ figures }) => figures.safeThrough === null);
  if (troubles.length === 0 && unproved.length > 0) {
    const names = unproved.map(({ figures }) => figures.sourceId).join(", ");
    return html`<p class="verdict-line">
      <span class="warn">Not proved yet of ${names}</span>: no window was read whole so far.
    </p>`;
  }
  if (troubles.length === 0) {
    return html`<p class="verdict-line">
      ${renderGood("In sync")}: no gap, nothing stuck, nobody is needed.
    </p>`;
  }
  return html`<ul class="plain troubles" aria-label="What needs a person">
    ${troubles.map(({ alert, figures }) => {
      const place = ALERT_PLACES[alert.name] ?? "/ops/walks";
      const error = alert.name === "OrderMirrorPollFailing" ? ` ${figures.lastError ?? ""}` : "";
      return html`<li>
        ${renderAlert(`${alert.summarize(figures)}${error}`)}
        <a href="${place}${sourceQuery(figures.sourceId)}">Look</a>
        <span class="dim">${renderSentence(alert.fix)}</span>
      </li> `;
    })}
  </ul>`;
}

function renderSource(source: SourceView): Html {
  const { figures, standing } = source;
  const id = `source-${figures.sourceId}`;
  const paused =
    standing.pausedAt === null
      ? html``
      : html`<p>
          <span class="warn">Paused</span> by a person since ${renderInstant(standing.pausedAt)} UTC: events
          are received, nothing is polled. <code>order-mirror source resume ${figures.sourceId}</code>
        </p>`;
  return html`<section aria-labelledby="${id}" class="source">
    <h2 id="${id}">${figures.sourceId} <span class="badge">${figures.mode}</span></h2>
    ${paused}
    <ul class="cards">
      ${renderFresh(source)}${renderLost(source)}${renderStuck(source)}${renderBudget(source)}
    </ul>
    ${renderCoverage(source)} ${renderWorks(source)}
  </section>`;
}

/** One card: a question, its number with where that leads, what it is of, and what else belongs to it. */
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

function renderFresh({ figures, standing, lag }: SourceView): Html {
  const { sourceId, now, safeThrough, polledThrough, lastCycleEndedAt, lastEventAt } = figures;
  const query = sourceQuery(sourceId);
  const ago = (at: number | null, never: string) => (at === null ? never : describeAge(now - at));
  const until =
    standing.safeThrough === null ? html`` : html`: ${renderTime(formatInstant(standing.safeThrough, 0))}`;
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
    meaning: html`every change until then is here (safe through)${until}${renderExceptions(figures)}`,
    facts: [
      ...renderBreaches(figures),
      [
        "Last event, all time",
        html`<a href="/ops?via=webhook#tail-title">${ago(lastEventAt, "none came")}</a>`,
      ],
      ["Webhook lag p50 / p95, last hour", late],
      ["Poll watermark, now", html`<a href="/ops/walks${query}">${ago(polledThrough, "never polled")}</a>`],
      ["Last poll ended", ago(lastCycleEndedAt, "never")],
    ],
  });
}

/** What the claim does not speak of, right beside it. */
function renderExceptions({ exceptions, sourceId }: SourceView["figures"]): Html {
  if (exceptions === 0) return html``;
  const orders = exceptions === 1 ? "order that was" : "orders that were";
  return html`,
    <a href="/ops/quarantine${sourceQuery(sourceId)}"
      >${renderAlert(`except for ${describeCount(exceptions)} ${orders} seen and not read`)}</a
    >`;
}

function renderBreaches({ breaches, lastBreachAt, now }: SourceView["figures"]): [string, Html][] {
  if (lastBreachAt === null) return [];
  const times = breaches === 1 ? "once" : `${describeCount(breaches)} times`;
  return [["Proofs taken back", html`${renderAlert(`${times}, last ${describeAge(now - lastBreachAt)}`)}`]];
}

const HEALTH: Readonly<Record<WebhookHealth, string>> = {
  "not-configured": "polled only: no webhook secret is set",
  "never-seen": "no event has ever come: is the address entered at the provider?",
  working: "working",
  losing: "losing some; reads repaired them",
  stopped: "stopped",
};

function renderLost({ figures, standing, webhooks, record }: SourceView): Html {
  const { lost, announced } = record;
  const rate = lossRate(record);
  const share = rate === null ? "nothing was to be announced" : `${(rate * HUNDRED).toFixed(2)} %`;
  const late = record.delays.reduce((sum, delay) => sum + delay.late, 0);
  const address = `/ops/lost${sourceQuery(figures.sourceId)}`;
  return renderCard({
    question: "Lost?",
    number: describeCount(lost),
    address,
    meaning: "events lost, and repaired by a read, last 24 h",
    facts: [
      [
        "Webhooks",
        webhooks === "stopped"
          ? html`${renderAlert("stopped")} <a href="${address}">since when?</a>`
          : HEALTH[webhooks],
      ],
      [
        "Lost of all to be announced, last 24 h",
        html`<a href="${address}">${share}</a> of ${describeCount(lost + announced)}`,
      ],
      [
        "Came after a read had found the change, last 24 h",
        html`<a href="#trends">${describeCount(late)}</a>`,
      ],
      [
        "Found by a read, the event may still come, now",
        html`<a href="${address}">${describeCount(standing.unannounced)}</a>`,
      ],
      ["Lost, all time", describeCount(figures.lost)],
    ],
  });
}

function renderStuck({ figures, parked }: SourceView): Html {
  const { sourceId, now, pending, oldestPendingAt, refetches, quarantined } = figures;
  const query = sourceQuery(sourceId);
  const reasons = parked.map(
    ({ reason, count }) =>
      html` ·
        <a href="/ops/quarantine${query}&reason=${encodeURIComponent(reason)}"
          >${reason} ${describeCount(count)}</a
        >`,
  );
  return renderCard({
    question: "Stuck?",
    number: describeBoundedCount(pending),
    address: `/ops/waiting${query}`,
    meaning: "events without a decision, now",
    facts: [
      [
        "Oldest waiting, now",
        oldestPendingAt === null ? "nothing waits" : describeSpan(Math.max(0, now - oldestPendingAt)),
      ],
      [
        "In quarantine, open, all time",
        html`<a href="/ops/quarantine${query}">${describeBoundedCount(quarantined)}</a
          >${quarantined > COUNT_MAX ? ", of the newest" : ""}${reasons}`,
      ],
      [
        "Orders to be read again, now",
        html`<a href="/ops/refetches${query}">${describeBoundedCount(refetches)}</a>`,
      ],
      ["Jobs", html`<a href="/ops/queues">queues</a>`],
    ],
  });
}

function renderBudget({ figures, standing, requests, listReads }: SourceView): Html {
  const { sourceId, lastError } = figures;
  const { sent, allowed } = listReads;
  const { historySince } = standing;
  const query = sourceQuery(sourceId);
  const purposes = [...new Set(requests.map(({ purpose }) => purpose))].map((purpose) => {
    const all = requests.filter((each) => each.purpose === purpose);
    return `${purpose} ${describeCount(all.reduce((sum, each) => sum + each.requests, 0))}`;
  });
  return renderCard({
    question: "Budget?",
    number: `${Math.max(0, HUNDRED - Math.ceil((sent / allowed) * HUNDRED))} % left`,
    address: `/ops/requests${query}`,
    meaning: "of the rate of order lists that is ours, last 10 min",
    facts: [
      [
        "Order lists, last 10 min",
        html`${renderMeter(sent, allowed)} ${describeCount(sent)} of ${describeCount(allowed)}`,
      ],
      [
        "All requests by purpose, last hour",
        html`<a href="/ops/requests${query}">${purposes.join(" · ") || "none"}</a>`,
      ],
      ["Windows read", html`<a href="/ops/walks${query}">the last ones</a>`],
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

function renderCoverage({ coverage }: SourceView): Html {
  const { gaps, cells, sourceId } = coverage;
  const proved = cells.filter((cell) => cell === "proved").length;
  const list = html`<ul class="plain">
    ${gaps.map(
      ({ since, until }) =>
        html`<li>
          ${renderAlert("Gap")} ${renderTime(formatInstant(since, 0))} to
          ${renderTime(formatInstant(until, 0))}: the poller reads it again by itself; at once with
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
      <span class="key open"></span> too young to be proved <span class="key before"></span> before the
      history ·
      <a href="/ops/walks${sourceQuery(sourceId)}">windows read</a>
    </p>
    ${gaps.length === 0 ? html`` : list}`;
}
