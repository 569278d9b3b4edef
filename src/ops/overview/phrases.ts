import type { Verdict } from "../../apply/batchRow.sql.ts";
import { SOURCE_PAGE } from "../../health/condition.ts";
import type { Holding } from "../../health/judge.ts";
import { COUNT_MAX } from "../../health/standing.sql.ts";
import { NANOS_PER_SECOND } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { renderName, renderTime } from "../../html/parts.ts";

/** The colour of a verdict that has one. */
export const VERDICT_CLASS: Partial<Record<Verdict, string>> = {
  applied: "good",
  confirmed: "good",
  quarantined: "alert",
};

/** Digits grouped. */
export function describeCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** The same for a count that stopped at COUNT_MAX + 1. */
export function describeBoundedCount(count: number): string {
  return count > COUNT_MAX ? `more than ${describeCount(COUNT_MAX)}` : describeCount(count);
}

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

/** The page behind a problem: of a source's problem only what concerns that source. */
export function pageOf({ condition: { page, label }, subject }: Holding): string {
  if (page === SOURCE_PAGE) return sourceAddress(subject);
  return label === "source" ? `${page}${sourceQuery(subject)}` : page;
}
