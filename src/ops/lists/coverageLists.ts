import { html } from "../../runtime/http/html.ts";
import { describeCount, describeSpan, linkOrder, sourceQuery } from "../overview/phrases.ts";
import { renderInstant } from "../../html/marks.ts";
import { BREACH_ROWS, GAP_ROWS, WALK_ROWS } from "./coverageLists.sql.ts";
import type { ListedBreach, ListedGap, WalkedWindow } from "./coverageLists.sql.ts";
import { PERIOD_COLUMNS, SOURCE_COLUMN } from "./list.ts";
import type { List } from "./list.ts";

const NANOS_PER_SECOND = 1e9;

export const WALKS: List<WalkedWindow> = {
  title: "Reads from the provider",
  note: "Periods of updatedAt that were read completely. Proved ones move “complete up to” forward.",
  empty: "Nothing was read yet. Each period that the poller has read completely would be here.",
  filters: {
    sweep: { label: "Sweep", words: ["fast", "delayed", "deep", "backfill", "verify"] },
    proved: { label: "Proved", words: ["yes", "no"] },
  },
  ...WALK_ROWS,
  columns: [
    SOURCE_COLUMN,
    { title: "Sweep", show: ({ sweep }) => sweep },
    ...PERIOD_COLUMNS,
    { title: "Proved", show: ({ proved }) => (proved ? "yes" : "no") },
    { title: "Requests", kind: "number", show: ({ requests }) => describeCount(requests) },
    { title: "Orders", kind: "number", show: ({ orders }) => describeCount(orders) },
    { title: "Read", show: ({ endedAt }) => renderInstant(endedAt) },
  ],
};

export const GAPS: List<ListedGap> = {
  title: "Gaps, last 7 days",
  note: "Periods of updatedAt between proved ones that no read has proved: changes in them may be missing.",
  empty: "There is no gap: everything between the proved periods of the last 7 days is proved.",
  ...GAP_ROWS,
  columns: [
    SOURCE_COLUMN,
    ...PERIOD_COLUMNS,
    {
      title: "Length",
      kind: "number",
      show: ({ since, until }) => describeSpan(Number(until - since) / NANOS_PER_SECOND),
    },
    {
      title: "Remedy",
      show: ({ sourceId }) =>
        html`<a href="/ops/gap${sourceQuery(sourceId)}">Read the gaps of ${sourceId}…</a>`,
    },
  ],
};

const KINDS: Readonly<Record<string, string>> = {
  missed_change: "a read found a change that was missed",
  differing: "a read found different content",
  late_event: "an event brought a change that was missed",
};

export const BREACHES: List<ListedBreach> = {
  title: "Breaches, all time",
  note: "Proofs that were withdrawn, because a change was found that they had missed. The period is read and proved again.",
  empty: "No proof was ever withdrawn. A change found in a period that was proved complete would be here.",
  filters: {
    state: {
      label: "State",
      words: ["open", "closed"],
      describe: (word) => (word === "open" ? "not proved again" : "proved again"),
    },
  },
  ...BREACH_ROWS,
  columns: [
    { title: "Found", show: ({ foundAt }) => renderInstant(foundAt) },
    SOURCE_COLUMN,
    { title: "Order", show: linkOrder },
    { title: "Why", show: ({ kind }) => KINDS[kind] ?? kind },
    ...PERIOD_COLUMNS,
    {
      title: "Proved again",
      show: ({ reprovedAt }) => (reprovedAt === null ? "not yet" : renderInstant(reprovedAt)),
    },
  ],
};
