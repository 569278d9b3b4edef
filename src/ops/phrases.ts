import { describeAge, describeSpan, secondsSince } from "../domain/duration.ts";
import { formatInstant } from "../domain/order/instant.ts";
import { wordFor } from "../domain/wordFor.ts";
import { COUNT_MAX } from "../health/conditions/condition.ts";
import { describeWebhooks } from "../health/conditions/webhookCalls.sql.ts";
import type { Standing } from "../health/conditions/standing.ts";
import { judgeFreshness } from "../health/freshness.ts";
import { eventAddress, orderAddress } from "../health/pageAddresses.ts";
import { html, type Html } from "../html/html.ts";
import { renderMinute, renderName, renderTime, renderWarning } from "../html/parts.ts";

/** Digits grouped. */
export function describeCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** "1,234 bytes", "1 byte". */
export function countOf(count: number, noun: string): string {
  return `${describeCount(count)} ${wordFor(count, noun)}`;
}

/** Writes a count that stopped at COUNT_MAX + 1. */
export function describeBoundedCount(count: number): string {
  return count > COUNT_MAX ? `more than ${describeCount(COUNT_MAX)}` : describeCount(count);
}

/** A stored word as people read it: picked_up is "Picked up". */
export function describeWord(word: string): string {
  const words = word.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** An order's reference as a link to its page; a dash if there is none. */
export function linkOrder({ sourceId, reference }: { sourceId: string; reference: string | null }): Html {
  return reference === null
    ? html`–`
    : html`<a href="${orderAddress({ sourceId, reference })}">${renderName(reference)}</a>`;
}

/** An event's id as a link to its page. */
export function linkEvent(sourceId: string, eventId: string | null): Html {
  return eventId === null
    ? html`–`
    : html`<a href="${eventAddress(sourceId, eventId)}">${renderName(eventId)}</a>`;
}

/** Between backticks. One that is quoted for the shell is part of the command: a reference may contain it. */
const COMMAND = /`((?:'[^']*'|\\[^`]|[^`'\\])*)`/;

/** A sentence with commands between backticks, and with instants as ISO 8601, which are shown as all other times. */
export function renderSentence(text: string): Html {
  const parts = text.split(COMMAND);
  return html`${parts.map((part, index) => (index % 2 === 1 ? renderCommand(part) : renderInstants(part)))}`;
}

/** A command wraps between its words, and not behind the hyphens of an option. */
function renderCommand(command: string): Html {
  const words = command
    .split(/(--[\w-]+)/)
    .map((word, index) => (index % 2 === 1 ? html`<span class="nowrap">${word}</span>` : word));
  return html`<code>${words}</code>`;
}

function renderInstants(text: string): Html {
  const parts = text.split(/(\d{4}-\d{2}-\d{2}T[\d:.]+Z)/);
  return html`${parts.map((part, index) => (index % 2 === 1 ? renderTime(part) : part))}`;
}

/** More sources with old data than this are counted. */
const NAMED_MAX = 3;

/** Renders how far the data on a page reaches, for everybody: of each source that is behind, why and since when. */
export function renderFreshness(sources: readonly Standing[]): Html {
  if (sources.length === 0) return html``;
  const old = sources.filter((source) => judgeFreshness(source).isOld);
  const named = old
    .slice(0, NAMED_MAX)
    .map((source) => html`<li>${renderOld(source, sources.length > 1)}</li> `);
  const more =
    old.length > named.length &&
    html`<li>and of <a href="/ops#sources">${countOf(old.length - named.length, "more source")}</a></li>`;
  return html`<div class="freshness">
    ${
      old.length === 0
        ? renderUpToDate(sources)
        : html`<ul class="plain">
            ${named}${more}
          </ul>`
    }
  </div>`;
}

function renderOld(source: Standing, isNamed: boolean): Html {
  const { upTo, why, since } = judgeFreshness(source);
  const of = isNamed ? ` of ${source.sourceId}` : "";
  const data =
    upTo === null
      ? html`Nothing${of} was read from the provider yet.`
      : html`Data${of} up to ${renderMinute(upTo)}.`;
  const span = since === null ? "" : ` (${describeSpan(secondsSince(source.now, since))})`;
  const from = since === null ? html`` : html` since ${renderMinute(since)}${span}`;
  return renderWarning(html`${data} ${why !== null && html`${why}${from}.`}`);
}

function renderUpToDate(sources: readonly Standing[]): Html {
  const [first, ...others] = sources
    .map((source) => ({ source, upTo: judgeFreshness(source).upTo ?? source.createdAt }))
    .toSorted((one, other) => (one.upTo < other.upTo ? -1 : 1));
  if (first === undefined) return html``;
  const { source, upTo } = first;
  const all = others.length === 0 ? "" : ` of all ${sources.length} sources`;
  return html`<span class="dim"
    >Data${all} up to ${renderMinute(upTo)} (${describeAge(secondsSince(source.now, upTo))}).</span
  >`;
}

/** More sources without an order are like these. */
const FIRST_STEPS_MAX = 5;

/** Renders what brings the first orders of the sources that have none, as far as it has not happened. */
export function renderFirstSteps(sources: readonly Standing[]): Html {
  const empty = sources.filter(({ hasOrders }) => !hasOrders).slice(0, FIRST_STEPS_MAX);
  if (empty.length === 0) return html``;
  return html`<ul class="plain">
    ${empty.map(renderFirstStep)}
  </ul>`;
}

function renderFirstStep(source: Standing): Html {
  const { sourceId, historySince, safeThrough, pausedAt, intervalSeconds, leader, trouble } = source;
  const webhooks = describeWebhooks(source);
  const read =
    pausedAt !== null
      ? "polling is paused"
      : leader === null
        ? "no poller runs: start `order-mirror poller`"
        : trouble !== null
          ? "the provider cannot be read at the moment"
          : safeThrough === null || historySince === null
            ? "its history is being read"
            : `no order has changed since ${formatInstant(historySince, 0)}; read again every ${describeSpan(intervalSeconds ?? 30)}`;
  const calls =
    webhooks === "never-seen"
      ? `enter this host with /webhooks/${sourceId} as its webhook address at the provider`
      : webhooks === "not-configured"
        ? `set its webhook secret for web, and enter the address /webhooks/${sourceId} at the provider`
        : webhooks === "working" || webhooks === "losing"
          ? "webhooks arrive"
          : "webhooks are not accepted";
  return html`<li><strong>${sourceId}</strong>: ${renderSentence(`${read}; ${calls}.`)}</li> `;
}
