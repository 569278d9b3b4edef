import type { Pool } from "../database/database.ts";

/**
 * What there is to measure of one source, for metrics, alerts and the doctor. Moments are seconds since 1970, null
 * where it has not happened yet; those of the provider's changes are the provider's time, the others the database's.
 */
export interface SourceFigures {
  readonly sourceId: string;
  readonly mode: "live" | "test";
  readonly baseUrl: string;
  /** The database's clock at the time of the look. */
  readonly now: number;
  readonly polledThrough: number | null;
  readonly safeThrough: number | null;
  readonly lastCycleStartedAt: number | null;
  readonly lastCycleEndedAt: number | null;
  /** What went wrong in the last cycle; null when it went well. */
  readonly lastError: string | null;
  /** Events without a decision; counting stops at FIGURE_COUNT_MAX, as for the quarantine. */
  readonly pending: number;
  readonly oldestPendingAt: number | null;
  readonly quarantined: number;
  readonly refetches: number;
  /** Spans of the last week that lie between proved windows and were not proved themselves. */
  readonly gaps: number;
  readonly oldestGap: { readonly since: number; readonly until: number } | null;
  /** Orders that safeThrough does not speak of; see mirror.exceptions. */
  readonly exceptions: number;
  /** How often a proof was taken back, since the beginning. */
  readonly breaches: number;
  readonly lastBreachAt: number | null;
  /** When an event last came; null when none is among the newest of all sources. */
  readonly lastEventAt: number | null;
  /** Changes that an event announced, in time or late, since the beginning, as the lost ones; see readWebhookRecord. */
  readonly announced: number;
  readonly lost: number;
  readonly lostSinceLastEvent: number;
  /** When a trait of the provider was last found to have changed. */
  readonly traitChangedAt: number | null;
  /** The overlap in force; null before it was first tuned, as with the next one. */
  readonly overlapSeconds: number | null;
  /** Age at which the latest change of the last week was seen, of those that an earlier read had missed. */
  readonly lateTailSeconds: number | null;
}

/** Counting further would cost a busy database more than the digits are worth. */
export const FIGURE_COUNT_MAX = 100_000;
/** A source whose last event lies further back than so many others counts as silent. */
const EVENTS_SEARCHED = 20_000;

const FIGURES = `
with waiting as (
  select source_id, count(*)::int as pending, min(received_at) as oldest
  from (select source_id, received_at from mirror.pending order by seq limit $1) p group by source_id
), parked as (
  select source_id, count(*)::int as quarantined
  from (select source_id from mirror.quarantine where state = 'open' limit $1) q group by source_id
), wished as (
  select source_id, count(*)::int as refetches
  from (select source_id from mirror.refetches limit $1) r group by source_id
), broken as (
  select source_id, count(*)::int as breaches, max(found_at) as last_at from mirror.coverage_breaches group by source_id
), excepted as (
  select source_id, count(*)::int as exceptions
  from (select source_id from mirror.exceptions limit $1) e group by source_id
), announced as (
  select source_id, sum(events)::float8 as announced, max(last_at) as last_at
  from mirror.announced_statuses group by source_id
), proved as (
  select source_id, int8multirange(int8range(min(since), max(until))) - range_agg(int8range(since, until)) as missing
  from mirror.proved
  where until > (extract(epoch from now()) - 7 * 86400) * 1000000000 group by source_id
)
select s.source_id as "sourceId", s.mode, s.base_url as "baseUrl",
  extract(epoch from clock_timestamp())::float8 as "now",
  (poll.polled_through / 1e9)::float8 as "polledThrough", (poll.safe_through / 1e9)::float8 as "safeThrough",
  extract(epoch from poll.last_cycle_started_at)::float8 as "lastCycleStartedAt",
  extract(epoch from poll.last_cycle_ended_at)::float8 as "lastCycleEndedAt", poll.last_error as "lastError",
  coalesce(waiting.pending, 0) as pending, extract(epoch from waiting.oldest)::float8 as "oldestPendingAt",
  coalesce(parked.quarantined, 0) as quarantined, coalesce(wished.refetches, 0) as refetches,
  coalesce(excepted.exceptions, 0) as exceptions, coalesce(broken.breaches, 0) as breaches,
  extract(epoch from broken.last_at)::float8 as "lastBreachAt",
  coalesce((select count(*) from unnest(proved.missing))::int, 0) as gaps,
  (select lower(gap) / 1e9 from unnest(proved.missing) as gap order by gap limit 1)::float8 as "gapSince",
  (select upper(gap) / 1e9 from unnest(proved.missing) as gap order by gap limit 1)::float8 as "gapUntil",
  extract(epoch from last.event_at)::float8 as "lastEventAt", coalesce(announced.announced, 0) as announced,
  lost.lost, lost.since_event as "lostSinceLastEvent",
  (select extract(epoch from max(changed_at))::float8 from mirror.provider_traits t where t.source_id = s.source_id) as "traitChangedAt",
  poll.overlap_seconds as "overlapSeconds", poll.late_tail_seconds as "lateTailSeconds"
from mirror.sources s
left join mirror.poll_state poll using (source_id)
left join waiting using (source_id)
left join parked using (source_id)
left join wished using (source_id)
left join broken using (source_id)
left join excepted using (source_id)
left join announced using (source_id)
left join proved using (source_id)
cross join lateral (
  -- Ends at the first that is found: of a source whose events come, that is one of the newest rows.
  select greatest(announced.last_at, (
    select received_at from (
      select source_id, received_at from mirror.inbox order by seq desc limit $2
    ) newest where newest.source_id = s.source_id limit 1
  )) as event_at
) last
cross join lateral (
  select (count(*) + coalesce((select r.lost from mirror.lost_events_removed r where r.source_id = s.source_id), 0))::float8 as lost,
    (count(*) filter (where found_at > last.event_at))::int as since_event
  from mirror.unannounced_changes u where u.source_id = s.source_id and u.state = 'lost'
) lost
order by s.source_id`;

