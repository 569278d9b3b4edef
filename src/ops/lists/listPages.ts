import type { RequestHandler } from "express";
import { listCertificates } from "../../certificates/certificates.sql.ts";
import type { Pool } from "../../database/database.ts";
import { formatInstant } from "../../domain/order/instant.ts";
import { readSlowEvents } from "../../health/opsFigures.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { viewerOf } from "../auth/viewer.ts";
import { readField } from "../html/requests.ts";
import {
  describeAge,
  describeCount,
  describeDelay,
  orderAddress,
  renderInstant,
} from "../overview/phrases.ts";
import { certificateAddress } from "./certificatePage.ts";
import { LIST_LINES, renderList } from "./listPage.ts";
import {
  readLostEvents,
  readSentRequests,
  readTasks,
  readWaitingEvents,
  readWaitingRefetches,
  readWalks,
} from "./opsLists.sql.ts";
import type { ListQuery } from "./opsLists.sql.ts";

const linkOrder = (order: { sourceId: string; reference: string }) =>
  html`<a href="${orderAddress(order)}">${order.reference}</a>`;

/** A list behind a figure of the overview: what it is of, and how a row is shown. */
interface List<Row> {
  readonly title: string;
  readonly note: string;
  readonly columns: readonly string[];
  readonly read: (pool: Pool, query: ListQuery) => Promise<Row[]>;
  readonly cells: (row: Row) => (string | Html)[];
}

/** Serves a list, of the source that the address names or of all. */
function serve<Row>({ read, cells, ...list }: List<Row>): (pool: Pool) => RequestHandler {
  return (pool) => async (request, response) => {
    const sourceId = readField(request.query["source"]) || null;
    const rows = (await read(pool, { sourceId, limit: LIST_LINES })).map(cells);
    response
      .type("html")
      .send(renderList({ ...list, rows, context: { viewer: viewerOf(response), sourceId } }));
  };
}

/** The lists by their address. */
export const LISTS: Readonly<Record<string, (pool: Pool) => RequestHandler>> = {
  "/lost": serve({
    title: "Lost events, last 24 h",
    note: "Changes found by a read without an event. Lost: the event did not arrive within the grace period, although the provider announces that status. Waiting: the event may still arrive.",
    columns: ["Order", "Source", "Status", "Event", "Found by", "Found", "After the change"],
    cells: (event) => [
      linkOrder(event),
      event.sourceId,
      event.status,
      event.state,
      event.via,
      renderInstant(event.foundAt),
      describeDelay(event.delaySeconds),
    ],
    read: readLostEvents,
  }),
  "/slow": serve({
    title: "Slowest events, last hour",
    note: "Events among the latest decisions that changed an order, sorted by the time from the change to the decision.",
    columns: ["Order", "Source", "Event", "Type", "Decided", "After the change"],
    cells: ({ sourceId, reference, eventId, eventType, seenAt, lagSeconds }) => [
      reference === null ? "–" : linkOrder({ sourceId, reference }),
      sourceId,
      eventId ?? "–",
      eventType ?? "–",
      renderInstant(seenAt),
      describeDelay(lagSeconds),
    ],
    read: readSlowEvents,
  }),
  "/waiting": serve({
    title: "Waiting, now",
    note: "Received events that await a decision. If an event waits for minutes, no worker is running.",
    columns: ["Event", "Source", "Received"],
    cells: ({ eventId, sourceId, ageSeconds }) => [eventId, sourceId, describeAge(ageSeconds)],
    read: readWaitingEvents,
  }),
  "/refetches": serve({
    title: "Waiting for a re-read, now",
    note: "Orders that the poller reads again one by one, in this order, next to its other work. After each failure the wait becomes longer.",
    columns: ["Order", "Source", "Why", "Tried", "Requested", "Last error"],
    cells: (refetch) => [
      linkOrder(refetch),
      refetch.sourceId,
      refetch.reason,
      String(refetch.attempts),
      describeAge(refetch.ageSeconds),
      refetch.lastError ?? "",
    ],
    read: readWaitingRefetches,
  }),
  "/requests": serve({
    title: "Requests to the provider, last two days",
    note: "Requests of all processes, by the minute in which they were recorded. Each also counts towards the policy sustained.",
    columns: ["Minute", "Source", "Rate policy", "For", "Requests"],
    cells: ({ minute, sourceId, policy, purpose, requests }) => [
      new Date(minute * 1_000).toISOString().slice(5, 16).replace("T", " "),
      sourceId,
      policy,
      purpose,
      describeCount(requests),
    ],
    read: readSentRequests,
  }),
  "/walks": serve({
    title: "Windows read most recently",
    note: "Windows of updatedAt that were read completely from the provider. Proved windows advance safe through.",
    columns: ["Source", "Sweep", "From", "To (exclusive)", "Proved", "Requests", "Orders", "Read"],
    cells: (walk) => [
      walk.sourceId,
      walk.sweep,
      formatInstant(walk.since),
      formatInstant(walk.until),
      walk.proved ? "yes" : "no",
      describeCount(walk.requests),
      describeCount(walk.orders),
      describeAge(walk.endedAgeSeconds),
    ],
    read: readWalks,
  }),
  "/certificates": serve({
    title: "Certificates, all time",
    note: "Signed statements that the mirror had every order of a period. Days are certified once they are over and proved.",
    columns: ["From", "To (exclusive)", "Source", "Orders", "State", "Statement"],
    cells: (certificate) => [
      formatInstant(certificate.since),
      formatInstant(certificate.until),
      certificate.sourceId,
      describeCount(certificate.orders),
      certificate.disprovedAt === null ? "holds" : "disproved",
      html`<a href="${certificateAddress(certificate)}">${certificate.serial}</a>`,
    ],
    read: listCertificates,
  }),
  "/tasks": serve({
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
    cells: (task) => [
      `${task.kind} ${task.id}`,
      task.sourceId,
      formatInstant(task.since, 0),
      formatInstant(task.until, 0),
      task.state,
      describeCount(task.orders),
      task.differences === null ? "–" : describeCount(task.differences),
      describeAge(task.requestedAgeSeconds),
      task.lastError ?? "–",
    ],
    read: readTasks,
  }),
};
