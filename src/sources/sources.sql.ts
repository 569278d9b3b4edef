import type { Pool } from "../database/database.ts";

export interface SourceRow {
  readonly sourceId: string;
  readonly mode: "live" | "test";
  readonly baseUrl: string;
}

/**
 * Records the configured sources, which everything else refers to. Returns the ids of those whose mode differs
 * from what is stored: their orders would mix, so the caller must not go on.
 */
export async function recordSources(pool: Pool, sources: readonly SourceRow[]): Promise<string[]> {
  const result = await pool.query<{ source_id: string }>(
    `with configured as (
       select * from unnest($1::text[], $2::text[], $3::text[]) as c (source_id, mode, base_url)
     ), recorded as (
       insert into mirror.sources (source_id, mode, base_url)
       select source_id, mode, base_url from configured order by source_id
       on conflict (source_id) do update set base_url = excluded.base_url
       where sources.mode = excluded.mode and sources.base_url <> excluded.base_url
     )
     select source_id from configured join mirror.sources using (source_id)
     where sources.mode <> configured.mode`,
    [
      sources.map((source) => source.sourceId),
      sources.map((source) => source.mode),
      sources.map((source) => source.baseUrl),
    ],
  );
  return result.rows.map((row) => row.source_id);
}

/** Every source that was ever configured, by name. */
export async function readSourceIds(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ source_id: string }>(
    "select source_id from mirror.sources order by source_id",
  );
  return rows.map((row) => row.source_id);
}

/** True while polling of the source is paused. */
export async function isPaused(pool: Pool, sourceId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    "select from mirror.sources where source_id = $1 and paused_at is not null",
    [sourceId],
  );
  return rowCount === 1;
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