type FiguresRow = Omit<SourceFigures, "oldestGap"> & {
  readonly gapSince: number | null;
  readonly gapUntil: number | null;
};

/** The figures of every source that was ever configured, by name, in one statement; it counts what waits up to countMax + 1. */
export async function readSourceFigures(
  pool: Pool,
  countMax: number = FIGURE_COUNT_MAX,
): Promise<SourceFigures[]> {
  const { rows } = await pool.query<FiguresRow>({
    name: "read-source-figures",
    text: FIGURES,
    values: [countMax + 1, EVENTS_SEARCHED],
  });
  return rows.map(({ gapSince, gapUntil, ...row }) => ({
    ...row,
    oldestGap: gapSince === null || gapUntil === null ? null : { since: gapSince, until: gapUntil },
  }));
}

/** What the server says of itself, for the doctor. */
export interface ServerFacts {
  readonly version: string;
  readonly timeZone: string;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly synchronousCommit: string;
  /** The server's clock, seconds since 1970. */
  readonly now: number;
}

export async function readServerFacts(pool: Pool): Promise<ServerFacts> {
  const { rows } = await pool.query<ServerFacts>(
    `select split_part(current_setting('server_version'), ' ', 1) as version,
       current_setting('TimeZone') as "timeZone", current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as "fullPageWrites",
       current_setting('synchronous_commit') as "synchronousCommit",
       extract(epoch from clock_timestamp())::float8 as "now"`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a select without from returns one row");
  return row;
}

/** Whether the role of reporting tools is there, and may read what it is for. */
export async function readReaderRole(pool: Pool): Promise<"ready" | "missing" | "without_rights"> {
  const { rows } = await pool.query<{ usable: boolean }>(
    `select has_schema_privilege(oid, 'reporting', 'usage')
       and has_table_privilege(oid, 'reporting.orders', 'select') as usable
     from pg_catalog.pg_roles where rolname = 'order_mirror_reader'`,
  );
  const [role] = rows;
  if (role === undefined) return "missing";
  return role.usable ? "ready" : "without_rights";
}

/** Reference of the order of a source that changed last; undefined when there is none. */
export async function readNewestReference(pool: Pool, sourceId: string): Promise<string | undefined> {
  const { rows } = await pool.query<{ reference: string }>(
    "select reference from mirror.orders where source_id = $1 order by version desc, reference desc limit 1",
    [sourceId],
  );
  return rows[0]?.reference;
}
