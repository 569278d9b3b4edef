import type { Mode } from "../domain/source/orderSource.ts";
import type { Pool } from "../database/database.ts";

export interface SourceRow {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly baseUrl: string;
  /** Identity of the provider. */
  readonly provider: string;
}

/** The stored facts about a source. */
export interface StoredSource {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly provider: string | null;
  /** Branches, in words, of another organization, which the configured key is of; null while it is of the source's. */
  readonly refusedBranches: string | null;
  /** A person has paused polling. */
  readonly isPaused: boolean;
}

/**
 * Records the configured sources, which everything else refers to. Skips those with another mode, or with another
 * provider about which something is stored.
 */
export async function recordSources(pool: Pool, sources: readonly SourceRow[]): Promise<void> {
  await pool.query("select mirror.record_sources($1, $2, $3, $4)", [
    sources.map(({ sourceId }) => sourceId),
    sources.map(({ mode }) => mode),
    sources.map(({ baseUrl }) => baseUrl),
    sources.map(({ provider }) => provider),
  ]);
}

/** Records for each source whether web verifies events of it, for the processes that do not know the secrets. */
export async function recordReceiving(pool: Pool, receives: ReadonlyMap<string, boolean>): Promise<void> {
  await pool.query(
    `update mirror.sources s set receives_events = c.receives
     from unnest($1::text[], $2::boolean[]) as c (source_id, receives)
     where s.source_id = c.source_id and s.receives_events is distinct from c.receives`,
    [[...receives.keys()], [...receives.values()]],
  );
}

const STORED = `select source_id as "sourceId", mode, provider, refused_branches as "refusedBranches",
  paused_at is not null as "isPaused" from mirror.sources`;

/** The stored facts about a source; undefined if it was never configured. */
export async function readSource(pool: Pool, sourceId: string): Promise<StoredSource | undefined> {
  const { rows } = await pool.query<StoredSource>(`${STORED} where source_id = $1`, [sourceId]);
  return rows[0];
}

/** Sources of a database, migrated or not, whose provider is not known to be `provider`. */
export async function findSourcesOfOthers(pool: Pool, provider: string): Promise<StoredSource[]> {
  const { rows: places } = await pool.query<{ present: boolean }>(
    "select to_regclass('mirror.sources') is not null as present",
  );
  if (places[0]?.present !== true) return [];
  const { rows } = await pool.query<StoredSource>(
    `${STORED} where provider is distinct from $1 order by source_id`,
    [provider],
  );
  return rows;
}

/** Reads the names of all sources that were ever configured. */
export async function readSourceIds(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ sourceId: string }>(
    `select source_id as "sourceId" from mirror.sources order by source_id`,
  );
  return rows.map(({ sourceId }) => sourceId);
}

/** Pauses polling of a source, or ends the pause; false when nothing had to be changed. */
export async function setPaused(
  pool: Pool,
  { sourceId, paused }: { sourceId: string; paused: boolean },
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `update mirror.sources set paused_at = case when $2 then clock_timestamp() end,
       resumed_at = case when $2 then resumed_at else clock_timestamp() end
     where source_id = $1 and (paused_at is not null) <> $2`,
    [sourceId, paused],
  );
  return rowCount === 1;
}

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
    `with before as materialized (
       select source_id, provider as former, refused_branches from mirror.sources
       where source_id = $1 and (provider is distinct from $2 or refused_branches is not null) for update
     ), free as (
       -- Locks the lease of its poller. A poller that has just taken it is seen, also after a wait for the lock; one that
       -- would take it waits, and then finds the other provider.
       insert into mirror.leases as lease (name, holder, fence, expires_at, server)
       select 'poll:' || source_id, $4, 0, clock_timestamp(), mirror.server_identity() from before
       on conflict (name) do update set fence = lease.fence + 1 where lease.expires_at <= clock_timestamp()
       returning name
     ), adopted as (
       update mirror.sources s set provider = $2, base_url = $3, branch_ids = '{}', refused_branches = null,
         branches_read_at = null, created_at = clock_timestamp()
       from before, free where s.source_id = before.source_id
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
