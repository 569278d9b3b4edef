import type { Mode } from "../domain/source/orderSource.ts";
import type { Pool } from "../database/database.ts";

export interface SourceRow {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly baseUrl: string;
  /** What identifies the provider. */
  readonly provider: string;
}

/** The stored facts about a source. */
export interface StoredSource {
  readonly sourceId: string;
  readonly mode: Mode;
  readonly provider: string | null;
  /** Branches, in words, of another organization, which the configured key is of; null while it is of the source's. */
  readonly refusedBranches: string | null;
}

/** Nothing was ever read or received for the row of `sources`, nor is about to be: a wrong address may be corrected. */
const UNUSED = `not exists (select from mirror.poll_state p where p.source_id = sources.source_id and p.safe_through is not null)
  and not exists (select from mirror.coverage c where c.source_id = sources.source_id)
  and not exists (select from mirror.orders o where o.source_id = sources.source_id)
  and not exists (select from mirror.inbox i where i.source_id = sources.source_id)
  and not exists (
    select from mirror.leases l where l.name = 'poll:' || sources.source_id and l.expires_at > clock_timestamp()
  )`;

/**
 * Records the configured sources, which everything else refers to. Skips those with another mode, or with another
 * provider about which something is stored.
 */
export async function recordSources(pool: Pool, sources: readonly SourceRow[]): Promise<void> {
  await pool.query(
    `insert into mirror.sources (source_id, mode, base_url, provider)
     select * from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as c (source_id, mode, base_url, provider)
     order by source_id
     on conflict (source_id) do update set base_url = excluded.base_url, provider = excluded.provider
     where sources.mode = excluded.mode
       and (sources.base_url, sources.provider) is distinct from (excluded.base_url, excluded.provider)
       and (coalesce(sources.provider, excluded.provider) = excluded.provider or (${UNUSED}))`,
    [
      sources.map(({ sourceId }) => sourceId),
      sources.map(({ mode }) => mode),
      sources.map(({ baseUrl }) => baseUrl),
      sources.map(({ provider }) => provider),
    ],
  );
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

const STORED = `select source_id as "sourceId", mode, provider, refused_branches as "refusedBranches" from mirror.sources`;

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

/** Every source that was ever configured, by name. */
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
    `update mirror.sources set paused_at = case when $2 then clock_timestamp() end
     where source_id = $1 and (paused_at is not null) <> $2`,
    [sourceId, paused],
  );
  return rowCount === 1;
}
