import type { Pool } from "../database/database.ts";

export interface Adoption {
  /** The former identification of the provider. */
  readonly former: string | null;
  /** Orders that stay, each to be compared with the provider. */
  readonly orders: number;
}

/**
 * Assigns a source to another provider, or to the refused organization, and restarts its history: everything proved,
 * measured and learned about the former one is removed, its orders stay, and a comparison of all of them is requested.
 * The audit log records both. Undefined, without changes, if neither differs or a poller leads the source.
 */
export async function adoptSource(
  pool: Pool,
  given: { sourceId: string; provider: string; baseUrl: string; person: string },
): Promise<Adoption | undefined> {
  const { rows } = await pool.query<Adoption>(
    `with adopted as (
       update mirror.sources s set provider = $2, base_url = $3, branch_ids = '{}', refused_branches = null
       from (select source_id, provider as former, refused_branches from mirror.sources where source_id = $1 for update)
         as before
       where s.source_id = before.source_id
         and (before.former is distinct from $2 or before.refused_branches is not null)
         and not exists (
           select from mirror.leases where name = 'poll:' || $1 and expires_at > clock_timestamp()
         )
       returning s.source_id, before.former, before.refused_branches
     ), extent as (
       select a.source_id, count(*) as orders, min(o.version) as since
       from adopted a join mirror.orders o using (source_id) group by a.source_id
     ), state as (
       delete from mirror.poll_state p using adopted a where p.source_id = a.source_id
       returning p.history_since, p.safe_through
     ), windows as (
       delete from mirror.coverage c using adopted a where c.source_id = a.source_id
     ), breaches as (
       delete from mirror.coverage_breaches b using adopted a where b.source_id = a.source_id
     ), announced as (
       delete from mirror.webhook_hours w using adopted a where w.source_id = a.source_id
     ), requests as (
       update mirror.period_requests r set state = 'cancelled', ended_at = clock_timestamp(),
         last_error = 'the source went to another provider'
       from adopted a where r.source_id = a.source_id and r.state in ('requested', 'running')
     ), comparison as (
       insert into mirror.period_requests (source_id, kind, since, until, read_down_to)
       select source_id, 'verification', since, greatest(since + 1, present), greatest(since + 1, present)
       from extent, (select floor(extract(epoch from clock_timestamp()))::bigint * 1000000000 as present) as clock
     )
     insert into mirror.ops_actions (role, person, action, source_id, target, note, affected)
     select 'command', $4, 'adopt', a.source_id, $2,
       format('before: %s, proved from %s to %s%s', coalesce(a.former, 'not known'),
         coalesce(mirror.instant_at(s.history_since)::text, 'never'),
         coalesce(mirror.instant_at(s.safe_through)::text, 'never'),
         '; now the organization with the branches ' || a.refused_branches),
       coalesce(e.orders, 0)
     from adopted a left join state s on true left join extent e on true
     returning (select former from adopted), affected::int as orders`,
    [given.sourceId, given.provider, given.baseUrl, given.person],
  );
  return rows[0];
}
