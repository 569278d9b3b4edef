import type { Mode } from "../domain/source/orderSource.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { PollTrouble } from "../domain/pollTrouble.ts";
import { queryInstants, type Pool } from "../database/database.ts";

/** Counts of waiting entries stop here, separately for each source: more digits would not help anybody. */
export const COUNT_MAX = 100_000;

/**
 * The state of a source. Status, metrics, ops page, doctor, alerts and readiness are all based on it. `safeThrough`,
 * `polledThrough`, `historySince`, `provedUntil` and gaps are in the provider's time; all other times are the
 * database's.
 */
export interface Standing {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly baseUrl: string;
  /** The database's clock at the time of the reading. */
  readonly now: Instant;
  /** When the source was first configured here. */
  readonly createdAt: Instant;
  /** Web has a webhook secret for it. Until a web process has started with the source: true after the first event, else null. */
  readonly configured: boolean | null;
  /** When a person paused polling; null if it is not paused. */
  readonly pausedAt: Instant | null;
  /** The process that leads polling; null if none does. */
  readonly leader: string | null;
  /** When the last leader ended; null if a process leads. */
  readonly leaderlessSince: Instant | null;
  /** Start of the period that safeThrough covers; null if the source was never polled. */
  readonly historySince: Instant | null;
  /** End of the last completely polled window: the cursor. */
  readonly polledThrough: Instant | null;
  /** The mirror has every change from historySince until just before this; null before the first proof. */
  readonly safeThrough: Instant | null;
  /** End of the last proved window, regardless of earlier gaps. */
  readonly provedUntil: Instant | null;
  readonly lastCycleEndedAt: Instant | null;
  /** When the first of the current series of failed cycles ended; null if the last cycle succeeded. */
  readonly failingSince: Instant | null;
  /** Why the last cycle failed; null if it succeeded. */
  readonly lastError: string | null;
  readonly trouble: PollTrouble | null;
  /** Seconds by which the provider's clock is ahead of the database's (positive) or behind; null while they agree. */
  readonly clockErrorSeconds: number | null;
  readonly clockWrongSince: Instant | null;
  /** Requests of the last 10 minutes that the provider answered with 429, and when the first was recorded. */
  readonly rateRefusals: number;
  readonly firstRateRefusalAt: Instant | null;
  /** Unproved periods of the last week between proved windows. */
  readonly gaps: number;
  readonly oldestGap: { readonly since: Instant; readonly until: Instant } | null;
  /** When the oldest gap arose: when a later window was first proved. */
  readonly gapFoundAt: Instant | null;
  /** Orders that safeThrough excludes; see mirror.exceptions. Counting stops at COUNT_MAX + 1. */
  readonly exceptions: number;
  /** When the first of them was found; null if there is none. */
  readonly oldestExceptionAt: Instant | null;
  /** How often proofs have ever been withdrawn, and when last. */
  readonly breaches: number;
  readonly lastBreachAt: Instant | null;
  /** How late a poll or an event brought the change of the last breach; null if another read found it. */
  readonly lateSeconds: number | null;
  /** POLL_MARGIN_SECONDS at the last cycle; null before the first. */
  readonly marginSeconds: number | null;
  /** POLL_INTERVAL_SECONDS at the last cycle; null before the first. */
  readonly intervalSeconds: number | null;
  /** When the provider's list was found to omit orders that the mirror has; null while it omits none. */
  readonly listDoubtedAt: Instant | null;
  /** Events without a decision. */
  readonly pending: number;
  readonly oldestPendingAt: Instant | null;
  /** Open quarantined input; counting stops at COUNT_MAX + 1, as it does for refetches. */
  readonly quarantined: number;
  readonly oldestQuarantinedAt: Instant | null;
  readonly refetches: number;
  /** When the last event arrived; null if none ever did. */
  readonly lastEventAt: Instant | null;
  /** The mirror has an order of it. */
  readonly hasOrders: boolean;
  /** Changes that no event announced, since the beginning. */
  readonly lostEver: number;
  /** Of the last 24 hours: changes that an event announced, in time or late, and ones that none did; `late`: announced after a read had found the change. */
  readonly announced: number;
  readonly late: number;
  readonly lost: number;
  readonly firstLostAt: Instant | null;
  readonly lostSinceLastEvent: number;
  readonly firstLostSinceLastEventAt: Instant | null;
  /**
   * Events of the last 24 hours that we decided more than a minute after we had received them: no worker ran, or none was
   * fast enough. They are neither late nor lost.
   */
  readonly waitedForUs: number;
  readonly waitedForUsSecondsMax: number;
  /** Changes announced in this hour and the last one; `lateLately` as `late`. */
  readonly announcedLately: number;
  readonly lateLately: number;
  readonly firstLateHour: Instant | null;
  /** Events of the last 24 hours whose claim a read contradicted; counting stops at COUNT_MAX + 1. */
  readonly refutedClaims: number;
  readonly firstRefutedClaimAt: Instant | null;
  /** The reference of an order affected by the last of them. */
  readonly refutedReference: string | null;
  /** Signed calls to the webhook address since the last event whose signature did not verify, within two days. */
  readonly refusedSinceLastEvent: number;
  /** Of those, the calls that were signed too long before or after the web process's clock. */
  readonly wrongTimesSinceLastEvent: number;
  readonly firstRefusedAt: Instant | null;
  /**
   * Changes that reads found after the first of these calls, at least a minute ago: their events should have arrived by
   * now.
   */
  readonly foundSinceRefused: number;
  /** Calls of the last 10 minutes whose signature did not verify; `wrongTimes` of them because of the time of signing. */
  readonly wrongSignatures: number;
  readonly wrongTimes: number;
  readonly firstWrongSignatureAt: Instant | null;
  /** Of the last 5 minutes: answered 5xx; 0 if none was within the last minute. */
  readonly notStored: number;
  readonly firstNotStoredAt: Instant | null;
  /** Of the last 10 minutes: answered 404, because the source had no webhook secret. */
  readonly withoutSecret: number;
  readonly firstWithoutSecretAt: Instant | null;
}

