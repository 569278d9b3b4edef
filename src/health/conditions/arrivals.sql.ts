import { queryInstants, type Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { lossRate, STOPPED_AFTER_LOST } from "../../domain/order/lostEvents.ts";
import { commandOn } from "../../domain/shellWord.ts";
import { isListLate, type Completeness } from "./completeness.sql.ts";
import type { Polling } from "./polling.sql.ts";
import { namesThisMachine } from "../../process/loopback.ts";
import { COUNT_MAX, describeCount, ENDS_WITH_A_CALL, SOURCE_PAGE, type Rule } from "./condition.ts";

/** Arrival of the provider's events of a source. */
export interface Arrivals {
  readonly sourceId: string;
  /**
   * Web has a webhook secret for it. Until a web process has started with the source: true after the first event, else
   * null.
   */
  readonly configured: boolean | null;
  /** Time of the last event; null if none ever arrived. */
  readonly lastEventAt: Instant | null;
  /** The mirror has an order of it. */
  readonly hasOrders: boolean;
  /** Changes that no event announced, since the beginning. */
  readonly lostEver: number;
  /**
   * Changes of the last 24 hours that an event announced, in time or `late` (after a read had found the change), or
   * that none did (`lost`).
   */
  readonly announced: number;
  readonly late: number;
  readonly lost: number;
  readonly firstLostAt: Instant | null;
  /** Changes that only reads found since then; before the first event, those of the last day. */
  readonly lostSinceLastEvent: number;
  readonly firstLostSinceLastEventAt: Instant | null;
  /** Changes announced in this hour and the last one; `lateLately` as `late`. */
  readonly announcedLately: number;
  readonly lateLately: number;
  readonly firstLateHour: Instant | null;
  /** Events of the last 24 hours whose claim a read contradicted; counting stops at COUNT_MAX + 1. */
  readonly refutedClaims: number;
  readonly firstRefutedClaimAt: Instant | null;
  /** The reference of an order affected by the last of them. */
  readonly refutedReference: string | null;
}

/** The last event is searched among this many rows of the inbox; for older events, the record of calls is used. */
const EVENTS_SEARCHED = 5_000;
/** Silence after which events have stopped: one poll may find several lost changes between two events. */
const SILENCE_SECONDS = 10;
/** Counting what only reads found since the last event stops here: more digits would not help anybody. */
const FOUND_MAX = 1_000;

const ARRIVALS = `
with newest as (
  select source_id, max(received_at) as received_at
  from (select source_id, received_at from mirror.inbox order by seq desc limit ${EVENTS_SEARCHED}) last group by source_id
)
select s.source_id as "sourceId",
  coalesce(s.receives_events, case when event.last_at is not null then true end) as configured,
  mirror.nanos_of(event.last_at) as "lastEventAt",
  exists (select from mirror.orders o where o.source_id = s.source_id) as "hasOrders",
  event.lost_ever as "lostEver",
  event.announced, event.late, event.lost, mirror.nanos_of(event.first_lost) as "firstLostAt",
  lost.since_event as "lostSinceLastEvent", mirror.nanos_of(lost.first_since_event) as "firstLostSinceLastEventAt",
  event.announced_lately as "announcedLately", event.late_lately as "lateLately",
  mirror.nanos_of(event.first_late) as "firstLateHour",
  refuted.claims as "refutedClaims", mirror.nanos_of(refuted.first_at) as "firstRefutedClaimAt",
  refuted.reference as "refutedReference"
from mirror.sources s
left join newest using (source_id)
cross join lateral (
  select greatest(newest.received_at, (
      -- Ends at the first that is found.
      select w.last_at from mirror.calls w
      where w.source_id = s.source_id and w.kind = 'webhook' and w.outcome = 'accepted' order by w.minute desc limit 1
    ), hours.last_announced) as last_at, hours.*
  from (
    select coalesce(sum(changes) filter (where outcome = 'lost'), 0)::float8 as lost_ever,
      max(nullif(hour, '-infinity')) filter (where outcome <> 'lost') as last_announced,
      coalesce(sum(changes) filter (where outcome <> 'lost' and of_day), 0)::float8 as announced,
      coalesce(sum(changes) filter (where outcome = 'late' and of_day), 0)::float8 as late,
      coalesce(sum(changes) filter (where outcome = 'lost' and of_day), 0)::float8 as lost,
      min(greatest(hour, s.created_at)) filter (where outcome = 'lost' and of_day) as first_lost,
      coalesce(sum(changes) filter (where outcome <> 'lost' and lately), 0)::float8 as announced_lately,
      coalesce(sum(changes) filter (where outcome = 'late' and lately), 0)::float8 as late_lately,
      min(greatest(hour, s.created_at)) filter (where outcome = 'late' and lately) as first_late
    from (select *, hour > clock_timestamp() - interval '24 hours' as of_day,
        hour > clock_timestamp() - interval '2 hours' as lately
      from mirror.webhook_hours w where w.source_id = s.source_id) counted
  ) hours
) event
cross join lateral (
  select count(*)::int as since_event, min(found_at) as first_since_event
  from (select found_at from mirror.unannounced_changes u
    where u.source_id = s.source_id and u.found_at > coalesce(event.last_at, clock_timestamp() - interval '1 day')
      and u.found_at < clock_timestamp() - interval '${SILENCE_SECONDS} seconds'
      -- A status that no event ever had may be one that is not announced, once events arrive.
      and u.state in ('lost', case when event.last_at is null and s.receives_events then 'not_announced' end) limit ${FOUND_MAX}) found
) lost
cross join lateral (
  select count(*)::int as claims, min(seen_at) as first_at, (array_agg(reference order by seen_at desc))[1] as reference
  from (select seen_at, reference from mirror.history h
    where h.source_id = s.source_id and via = 'webhook' and (refuted or verdict = 'refuted')
      and seen_at > now() - interval '24 hours' limit ${COUNT_MAX + 1}) contradicted
) refuted
where $1::text is null or s.source_id = $1`;

export function readArrivals(pool: Pool, sourceId: string | null): Promise<Arrivals[]> {
  return queryInstants<Arrivals>(pool, { name: "read-arrivals", text: ARRIVALS }, [sourceId]);
}

const LOSS_RATE_MAX = 0.01;
const LATE_RATE_MAX = 0.1;
const LATE_MIN = 5;
/** Fewer contradicted events may be of a change that the provider took back. */
const REFUTED_MIN = 3;

const LOST_REMEDY = "Polling has repaired the affected orders. Compare with the provider's delivery log.";
const SANDBOX_REMEDY =
  "Polling has repaired the affected orders. If this is the demo, its sandbox drops one event in ten on purpose.";

/** Conditions of events that arrive, late, never, or with false claims. */
export const ARRIVAL_CONDITIONS: readonly Rule<Arrivals & Completeness & Polling>[] = [
  {
    name: "OrderMirrorClaimsRefuted",
    severity: "warning",
    area: "events",
    place: "Between us and the provider",
    answer: "False events",
    measures: "reads contradicted 3 or more signed events within a day",
    remedy:
      "Rotate the webhook secret, unless the provider confirms that its clock was wrong or that it was restored from a backup.",
    endsBy: "a day after the last one",
    page: "/ops/lost",
    // A list that is late contradicts genuine events: OrderMirrorProofTakenBack is about the cause.
    holds: (source) => source.refutedClaims >= REFUTED_MIN && !isListLate(source),
    since: ({ firstRefutedClaimAt }) => firstRefutedClaimAt,
    cause: ({ sourceId, refutedClaims, refutedReference }) =>
      `Reads contradict ${describeCount(refutedClaims, "signed event")} of ${sourceId}; \`${commandOn("order", refutedReference ?? "")}\` shows one.`,
  },
  {
    name: "OrderMirrorEventsStopped",
    severity: "critical",
    area: "events",
    place: "Between us and the provider",
    answer: "Webhooks stopped",
    measures: "events have stopped; changes are found by polling only",
    remedy:
      "Check the endpoint, its secret and the plan at the provider, then run `order-mirror doctor --url https://your-host`.",
    endsBy: ENDS_WITH_A_CALL,
    page: "/ops/lost",
    // Although every call is refused, too: a stranger may have sent the refused ones.
    holds: ({ configured, lastEventAt, lostSinceLastEvent }) =>
      configured === true && lastEventAt !== null && lostSinceLastEvent >= STOPPED_AFTER_LOST,
    since: ({ firstLostSinceLastEventAt }) => firstLostSinceLastEventAt,
    cause: ({ sourceId, lostSinceLastEvent }) =>
      `Webhooks of ${sourceId} have stopped: polling alone found the last ${describeCount(lostSinceLastEvent, "change")}.`,
  },
  {
    name: "OrderMirrorEventsLost",
    severity: "warning",
    area: "events",
    place: "Between us and the provider",
    answer: "Some missed",
    measures: "more than one event in a hundred was lost within a day",
    forSeconds: 900,
    noticedAfterSeconds: 0,
    remedy: LOST_REMEDY,
    endsBy: "when less than one in a hundred of the last day was lost",
    page: "/ops/lost",
    holds: (source) => source.configured === true && (lossRate(source) ?? 0) > LOSS_RATE_MAX,
    since: ({ firstLostAt }) => firstLostAt,
    cause: (source) => {
      const { sourceId, lost, announced } = source;
      const share = `${((lossRate(source) ?? 0) * 100).toFixed(1)} %`;
      return `${share} of the events of ${sourceId} were lost within a day (${lost} of ${lost + announced}).`;
    },
    fix: ({ baseUrl }) => (namesThisMachine(new URL(baseUrl).host) ? SANDBOX_REMEDY : LOST_REMEDY),
  },
  {
    name: "OrderMirrorEventsLate",
    severity: "warning",
    area: "events",
    place: "Between us and the provider",
    answer: "Some late",
    measures: "more than one event in ten arrives after a poll has found its change",
    remedy:
      "See the trends of the source: the provider sends late, webhooks were refused at first, or they are answered or applied slowly.",
    endsBy: "two hours after the last late event",
    page: SOURCE_PAGE,
    holds: ({ announcedLately, lateLately }) =>
      lateLately >= LATE_MIN && lateLately > LATE_RATE_MAX * announcedLately,
    since: ({ firstLateHour }) => firstLateHour,
    cause: ({ sourceId, announcedLately, lateLately }) =>
      `${lateLately} of ${describeCount(announcedLately, "event")} of ${sourceId} arrived after polling had found their change.`,
  },
];
