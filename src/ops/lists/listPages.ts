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
    note: "Changes that a read brought, and no event. Lost: it did not come within the grace period, though the provider announces that status. Waiting: it may still come.",
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
    note: "Events that changed an order, of the last decisions, by how long after the change they were decided on.",
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
    note: "Events that were received and await a decision. What waits for minutes needs a worker that runs.",
    columns: ["Event", "Source", "Received"],
    rows: events.map(({ eventId, sourceId, ageSeconds }) => [eventId, sourceId, describeAge(ageSeconds)]),
    context,
  });
}

export function renderRefetches(refetches: readonly WaitingRefetch[], context: ListContext): string {
  return renderList({
    title: "To be read again, now",
    note: "Orders that the poller reads again one by one, in this order, beside everything else. One that cannot be read waits longer each time.",
    columns: ["Order", "Source", "Why", "Tried", "Asked for", "Last error"],
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
    note: "Of all processes, by the minute in which they were written down. Every one counts against the policy sustained as well.",
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
    title: "Windows read last",
    note: "Windows of updatedAt that were read whole from the provider. Proved ones move safe through.",
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
    note: "Periods of updatedAt that were asked to be read or compared. A difference was repaired when it was found.",
    columns: [
      "What",
      "Source",
      "From",
      "To (exclusive)",
      "State",
      "Orders",
      "Differences",
      "Asked for",
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
