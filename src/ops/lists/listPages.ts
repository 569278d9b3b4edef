import type { RequestHandler } from "express";
import { CERTIFICATE_SORTS, listCertificates } from "../../certificates/certificates.sql.ts";
import type { ListedCertificate } from "../../certificates/certificates.sql.ts";
import type { Pool } from "../../database/database.ts";
import { html } from "../../runtime/http/html.ts";
import { describeAge, describeCount, describeDelay, linkOrder } from "../overview/phrases.ts";
import { renderInstant, renderMinute } from "../../html/marks.ts";
import { ACTION_LIST } from "./actionsPage.ts";
import { certificateAddress } from "./certificatePage.ts";
import { BREACHES, GAPS, WALKS } from "./coverageLists.ts";
import { serveList } from "./serveList.ts";
import { PERIOD_COLUMNS, SOURCE_COLUMN } from "./list.ts";
import type { List, Listed } from "./list.ts";
import {
  LOST_ROWS,
  REFETCH_ROWS,
  REQUEST_ROWS,
  SLOW_ROWS,
  TASK_KINDS,
  TASK_ROWS,
  TASK_STATES,
  WAITING_ROWS,
} from "./opsLists.sql.ts";
import type {
  LostEvent,
  SentRequests,
  SlowEvent,
  Task,
  WaitingEvent,
  WaitingRefetch,
} from "./opsLists.sql.ts";
import { SESSION_LIST } from "./sessionsPage.ts";

const LOST: List<LostEvent> = {
  title: "Lost events, last 24 h",
  note: "Changes found by a read without an event. Lost: the event did not arrive within the grace period, although the provider announces that status. Waiting: the event may still arrive.",
  empty: "No event was lost. A change that a read finds before its event would be here.",
  filters: { state: { label: "Event", words: ["lost", "waiting"] } },
  ...LOST_ROWS,
  columns: [
    { title: "Order", show: linkOrder },
    SOURCE_COLUMN,
    { title: "Status", show: ({ status }) => status },
    { title: "Event", show: ({ state }) => state },
    { title: "Found by", show: ({ via }) => via },
    { title: "Found", show: ({ foundAt }) => renderInstant(foundAt) },
    { title: "After the change", kind: "number", show: ({ delaySeconds }) => describeDelay(delaySeconds) },
  ],
};

const SLOW: List<SlowEvent> = {
  title: "Slowest events, last hour",
  note: "Events among the latest decisions that changed an order, with the time from the change to the decision.",
  empty: "No event has changed an order within the last hour.",
  ...SLOW_ROWS,
  columns: [
    { title: "Order", show: linkOrder },
    SOURCE_COLUMN,
    { title: "Event", show: ({ eventId }) => eventId ?? "–" },
    { title: "Type", show: ({ eventType }) => eventType ?? "–" },
    { title: "Decided", show: ({ seenAt }) => renderInstant(seenAt) },
    { title: "After the change", kind: "number", show: ({ lagSeconds }) => describeDelay(lagSeconds) },
  ],
};

const WAITING: List<WaitingEvent> = {
  title: "Waiting, now",
  note: "Received events that await a decision. If an event waits for minutes, no worker is running.",
  empty: "No event is waiting: every received event is decided.",
  ...WAITING_ROWS,
  sorts: ["oldest", "newest"],
  columns: [
    { title: "Event", show: ({ eventId }) => eventId },
    SOURCE_COLUMN,
    { title: "Received", show: ({ receivedAt }) => renderInstant(receivedAt) },
    { title: "Age", kind: "number", show: ({ ageSeconds }) => describeAge(ageSeconds) },
  ],
};

const REFETCHES: List<WaitingRefetch> = {
  title: "Waiting for a re-read, now",
  note: "Orders that the poller reads again one by one, in this order, next to its other work. After each failure the wait becomes longer.",
  empty: "No order waits for a re-read.",
  filters: { state: { label: "Last read", words: ["failed", "not tried"] } },
  ...REFETCH_ROWS,
  sorts: ["next", "last"],
  columns: [
    { title: "Order", show: linkOrder },
    SOURCE_COLUMN,
    { title: "Why", show: ({ reason }) => reason },
    { title: "Tried", kind: "number", show: ({ attempts }) => describeCount(attempts) },
    { title: "Requested", show: ({ requestedAt }) => renderInstant(requestedAt) },
    { title: "Next attempt", show: ({ nextAttemptAt }) => renderInstant(nextAttemptAt) },
    { title: "Last error", kind: "sentence", show: ({ lastError }) => lastError ?? "–" },
  ],
};

