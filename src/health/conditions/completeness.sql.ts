import { queryInstants, type Pool } from "../../database/database.ts";
import { addSeconds, formatInstant, NANOS_PER_SECOND, type Instant } from "../../domain/order/instant.ts";
import { PROOF_INTERVALS } from "../../domain/window/window.ts";
import { COUNT_MAX, describeCount, type Rule } from "./condition.ts";
import { later, secondsOfPolls, type Polling } from "./polling.sql.ts";

/** Proof of a source: how far the mirror has every change of it. */
export interface Completeness {
  readonly sourceId: string;
  /** Start of the period that safeThrough covers; null if the source was never polled. */
  readonly historySince: Instant | null;
  /** The mirror has every change from historySince until just before this; null before the first proof. */
  readonly safeThrough: Instant | null;
  /** End of the last proved window, regardless of earlier gaps. */
  readonly provedUntil: Instant | null;
  /** Unproved periods of the last week between proved windows. */
  readonly gaps: number;
  readonly oldestGap: { readonly since: Instant; readonly until: Instant } | null;
  /** Time at which the oldest gap arose: a later window was first proved. */
  readonly gapFoundAt: Instant | null;
  /** Orders that safeThrough excludes; see mirror.exceptions. Counting stops at COUNT_MAX + 1. */
  readonly exceptions: number;
  /** Time at which the first of them was found; null if there is none. */
  readonly oldestExceptionAt: Instant | null;
  /** Number of proofs that were ever withdrawn. */
  readonly breaches: number;
  readonly lastBreachAt: Instant | null;
  /**
   * Greatest delay with which a poll or an event brought a change of the last day's breaches; null if only other reads
   * found them.
   */
  readonly lateSeconds: number | null;
  /** Time at which the provider's list was found to omit orders that the mirror has; null while it omits none. */
  readonly listDoubtedAt: Instant | null;
  /** Orders that are gone since seven days at most, although a read had shown them; counting stops at COUNT_MAX + 1. */
  readonly goneOrders: number;
  /** Time at which the first of them was found to be gone; null if there is none. */
  readonly firstGoneAt: Instant | null;
}

type Row = Omit<Completeness, "oldestGap"> & {
  readonly gapSince: Instant | null;
  readonly gapUntil: Instant | null;
};

const COMPLETENESS = `
with proved as (
  select source_id, int8multirange(int8range(min(since), max(until))) - range_agg(int8range(since, until)) as missing
  from mirror.proved
  where until > (extract(epoch from now()) - 7 * 86400) * 1000000000 and ($1::text is null or source_id = $1)
  group by source_id
)
select s.source_id as "sourceId", poll.history_since as "historySince", poll.safe_through as "safeThrough",
  greatest(poll.safe_through, (select until from mirror.coverage c
    where c.source_id = s.source_id and proved order by until desc limit 1)) as "provedUntil",
  coalesce((select count(*) from unnest(proved.missing))::int, 0) as gaps,
  gap.since as "gapSince", gap.until as "gapUntil", mirror.nanos_of(gap.found_at) as "gapFoundAt",
  (select count(*)::int from (select from mirror.exceptions e
    where e.source_id = s.source_id limit ${COUNT_MAX + 1}) open) as exceptions,
  (select mirror.nanos_of(min(found_at)) from mirror.exceptions e where e.source_id = s.source_id) as "oldestExceptionAt",
  broken.breaches, mirror.nanos_of(broken.last_at) as "lastBreachAt", broken.late_seconds as "lateSeconds",
  mirror.nanos_of(poll.list_doubted_at) as "listDoubtedAt",
  lost.orders as "goneOrders", mirror.nanos_of(lost.first_at) as "firstGoneAt"
from mirror.sources s
left join mirror.poll_state poll using (source_id)
left join proved using (source_id)
left join lateral (
  select lower(span) as since, upper(span) as until,
    (select min(ended_at) from mirror.coverage c
     where c.source_id = s.source_id and proved and c.until > upper(span) and c.since >= upper(span)) as found_at
  from unnest(proved.missing) as span order by span limit 1
) gap on true
cross join lateral (
  select count(*)::int as breaches, max(found_at) as last_at,
    max(extract(epoch from found_at) - version / 1e9) filter (where (found_by = 'poll' or kind = 'late_event'
        -- A forged event says nothing about the list.
        and not exists (select from mirror.history h where h.source_id = b.source_id and h.reference = b.reference
          and h.version = b.version and (h.refuted or h.verdict = 'refuted')))
      and found_at > clock_timestamp() - interval '1 day')::float8 as late_seconds
  from mirror.coverage_breaches b where b.source_id = s.source_id
) broken
cross join lateral (
  select count(*)::int as orders, min(gone_at) as first_at from (
    select o.gone_at from mirror.orders o
    where o.source_id = s.source_id and o.gone_at > clock_timestamp() - interval '7 days' and exists (
      select from mirror.history h
      where h.source_id = o.source_id and h.reference = o.reference and h.via <> 'webhook' and h.verdict <> 'gone')
    limit ${COUNT_MAX + 1}) gone
) lost
where $1::text is null or s.source_id = $1`;