/** The last event is searched among this many rows of the inbox; for older events, the record of calls is used. */
const EVENTS_SEARCHED = 5_000;
const RECENT_MINUTES = 10;
/** One poll may find several lost changes between two events: only if none arrives for this long have they stopped. */
const SILENCE_SECONDS = 10;
/** Counting what only reads found since the last event stops here: more digits would not help anybody. */
const FOUND_MAX = 1_000;

const STANDING = `
with chosen as (
  select * from mirror.sources where $1::text is null or source_id = $1
), waiting as (
  select source_id, count(*)::int as pending, min(received_at) as oldest from mirror.pending
  where $1::text is null or source_id = $1 group by source_id
), newest as (
  select source_id, max(received_at) as received_at
  from (select source_id, received_at from mirror.inbox order by seq desc limit ${EVENTS_SEARCHED}) last group by source_id
), proved as (
  select source_id, int8multirange(int8range(min(since), max(until))) - range_agg(int8range(since, until)) as missing
  from mirror.proved
  where until > (extract(epoch from now()) - 7 * 86400) * 1000000000 and ($1::text is null or source_id = $1)
  group by source_id
)
select s.source_id as "sourceId", s.mode, s.base_url as "baseUrl",
  coalesce(s.receives_events, case when event.last_at is not null then true end) as configured,
  mirror.nanos_of(clock_timestamp()) as now, mirror.nanos_of(s.created_at) as "createdAt",
  mirror.nanos_of(s.paused_at) as "pausedAt",
  case when led.expires_at > clock_timestamp() then led.holder end as leader,
  case when led.expires_at > clock_timestamp() then null
    else mirror.nanos_of(greatest(led.expires_at, s.created_at)) end as "leaderlessSince",
  poll.history_since as "historySince", poll.polled_through as "polledThrough", poll.safe_through as "safeThrough",
  greatest(poll.safe_through, (select until from mirror.coverage c
    where c.source_id = s.source_id and proved order by until desc limit 1)) as "provedUntil",
  mirror.nanos_of(poll.last_cycle_ended_at) as "lastCycleEndedAt", mirror.nanos_of(poll.failing_since) as "failingSince",
  poll.last_error as "lastError", poll.trouble,
  poll.clock_error_seconds as "clockErrorSeconds", mirror.nanos_of(poll.clock_wrong_since) as "clockWrongSince",
  coalesce(rate.refused, 0) as "rateRefusals", mirror.nanos_of(rate.first_at) as "firstRateRefusalAt",
  coalesce((select count(*) from unnest(proved.missing))::int, 0) as gaps,
  gap.since as "gapSince", gap.until as "gapUntil", mirror.nanos_of(gap.found_at) as "gapFoundAt",
  (select count(*)::int from (select from mirror.exceptions e
    where e.source_id = s.source_id limit ${COUNT_MAX + 1}) open) as exceptions,
  (select mirror.nanos_of(min(found_at)) from mirror.exceptions e where e.source_id = s.source_id) as "oldestExceptionAt",
  broken.breaches, mirror.nanos_of(broken.last_at) as "lastBreachAt",
  broken.late_seconds as "lateSeconds", poll.margin_seconds as "marginSeconds", poll.interval_seconds as "intervalSeconds",
  mirror.nanos_of(poll.list_doubted_at) as "listDoubtedAt",
  coalesce(waiting.pending, 0) as pending, mirror.nanos_of(waiting.oldest) as "oldestPendingAt",
  (select count(*)::int from (select from mirror.quarantine q
    where q.source_id = s.source_id and q.state = 'open' limit ${COUNT_MAX + 1}) open) as quarantined,
  (select mirror.nanos_of(min(quarantined_at)) from mirror.quarantine q
    where q.source_id = s.source_id and q.state = 'open') as "oldestQuarantinedAt",
  (select count(*)::int from (select from mirror.refetches r
    where r.source_id = s.source_id limit ${COUNT_MAX + 1}) asked) as refetches,
  mirror.nanos_of(event.last_at) as "lastEventAt",
  exists (select from mirror.orders o where o.source_id = s.source_id) as "hasOrders",
  event.lost_ever as "lostEver",
  event.announced, event.late, event.lost, mirror.nanos_of(event.first_lost) as "firstLostAt",
  event.waited as "waitedForUs", event.waited_seconds as "waitedForUsSecondsMax",
  lost.since_event as "lostSinceLastEvent", mirror.nanos_of(lost.first_since_event) as "firstLostSinceLastEventAt",
  event.announced_lately as "announcedLately", event.late_lately as "lateLately",
  mirror.nanos_of(event.first_late) as "firstLateHour",
  refuted.claims as "refutedClaims", mirror.nanos_of(refuted.first_at) as "firstRefutedClaimAt",
  refuted.reference as "refutedReference",
  refused.calls as "refusedSinceLastEvent", refused.wrong_times as "wrongTimesSinceLastEvent", mirror.nanos_of(refused.first_at) as "firstRefusedAt",
  (select count(*)::int from (select from mirror.unannounced_changes u where u.source_id = s.source_id
    and u.found_at between refused.first_at and clock_timestamp() - interval '1 minute' and u.state <> 'late' limit ${FOUND_MAX}) found) as "foundSinceRefused",
  recent.refused as "wrongSignatures", recent.wrong_times as "wrongTimes",
  mirror.nanos_of(recent.first_refused) as "firstWrongSignatureAt",
  recent.not_stored as "notStored", mirror.nanos_of(recent.first_not_stored) as "firstNotStoredAt",
  recent.no_secret as "withoutSecret", mirror.nanos_of(recent.first_no_secret) as "firstWithoutSecretAt"
from chosen s
left join mirror.poll_state poll using (source_id)
left join mirror.leases led on led.name = 'poll:' || s.source_id
left join waiting using (source_id)
left join newest using (source_id)
left join proved using (source_id)
left join lateral (
  select lower(span) as since, upper(span) as until,
    (select min(ended_at) from mirror.coverage c
     where c.source_id = s.source_id and proved and c.until > upper(span) and c.since >= upper(span)) as found_at
  from unnest(proved.missing) as span order by span limit 1
) gap on true
cross join lateral (
  select count(*)::int as breaches, max(found_at) as last_at,
    (array_agg(extract(epoch from found_at) - version / 1e9 order by breach_id desc)
      filter (where found_by = 'poll' or kind = 'late_event'))[1]::float8 as late_seconds
  from mirror.coverage_breaches b where b.source_id = s.source_id
) broken
cross join lateral (
  select sum(calls)::int as refused, min(minute) as first_at
  from mirror.calls r
  where r.source_id = s.source_id and outcome = 'refused' and minute > clock_timestamp() - interval '${RECENT_MINUTES} minutes'
) rate
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
      min(greatest(hour, s.created_at)) filter (where outcome = 'late' and lately) as first_late,
      coalesce(sum(waited) filter (where of_day), 0)::float8 as waited,
      coalesce(max(waited_max_seconds) filter (where of_day and waited > 0), 0)::float8 as waited_seconds
    from (select *, hour > clock_timestamp() - interval '24 hours' as of_day,
        hour > clock_timestamp() - interval '2 hours' as lately
      from mirror.webhook_hours w where w.source_id = s.source_id) counted
  ) hours
) event
cross join lateral (
  select count(*)::int as since_event, min(found_at) as first_since_event
  from (select found_at from mirror.unannounced_changes u
    where u.source_id = s.source_id and u.found_at > event.last_at
      and u.found_at < clock_timestamp() - interval '${SILENCE_SECONDS} seconds' and u.state = 'lost' limit ${FOUND_MAX}) found
) lost
cross join lateral (
  select count(*)::int as claims, min(seen_at) as first_at, (array_agg(reference order by seen_at desc))[1] as reference
  from (select seen_at, reference from mirror.history h
    where h.source_id = s.source_id and via = 'webhook' and (refuted or verdict = 'refuted')
      and seen_at > now() - interval '24 hours' limit ${COUNT_MAX + 1}) contradicted
) refuted
cross join lateral (
  select coalesce(sum(calls), 0)::int as calls, min(minute) as first_at,
    coalesce(sum(calls) filter (where outcome = 'wrong_time'), 0)::int as wrong_times
  from mirror.calls w
  where w.source_id = s.source_id and w.kind = 'webhook' and w.outcome in ('wrong_signature', 'wrong_time')
    and w.minute >= greatest(date_trunc('minute', event.last_at), clock_timestamp() - interval '2 days')
    and w.last_at > coalesce(event.last_at, '-infinity')
) refused
cross join lateral (
  select coalesce(sum(calls) filter (where outcome in ('wrong_signature', 'wrong_time')), 0)::int as refused,
    coalesce(sum(calls) filter (where outcome = 'wrong_time'), 0)::int as wrong_times,
    min(minute) filter (where outcome in ('wrong_signature', 'wrong_time')) as first_refused,
    case when max(last_at) filter (where outcome = 'not_stored') > clock_timestamp() - interval '1 minute'
      then sum(calls) filter (where outcome = 'not_stored' and last_at > clock_timestamp() - interval '5 minutes') else 0 end::int as not_stored,
    min(minute) filter (where outcome = 'not_stored' and last_at > clock_timestamp() - interval '5 minutes') as first_not_stored,
    coalesce(sum(calls) filter (where outcome = 'no_secret'), 0)::int as no_secret,
    min(minute) filter (where outcome = 'no_secret') as first_no_secret
  from mirror.calls w
  where w.source_id = s.source_id and w.kind = 'webhook' and w.minute > clock_timestamp() - interval '${RECENT_MINUTES} minutes'
) recent
order by s.source_id`;

type StandingRow = Omit<Standing, "oldestGap"> & {
  readonly gapSince: Instant | null;
  readonly gapUntil: Instant | null;
};

/** Every source that was ever configured, by name, or only the named one, in one statement. */
export async function readStandings(pool: Pool, sourceId: string | null = null): Promise<Standing[]> {
  const statement = { name: "read-standings", text: STANDING };
  const rows = await queryInstants<StandingRow>(pool, statement, [sourceId]);
  return rows.map(({ gapSince: since, gapUntil: until, ...row }) => ({
    ...row,
    oldestGap: since === null || until === null ? null : { since, until },
  }));
}