const REQUESTS: List<SentRequests> = {
  title: "Requests to the provider, last two days",
  note: "Requests of all processes, by the minute in which they were recorded. Each also counts towards the overall limit.",
  empty: "No request was sent to the provider within two days. Each minute with requests would be here.",
  filters: { answer: { label: "Answer", words: ["refused", "accepted"] } },
  ...REQUEST_ROWS,
  columns: [
    { title: "Minute", show: ({ minute }) => renderMinute(minute) },
    SOURCE_COLUMN,
    { title: "Rate policy", show: ({ policy }) => policy },
    { title: "For", show: ({ purpose }) => purpose },
    { title: "Requests", kind: "number", show: ({ requests }) => describeCount(requests) },
    { title: "Refused (429)", kind: "number", show: ({ refused }) => describeCount(refused) },
  ],
};

const CERTIFICATES: List<ListedCertificate> = {
  title: "Certificates, all time",
  note: "Signed statements that the mirror had every order of a period. Days are certified once they are over and proved.",
  empty: "No period is certified yet. Each day of UTC would be here once it is over and proved.",
  filters: { state: { label: "State", words: ["holds", "disproved"] } },
  sorts: Object.keys(CERTIFICATE_SORTS),
  columns: [
    ...PERIOD_COLUMNS,
    SOURCE_COLUMN,
    { title: "Orders", kind: "number", show: ({ orders }) => describeCount(orders) },
    { title: "State", show: ({ disprovedAt }) => (disprovedAt === null ? "holds" : "disproved") },
    {
      title: "Statement",
      kind: "number",
      show: (certificate) => html`<a href="${certificateAddress(certificate)}">${certificate.serial}</a>`,
    },
  ],
  read: (pool, { chosen, ...query }) => {
    const state = chosen["state"] ?? null;
    return listCertificates(pool, { ...query, holds: state === null ? null : state === "holds" });
  },
};

/** Backfills and verifications: also on the page of their source. */
const TASKS: List<Task> = {
  title: "Backfills and verifications, all time",
  note: "Periods of updatedAt for which a read or a comparison was requested. Differences are repaired when they are found.",
  empty: "Nobody has requested a backfill or a verification yet, and none has run at night.",
  filters: {
    kind: { label: "What", words: TASK_KINDS },
    state: { label: "State", words: TASK_STATES },
  },
  ...TASK_ROWS,
  columns: [
    { title: "What", show: ({ kind, id }) => `${kind} ${id}` },
    SOURCE_COLUMN,
    ...PERIOD_COLUMNS,
    { title: "State", show: ({ state }) => state },
    { title: "Orders", kind: "number", show: ({ orders }) => describeCount(orders) },
    {
      title: "Differences",
      kind: "number",
      show: ({ differences }) => (differences === null ? "–" : describeCount(differences)),
    },
    { title: "Requested", show: ({ requestedAt }) => renderInstant(requestedAt) },
    { title: "Last error", kind: "sentence", show: ({ lastError }) => lastError ?? "–" },
  ],
};

const at =
  <Row extends Listed>(list: List<Row>) =>
  (pool: Pool, path: string) =>
    serveList(pool, path, list);

/** The lists by their address. */
export const LISTS: Readonly<Record<string, (pool: Pool, path: string) => RequestHandler>> = {
  "/lost": at(LOST),
  "/slow": at(SLOW),
  "/waiting": at(WAITING),
  "/refetches": at(REFETCHES),
  "/requests": at(REQUESTS),
  "/walks": at(WALKS),
  "/gaps": at(GAPS),
  "/breaches": at(BREACHES),
  "/certificates": at(CERTIFICATES),
  "/tasks": at(TASKS),
  "/actions": at(ACTION_LIST),
  "/sessions": at(SESSION_LIST),
};
