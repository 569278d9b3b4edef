import { formatInstant } from "../../domain/order/instant.ts";
import type { SlowEvent } from "../../health/opsFigures.sql.ts";
import type {
  LostEvent,
  SentRequests,
  WaitingEvent,
  WaitingRefetch,
  WalkedWindow,
  Task,
} from "./opsLists.sql.ts";
import { html } from "../../runtime/http/html.ts";
import { renderList } from "./listPage.ts";
import type { ListContext } from "./listPage.ts";
import {
  describeAge,
  describeCount,
  describeDelay,
  orderAddress,
  renderInstant,
} from "../overview/phrases.ts";

const linkOrder = (order: { sourceId: string; reference: string }) =>
  html`<a href="${orderAddress(order)}">${order.reference}</a>`;

export function renderLostEvents(events: readonly LostEvent[], context: ListContext): string {
  return renderList({
    title: "Lost events, last 24 h",
    note: "Changes found by a read without an event. Lost: the event did not arrive within the grace period, although the provider announces that status. Waiting: the event may still arrive.",
    columns: ["Order", "Source", "Status", "Event", "Found by", "Found, UTC", "After the change"],
    rows: events.map((event) => [
      linkOrder(event),
      event.sourceId,
      event.status,
      event.state,
      event.via,
      renderInstant(event.foundAt),
      describeDelay(event.delaySeconds),
    ]),
    context,
  });
}

export function renderSlowEvents(events: readonly SlowEvent[], context: ListContext): string {
  return renderList({
    title: "Slowest events, last hour",
    note: "Events among the latest decisions that changed an order, sorted by the time from the change to the decision.",
    columns: ["Order", "Source", "Event", "Type", "Decided, UTC", "After the change"],
    rows: events.map(({ sourceId, reference, eventId, eventType, seenAt, lagSeconds }) => [
      reference === null ? "–" : linkOrder({ sourceId, reference }),
      sourceId,
      eventId ?? "–",
      eventType ?? "–",
      renderInstant(seenAt),
      describeDelay(lagSeconds),
    ]),
    context,
  });
}

export function renderWaiting(events: readonly WaitingEvent[], context: ListContext): string {
  return renderList({
    title: "Waiting, now",
    note: "Received events that await a decision. If an event waits for minutes, no worker is running.",
    columns: ["Event", "Source", "Received"],
    rows: events.map(({ eventId, sourceId, ageSeconds }) => [eventId, sourceId, describeAge(ageSeconds)]),
    context,
  });
}

export function renderRefetches(refetches: readonly WaitingRefetch[], context: ListContext): string {
  return renderList({
    title: "Waiting for a re-read, now",
    note: "Orders that the poller reads again one by one, in this order, next to its other work. After each failure the wait becomes longer.",
    columns: ["Order", "Source", "Why", "Tried", "Requested", "Last error"],
    rows: refetches.map((refetch) => [
      linkOrder(refetch),
      refetch.sourceId,
      refetch.reason,
      String(refetch.attempts),
      describeAge(refetch.ageSeconds),
      refetch.lastError ?? "",
    ]),
    context,
  });
}

export function renderSentRequests(sent: readonly SentRequests[], context: ListContext): string {
  return renderList({
    title: "Requests to the provider, last two days",
    note: "Requests of all processes, by the minute in which they were recorded. Each also counts towards the policy sustained.",
    columns: ["Minute, UTC", "Source", "Rate policy", "For", "Requests"],
    rows: sent.map(({ minute, sourceId, policy, purpose, requests }) => [
      new Date(minute * 1_000).toISOString().slice(5, 16).replace("T", " "),
      sourceId,
      policy,
      purpose,
      describeCount(requests),
    ]),
    context,
  });
}

export function renderWalks(walks: readonly WalkedWindow[], context: ListContext): string {
  return renderList({
    title: "Windows read most recently",
    note: "Windows of updatedAt that were read completely from the provider. Proved windows advance safe through.",
    columns: ["Source", "Sweep", "From", "To (exclusive)", "Proved", "Requests", "Orders", "Read"],
    rows: walks.map((walk) => [
      walk.sourceId,
      walk.sweep,
      formatInstant(walk.since),
      formatInstant(walk.until),
      walk.proved ? "yes" : "no",
      describeCount(walk.requests),
      describeCount(walk.orders),
      describeAge(walk.endedAgeSeconds),
    ]),
    context,
  });
}

export function renderTaskList(tasks: readonly Task[], context: ListContext): string {
  return renderList({
    title: "Backfills and verifications, all time",
    note: "Periods of updatedAt for which a read or a comparison was requested. Differences are repaired when they are found.",
    columns: [
      "What",
      "Source",
      "From",
      "To (exclusive)",
      "State",
      "Orders",
      "Differences",
      "Requested",
      "Last error",
    ],
    rows: tasks.map((task) => [
      `${task.kind} ${task.id}`,
      task.sourceId,
      formatInstant(task.since, 0),
      formatInstant(task.until, 0),
      task.state,
      describeCount(task.orders),
      task.differences === null ? "–" : describeCount(task.differences),
      describeAge(task.requestedAgeSeconds),
      task.lastError ?? "–",
    ]),
    context,
  });
}
