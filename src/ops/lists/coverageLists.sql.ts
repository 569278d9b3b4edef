import { bothWays } from "../../database/keyset.sql.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { html } from "../../runtime/http/html.ts";
import { describeSpan, sourceQuery } from "../overview/phrases.ts";
import { renderInstant } from "../../html/parts.ts";
import { count, ORDER, period, selectList, SOURCE, text, time } from "./selectList.sql.ts";

const NANOS_PER_SECOND = 1e9;

/** The windows that were read, in the order of their reading. */
export const WALKS = selectList({
  title: "Reads from the provider",
  note: "Periods of updatedAt that were read completely. Proved ones move “complete up to” forward.",
  empty: "Nothing was read yet.",
  filters: {
    sweep: { label: "Sweep", words: ["proof", "backfill", "verify", "kept"] },
    proved: { label: "Proved", words: ["yes", "no"] },
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
  sorts: bothWays({ coverage_id: "bigint", source_id: "text" }),
  from: ({ condition, order }) =>
    `from mirror.coverage where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or sweep = $4) and ($5::text is null or ($5 = 'yes') = proved)
     ${order} limit $2`,
});

/** Between proved windows; what is not read yet, at the end, is none. */
export const GAPS = selectList({
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
      show: (nanos: Instant) => describeSpan(Number(nanos) / NANOS_PER_SECOND),
    },
    {
      title: "Remedy",
      select: ["source_id"],
      show: (sourceId: string) =>
        html`<a href="/ops/gap${sourceQuery(sourceId)}">Read the gaps of ${sourceId}…</a>`,
    },
  ],
  sorts: bothWays({ "lower(gap)": "bigint", source_id: "text" }),
  from: ({ condition, order }) =>
    `from (
       select source_id, range_agg(int8range(since, until)) as spans from mirror.proved
       where ($1::text is null or source_id = $1)
         and until > (extract(epoch from clock_timestamp() - interval '7 days') * 1000000000)::bigint
       group by source_id
     ) proved, unnest(int8multirange(range_merge(spans)) - spans) as gap
     where ${condition} ${order} limit $2`,
});

const KINDS: Readonly<Record<string, string>> = {
  missed_change: "a read found a change that was missed",
  differing: "a read found different content",
  late_event: "an event brought a change that was missed",
};

export const BREACHES = selectList({
  title: "Breaches, all time",
  note: "Proofs that were withdrawn, because a change was found that they had missed. The period is read and proved again.",
  empty: "No proof was ever withdrawn.",
  filters: {
    state: {
      label: "State",
      words: ["open", "closed"],
      describe: (word) => (word === "open" ? "not proved again" : "proved again"),
    },
  },
  columns: [
    time("Found", "found_at"),
    SOURCE,
    ORDER,
    { title: "Why", select: ["kind"], show: (kind: string) => KINDS[kind] ?? kind },
    ...period("since", "until"),
    time("Proved again", "reproved_at", (at) => (at === null ? "not yet" : renderInstant(at))),
  ],
  sorts: bothWays({ breach_id: "bigint", source_id: "text" }),
  from: ({ condition, order }) =>
    `from mirror.coverage_breaches where ($1::text is null or source_id = $1) and ${condition}
       and ($4::text is null or ($4 = 'open') = (reproved_at is null))
     ${order} limit $2`,
});