export async function readCompleteness(pool: Pool, sourceId: string | null): Promise<Completeness[]> {
  const rows = await queryInstants<Row>(pool, { name: "read-completeness", text: COMPLETENESS }, [sourceId]);
  return rows.map(({ gapSince: since, gapUntil: until, ...row }) => ({
    ...row,
    oldestGap: since === null || until === null ? null : { since, until },
  }));
}

/** Computes how far the proof is behind the present at most while nothing is wrong, in seconds. */
export function provedWithinSeconds(source: Pick<Polling, "intervalSeconds" | "marginSeconds">): number {
  // The newest part waits until it is long enough, then for a poll, then for the head sweep of the next one.
  return (source.marginSeconds ?? 0) + secondsOfPolls(PROOF_INTERVALS + 2, source);
}

const DAY_NANOS = 86_400n * NANOS_PER_SECOND;

/** Whole seconds are precise enough: the start rounds down and the end up, so that a walk covers all of it. */
const showStart = (instant: Instant) => formatInstant(instant, 0);
const showEnd = (instant: Instant) => formatInstant(instant + NANOS_PER_SECOND - 1n, 0);
const showOldestGap = ({ oldestGap }: Completeness) =>
  oldestGap === null ? [] : [showStart(oldestGap.since), showEnd(oldestGap.until)];

const PROOF_REMEDY =
  "The period is read again automatically; reporting.coverage_breaches lists it, for reports that were based on it. If the change appeared late in the provider's list, raise POLL_MARGIN_SECONDS.";
/** The provider's list shows changes later than the margin allows, so its reads contradict genuine events. */
export const isListLate = ({ lateSeconds, marginSeconds }: Completeness & Polling): boolean =>
  lateSeconds !== null && marginSeconds !== null && lateSeconds > marginSeconds;

/** Half as much again, in whole minutes. */
const enough = (lateSeconds: number) => Math.ceil((lateSeconds * 1.5) / 60) * 60;

