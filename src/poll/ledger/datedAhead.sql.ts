import type { Pool } from "../../database/database.ts";

export interface DatedAhead {
  /** Some waited for a decision. */
  readonly waited: boolean;
  /** Their time has come: they await a decision again. */
  readonly due: number;
  /** A read made since does not show them. */
  readonly refuted: number;
}

/*
 * - ahead: events whose updatedAt lay ahead of the provider's clock, and when they came, by that clock.
 * - refuted: the order's horizon has passed the moment at which the event came, so a read made since would show the change
 *   if it had been made by then; or nobody knows such an order a margin after it came.
 * - asked: a read of the order that comes late enough to tell.
 */
const STATEMENT = `
with clock as (
  select provider_clock - mirror.nanos_of(provider_clock_at) as ahead_nanos,
    provider_clock - mirror.nanos_of(provider_clock_at) + mirror.nanos_of(clock_timestamp()) as provider_now
  from mirror.poll_state where source_id = $1 and provider_clock is not null
), ahead as materialized (
  select q.quarantine_id, q.source_id, q.inbox_seq, q.reference, q.version, clock.provider_now,
    mirror.nanos_of(q.quarantined_at) + clock.ahead_nanos as came_at
  from mirror.quarantine q, clock
  where q.source_id = $1 and q.state = 'open' and q.reason = 'dated_ahead'
  order by q.quarantine_id limit $4 for update of q skip locked
), due as (
  delete from mirror.quarantine q using ahead a
  where q.quarantine_id = a.quarantine_id and a.version <= a.provider_now + $2::bigint
  returning q.quarantine_id, q.inbox_seq, q.source_id
), awaiting as (
  insert into mirror.pending (seq, source_id) select inbox_seq, source_id from due order by inbox_seq
  on conflict do nothing
), known as materialized (
  select a.*, o.reference is not null as is_known, o.horizon,
    a.came_at + $3::bigint < a.provider_now as is_old,
    exists (select from mirror.refetches r where r.source_id = a.source_id and r.reference = a.reference) as is_asked
  from ahead a left join mirror.orders o on o.source_id = a.source_id and o.reference = a.reference
  where a.quarantine_id not in (select quarantine_id from due)
), refuted as (
  update mirror.quarantine q set state = 'dismissed', dismissed_at = clock_timestamp(),
    dismissed_because = 'a read made since does not show it'
  from known k
  where q.quarantine_id = k.quarantine_id
    and (k.horizon >= k.came_at or (not k.is_known and k.is_old and not k.is_asked))
  returning q.quarantine_id
), recorded as (
  insert into mirror.history (source_id, reference, via, verdict, reason, inbox_seq, event_id, version)
  select k.source_id, k.reference, 'webhook', 'refuted', 'dated ahead of the provider''s clock', k.inbox_seq, i.event_id, k.version
  from refuted r join known k using (quarantine_id) left join mirror.inbox i on i.seq = k.inbox_seq
), asked as (
  insert into mirror.refetches (source_id, reference, reason)
  select distinct source_id, reference, 'dated ahead' from known
  where is_old and is_known and not is_asked and quarantine_id not in (select quarantine_id from refuted)
  on conflict (source_id, reference) do nothing
)
select exists (
    select from mirror.quarantine where source_id = $1 and state = 'open' and reason = 'dated_ahead') as waited,
  (select count(*) from due)::int as due, (select count(*) from refuted)::int as refuted`;

const LIMIT = 500;

/** Decides on events that were dated ahead of the provider's clock, as far as time or a read allows. */
export async function decideDatedAhead(
  pool: Pool,
  query: { sourceId: string; aheadNanosMax: bigint; marginNanos: bigint },
): Promise<DatedAhead> {
  const values = [query.sourceId, query.aheadNanosMax, query.marginNanos, LIMIT];
  const { rows } = await pool.query<DatedAhead>({ name: "decide-dated-ahead", text: STATEMENT, values });
  return rows[0] ?? { waited: false, due: 0, refuted: 0 };
}
