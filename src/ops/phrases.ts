import type { DecisionRow } from "../changes/changeTail.sql.ts";
import { judgeFreshness } from "../health/freshness.ts";
import { COUNT_MAX } from "../health/conditions/condition.ts";
import type { Standing } from "../health/conditions/standing.ts";
import { NANOS_PER_SECOND, type Instant } from "../domain/order/instant.ts";
import { html, type Html } from "../html/html.ts";
import { renderMinute, renderName, renderTime, renderWarning } from "../html/parts.ts";

/** Digits grouped. */
export function describeCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** The same for a count that stopped at COUNT_MAX + 1. */
export function describeBoundedCount(count: number): string {
  return count > COUNT_MAX ? `more than ${describeCount(COUNT_MAX)}` : describeCount(count);
}

/** A stored word as people read it: picked_up is "Picked up". */
export function describeWord(word: string): string {
  const words = word.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** What each decision says, without a full stop. */
export const VERDICT_SENTENCES: Readonly<Record<DecisionRow["verdict"], string>> = {
  applied: "It is the newest state",
  corrected: "A read showed this state, which refutes the later updatedAt known before",
  confirmed: "A later read showed the same content",
  stale: "A newer state was already known",
  refuted: "A read made after that updatedAt had not shown it, so it was not applied",
  duplicate: "Exactly this state was already known",
  ignored: "It contains nothing to apply",
  quarantined: "It could not be applied and is in quarantine",
  gone: "The provider answered that the order does not exist, so it is no longer served",
};

/** Seconds from `at` to `now`; null if `at` is null. */
export function secondsSince(now: Instant, at: Instant | null): number | null {
  return at === null ? null : Number(now - at) / Number(NANOS_PER_SECOND);
}

const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 86_400;

/** An age in whole units, rounded down; two units from a minute on. */
export function describeAge(ageSeconds: number | null): string {
  if (ageSeconds === null) return "at an unknown time";
  if (ageSeconds <= -1) return `${describeSpan(-ageSeconds)} ahead of this clock`;
  return `${describeSpan(Math.max(0, ageSeconds))} ago`;
}

/** A duration in whole units; number and unit stay on one line. */
export function describeSpan(seconds: number): string {
  const whole = Math.floor(seconds);
  const minutes = Math.floor((whole % HOUR_SECONDS) / MINUTE_SECONDS);
  const hours = Math.floor((whole % DAY_SECONDS) / HOUR_SECONDS);
  if (whole < MINUTE_SECONDS) return `${whole}\u00a0s`;
  if (whole < HOUR_SECONDS) return `${minutes}\u00a0min ${whole % MINUTE_SECONDS}\u00a0s`;
  if (whole < DAY_SECONDS) return `${hours}\u00a0h ${minutes}\u00a0min`;
  return `${Math.floor(whole / DAY_SECONDS)}\u00a0d ${hours}\u00a0h`;
}

/** A delay: milliseconds below a second, tenths below a minute, otherwise as in describeSpan. */
export function describeDelay(seconds: number): string {
  if (seconds < 1) return `${Math.max(0, Math.round(seconds * 1_000))}\u00a0ms`;
  return seconds < MINUTE_SECONDS ? `${seconds.toFixed(1)}\u00a0s` : describeSpan(seconds);
}

/** The address of an order's page, or of an action on it. */
export function orderAddress(
  { sourceId, reference }: { sourceId: string; reference: string },
  action: "" | "/refetch" = "",
): string {
  const source = `/ops/orders/${encodeURIComponent(sourceId)}`;
  // Browsers remove such a segment from a path, even if it is encoded.
  return reference === "." || reference === ".."
    ? `${source}${action}?reference=${reference}`
    : `${source}/${encodeURIComponent(reference)}${action}`;
}

/** An order's reference as a link to its page; a dash if there is none. */
export function linkOrder({ sourceId, reference }: { sourceId: string; reference: string | null }): Html {
  return reference === null
    ? html`–`
    : html`<a href="${orderAddress({ sourceId, reference })}">${renderName(reference)}</a>`;
}

export function eventAddress(sourceId: string, eventId: string): string {
  return `/ops/events/${encodeURIComponent(sourceId)}/${encodeURIComponent(eventId)}`;
}

/** An event's id as a link to its page. */
export function linkEvent(sourceId: string, eventId: string | null): Html {
  return eventId === null
    ? html`–`
    : html`<a href="${eventAddress(sourceId, eventId)}">${renderName(eventId)}</a>`;
}

export function sourceAddress(sourceId: string): string {
  return `/ops/sources/${encodeURIComponent(sourceId)}`;
}

/** The source of a list, as a query string; empty for all. */
export function sourceQuery(sourceId: string): string {
  return `?source=${encodeURIComponent(sourceId)}`;
}

/** Between backticks. One that is quoted for the shell is part of the command: a reference may contain it. */
const COMMAND = /`((?:'[^']*'|\\[^`]|[^`'\\])*)`/;

/** A sentence with commands between backticks, and with instants as ISO 8601, which are shown as all other times. */
export function renderSentence(text: string): Html {
  const parts = text.split(COMMAND);
  return html`${parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : renderInstants(part)))}`;
}

function renderInstants(text: string): Html {
  const parts = text.split(/(\d{4}-\d{2}-\d{2}T[\d:.]+Z)/);
  return html`${parts.map((part, index) => (index % 2 === 1 ? renderTime(part) : part))}`;
}

/** More sources with old data than this are counted. */
const NAMED_MAX = 3;

/** How far the data on a page reaches, for everybody: of each source that is behind, why and since when. */
export function renderFreshness(sources: readonly Standing[]): Html {
  if (sources.length === 0) return html``;
  const old = sources.filter((source) => judgeFreshness(source).isOld);
  const named = old
    .slice(0, NAMED_MAX)
    .map((source) => html`<li>${renderOld(source, sources.length > 1)}</li> `);
  const more =
    old.length > named.length &&
    html`<li>and of ${old.length - named.length} more <a href="/ops#sources">sources</a></li>`;
  return html`<div class="freshness" role="status">
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
  const span = since === null ? "" : ` (${describeSpan(secondsSince(source.now, since) ?? 0)})`;
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
