import { describeAge, describeSpan } from "../../domain/duration.ts";
import { NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import { sourceAddress } from "../../health/pageAddresses.ts";
import { html } from "../../html/html.ts";
import { describeException } from "../../orders/openQuestions.ts";
import { renderInstant, renderMinute } from "../../html/parts.ts";
import { describeWord, linkEvent } from "../phrases.ts";
import { count, delay, ORDER, period, sentence, SOURCE, text, time, type List } from "./list.ts";

const LOST_DELAY = "extract(epoch from found_at) - version / 1000000000.0";

/** Changes that reads of the last 24 h found and no event announced. */
const LOST: List = {
  title: "Lost events, last 24 h",
  note: "Changes found by a read without an event. Lost: the event did not arrive within the grace period, although the provider announces that status. Waiting: the event may still arrive.",
  empty: "No event was lost.",
  filters: { state: { label: "Event", words: ["lost", "waiting"] } },
  columns: [
    ORDER,
    SOURCE,
    text("Status", "status"),
    text("Event", "state"),
    text("Found by", "via"),
    time("Found", "found_at"),
    delay("After the change", LOST_DELAY),
  ],
  keys: { found_at: "timestamptz", source_id: "text", reference: "text", version: "bigint" },
  // Of each source its newest, which an index finds.
  from: (rows) =>
    `(select source_id as known from mirror.sources) s cross join lateral (
       select * from mirror.unannounced_changes u
       where source_id = s.known and state in ('waiting', 'lost')
         and found_at > clock_timestamp() - interval '1 day' and ${rows}
     ) u where ${rows}`,
};

/** Events without a decision. */
const WAITING: List = {
  title: "Waiting events",
  note: "Received events that await a decision. If an event waits for minutes, no worker is running.",
  empty: "No event is waiting.",
  columns: [
    { title: "Event", select: ["source_id", "event_id"], show: linkEvent },
    SOURCE,
    time("Received", "received_at"),
    {
      title: "Age",
      kind: "number",
      select: ["extract(epoch from clock_timestamp() - received_at)::float8"],
      show: describeAge,
    },
  ],
  keys: { seq: "bigint" },
  ascending: true,
  from: (rows) =>
    `mirror.pending join lateral (select event_id from mirror.inbox i where i.seq = pending.seq) i on true where ${rows}`,
};

/** "next": in the order in which the poller processes them. */
const REFETCHES: List = {
  title: "Waiting for a single read, now",
  note: "Orders that the poller reads again one by one, in this order, next to its other work. After each failure the wait becomes longer.",
  empty: "No order waits for a single read.",
  filters: {
    state: {
      label: "Last read",
      words: ["failed", "not failed"],
      where: (word) => `(${word} = 'failed') = (last_error is not null)`,
    },
  },
  columns: [
    ORDER,
    SOURCE,
    text("Why", "reason"),
    count("Tried", "attempts"),
    time("Requested", "requested_at"),
    time("Next attempt", "next_attempt_at"),
    sentence("Last error", "last_error"),
  ],
  keys: { next_attempt_at: "timestamptz", source_id: "text", reference: "text" },
  ascending: true,
  from: (rows) => `mirror.awaited_reads where ${rows}`,
};

/** The orders behind "except for". */
const EXCEPTIONS: List = {
  title: "Exceptions, now",
  note: "Orders that “complete up to” excludes, whatever it says. A good read of the order ends its exception.",
  empty: "No order is excluded from “complete up to”.",
  columns: [
    ORDER,
    SOURCE,
    { title: "Why", kind: "sentence", select: ["kind"], show: describeException },
    time("Since", "found_at"),
  ],
  keys: {
    found_at: "timestamptz",
    source_id: "text",
    "coalesce(reference, '')": "text",
    "coalesce(entry, 0)": "bigint",
  },
  ascending: true,
  from: (rows) => `mirror.exceptions where ${rows}`,
};

const OUTCOMES: Readonly<Record<string, string>> = {
  accepted: "accepted",
  wrong_signature: "refused: wrong signature",
  unsigned: "refused: no signature under the name that the scheme has",
  wrong_time: "refused: signed too long ago or ahead",
  no_secret: "refused: the source has no secret",
  not_stored: "failed: could not be stored",
  other: "neither: unreadable, not sent whole, or while web was ending",
  answered: "answered",
  refused: "refused (429)",
  unanswered: "not answered",
};

/** The evidence of refused webhooks and of a rate that is used up: how many calls of what outcome came or went when. */
const CALLS: List = {
  title: "Calls, last two days",
  note: "Webhooks that came, and requests to the provider by rate policy, of all processes, by the minute in which they were recorded. /ops/events/refused shows the refused webhooks that web keeps.",
  empty: "There was no call within two days.",
  filters: {
    kind: {
      label: "Kind",
      words: ["webhook", "request"],
      where: (word) => `(${word} = 'webhook') = (kind = 'webhook')`,
    },
    outcome: { label: "Outcome", words: Object.keys(OUTCOMES), describe: (word) => OUTCOMES[word] ?? word },
  },
  columns: [
    time("Minute", "minute", renderMinute),
    SOURCE,
    text("Kind", "kind"),
    { title: "Outcome", select: ["outcome"], show: (outcome: string) => OUTCOMES[outcome] ?? outcome },
    count("Calls", "calls"),
  ],
  keys: { minute: "timestamptz", source_id: "text", kind: "text", outcome: "text" },
  from: (rows) => `mirror.calls where minute > clock_timestamp() - interval '2 days' and ${rows}`,
};

/** Backfills and verifications, in any state. */
const TASKS: List = {
  title: "Backfills and verifications, all time",
  note: "Periods of updatedAt for which a read or a comparison was requested. Differences are repaired when they are found.",
  empty: "Nobody has requested a backfill or a verification yet, and none has run at night.",
  filters: {
    kind: { label: "What", words: ["backfill", "verification"] },
    state: { label: "State", words: ["requested", "running", "done", "failed", "cancelled"] },
  },
  columns: [
    text("What", "kind || ' ' || request_id"),
    SOURCE,
    ...period("since", "until"),
    text("State", "state"),
    count("Read, %", "floor(100.0 * (until - read_down_to) / (until - since))"),
    count("Orders", "orders"),
    count("Differences", "case when kind = 'verification' then differed end"),
    time("Requested", "requested_at"),
    sentence("Last error", "last_error"),
  ],
  keys: { request_id: "bigint" },
  from: (rows) => `mirror.period_requests where ${rows}`,
};

/** The windows that were read, in the order of their reading. */
const WALKS: List = {
  title: "Reads from the provider",
  note: "Periods of updatedAt that were read completely. Proved ones move “complete up to” forward.",
  empty: "Nothing was read yet.",
  filters: {
    sweep: { label: "Sweep", words: ["proof", "backfill", "verify", "kept"] },
    proved: { label: "Proved", words: ["yes", "no"], where: (word) => `proved = (${word} = 'yes')` },
  },
  columns: [
    SOURCE,
    text("Sweep", "sweep"),
    ...period("since", "until"),
    text("Proved", "case when proved then 'yes' else 'no' end"),
    count("Requests", "requests"),
    count("Orders", "orders"),
    time("Read", "ended_at"),
  ],
  keys: { coverage_id: "bigint", source_id: "text" },
  from: (rows) => `mirror.coverage where ${rows}`,
};

/** Between proved windows; what is not read yet, at the end, is none. */
const GAPS: List = {
  title: "Gaps, last 7 days",
  note: "Unverified periods of updatedAt between verified ones: changes in them may be missing.",
  empty: "There is no gap in the last 7 days.",
  columns: [
    SOURCE,
    ...period("lower(gap)", "upper(gap)"),
    {
      title: "Length",
      kind: "number",
      select: ["upper(gap) - lower(gap)"],
      show: (nanos: Instant) => describeSpan(Number(nanos) / Number(NANOS_PER_SECOND)),
    },
    {
      title: "Remedy",
      select: ["source_id"],
      show: (sourceId: string) =>
        html`<a href="${sourceAddress(sourceId)}">Read the gaps, on the page of ${sourceId}</a>`,
    },
  ],
  keys: { "lower(gap)": "bigint", source_id: "text" },
  from: (rows) =>
    `(
       select source_id, range_agg(int8range(since, until)) as spans from mirror.proved
       where until > (extract(epoch from clock_timestamp() - interval '7 days') * 1000000000)::bigint
       group by source_id
     ) proved, unnest(int8multirange(range_merge(spans)) - spans) as gap
     where ${rows}`,
};

const BREACHES: List = {
  title: "Breaches, all time",
  note: "Proofs that were withdrawn, because a change was found that they had missed. The period is read and proved again.",
  empty: "No proof was ever withdrawn.",
  filters: {
    state: {
      label: "State",
      words: ["open", "closed"],
      describe: (word) => (word === "open" ? "not proved again" : "proved again"),
      where: (word) => `(${word} = 'open') = (reproved_at is null)`,
    },
  },
  columns: [
    time("Found", "found_at"),
    SOURCE,
    ORDER,
    { title: "Why", select: ["kind"], show: describeWord },
    ...period("since", "until"),
    time("Proved again", "reproved_at", (at) => (at === null ? "not yet" : renderInstant(at))),
  ],
  keys: { breach_id: "bigint", source_id: "text" },
  from: (rows) => `mirror.coverage_breaches where ${rows}`,
};

/** The lists behind the figures of the overview and of a source, by their address under /ops. */
export const OPS_LISTS: Readonly<Record<string, List>> = {
  "/lost": LOST,
  "/waiting": WAITING,
  "/refetches": REFETCHES,
  "/exceptions": EXCEPTIONS,
  "/calls": CALLS,
  "/walks": WALKS,
  "/gaps": GAPS,
  "/breaches": BREACHES,
  "/tasks": TASKS,
};
