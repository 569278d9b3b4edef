import type { Pool } from "../database/database.ts";

/** A transaction that is writing changes: until it ends, readers of the feed do not see later changes. */
export interface FeedWriter {
  readonly pid: number;
  /** application_name of its connection; null if the server hides it. */
  readonly application: string | null;
  /** When it began, seconds since 1970 by the database's clock; null if the server hides it. */
  readonly since: number | null;
}

/** The oldest open transaction; null if there is none. */
export async function readOldestFeedWriter(pool: Pool): Promise<FeedWriter | null> {
  const { rows } = await pool.query<FeedWriter>(
    `select w.pid, a.application_name as application, extract(epoch from a.xact_start)::float8 as since
     from mirror.feed_writers() w left join pg_stat_activity a using (pid)
     order by a.xact_start nulls last limit 1`,
  );
  return rows[0] ?? null;
}