/** Conditions of completeness. */
export const COMPLETENESS_CONDITIONS: readonly Rule<Completeness & Polling>[] = [
  {
    name: "OrderMirrorIncomplete",
    severity: "warning",
    area: "coverage",
    place: "Between us and the provider",
    answer: "Behind",
    measures: "no progress in completeness for more than an hour",
    forSeconds: 3_600,
    noticedAfterSeconds: 900,
    remedy: "`order-mirror doctor` lists the gaps and what keeps the poller from closing them.",
    page: "/ops/gaps",
    // A pause is a condition of its own.
    holds: ({ pausedAt }) => pausedAt === null,
    // The history of a new source is read after its configuration, that of a pause after its end: it was not missed.
    since: (source) => {
      const { safeThrough, createdAt, resumedAt } = source;
      const begunAt = later(createdAt, resumedAt ?? createdAt);
      return later(
        safeThrough === null ? begunAt : addSeconds(safeThrough, provedWithinSeconds(source)),
        begunAt,
      );
    },
    cause: ({ sourceId, safeThrough }) =>
      safeThrough === null
        ? `Nothing of ${sourceId} has been verified as complete yet.`
        : `Data of ${sourceId} may be missing since ${showStart(safeThrough)}.`,
  },
  {
    name: "OrderMirrorGaps",
    severity: "warning",
    area: "coverage",
    place: "Between us and the provider",
    answer: "A gap",
    measures: "a period could not be verified as read",
    forSeconds: 900,
    noticedAfterSeconds: 0,
    remedy:
      "The poller reads gaps automatically; `order-mirror doctor` prints the command that does so immediately.",
    page: "/ops/gaps",
    button: "gap",
    holds: ({ oldestGap }) => oldestGap !== null,
    since: ({ gapFoundAt }) => gapFoundAt,
    cause: (source) => {
      const more = source.gaps > 1 ? ` and ${source.gaps - 1} more` : "";
      return `Changes of ${source.sourceId} may be missing between ${showOldestGap(source).join(" and ")}${more}.`;
    },
    fix: (source) => {
      const [since, until] = showOldestGap(source);
      return `\`order-mirror backfill --source ${source.sourceId} --from ${since} --to ${until}\` reads it now.`;
    },
  },
  {
    name: "OrderMirrorProofTakenBack",
    severity: "warning",
    area: "coverage",
    place: "Between us and the provider",
    answer: "Proof withdrawn",
    measures: "a change was found within the last day that a proof had missed",
    remedy: PROOF_REMEDY,
    endsBy: "a day after the last one",
    page: "/ops/breaches",
    holds: ({ lastBreachAt, now }) => lastBreachAt !== null && now - lastBreachAt <= DAY_NANOS,
    since: ({ lastBreachAt }) => lastBreachAt,
    cause: ({ sourceId }) =>
      `A change of ${sourceId} was found that a proof had missed; the proof was withdrawn.`,
    fix: (source) => {
      if (!isListLate(source)) return PROOF_REMEDY;
      const late = source.lateSeconds ?? 0;
      return `A change appeared in the list ${Math.ceil(late)} s after its time, and POLL_MARGIN_SECONDS is ${source.marginSeconds}: set POLL_MARGIN_SECONDS=${enough(late)} and restart the poller. Events that reads contradict were genuine then.`;
    },
  },
  {
    name: "OrderMirrorExceptions",
    severity: "warning",
    area: "coverage",
    place: "Between us and the provider",
    answer: "Exceptions",
    measures: "an order could not be read, or no read confirmed it, for 30 minutes",
    forSeconds: 1_800,
    noticedAfterSeconds: 300,
    remedy:
      "Look at why each is excluded, and ask the provider about those that it does not show; they are read again automatically.",
    page: "/ops/exceptions",
    button: "reread",
    holds: ({ exceptions }) => exceptions > 0,
    since: ({ oldestExceptionAt }) => oldestExceptionAt,
    cause: ({ sourceId, exceptions }) =>
      `"Complete up to" excludes ${describeCount(exceptions, "order")} of ${sourceId} that could not be read or confirmed.`,
  },
  {
    name: "OrderMirrorListIncomplete",
    severity: "warning",
    area: "coverage",
    place: "At the provider",
    answer: "List incomplete",
    measures: "the provider's list omits orders that the mirror has",
    forSeconds: 300,
    noticedAfterSeconds: 60,
    remedy: "Ask the provider why its list omits them; the poller reads them one by one, and compares again.",
    page: "/ops/refetches",
    holds: ({ listDoubtedAt }) => listDoubtedAt !== null,
    since: ({ listDoubtedAt }) => listDoubtedAt,
    cause: ({ sourceId }) =>
      `The provider's list omits orders of ${sourceId} that the mirror has; nothing is proved until that is explained.`,
  },
  {
    name: "OrderMirrorOrdersGone",
    severity: "warning",
    area: "coverage",
    place: "At the provider",
    answer: "Orders gone",
    measures: "the provider no longer finds orders that it had shown",
    remedy:
      "Ask the provider why it answers order_not_found: an order never ceases to be readable. They are read again for seven days, and served again once it shows them.",
    endsBy: "seven days after the last of them was found to be gone",
    page: "/ops/orders",
    holds: ({ goneOrders }) => goneOrders > 0,
    since: ({ firstGoneAt }) => firstGoneAt,
    cause: ({ sourceId, goneOrders }) =>
      `The provider no longer finds ${describeCount(goneOrders, "order")} of ${sourceId}, which it had shown; the mirror does not serve them.`,
  },
];
