import type { Instant } from "../domain/order/instant.ts";
import type { Pool } from "../database/database.ts";

/** One step of a pass: rows are looked at in the order in which they were written. */
interface RetentionStep {
  readonly removed: number;
  /** Where the next step goes on; null when the pass is over. */
  readonly after: string | null;
}

interface StepQuery {
  /** Rows of this instant and later stay, by the database's clock. */
  readonly cutoff: Instant;
  /** Number of the last row that was looked at; "0" to begin. */
  readonly after: string;
  readonly limit: number;
}

/** Removes rows of one table; see RetentionStep. */
export type RetentionRule = (pool: Pool, query: StepQuery) => Promise<RetentionStep>;

const CUTOFF = "to_timestamp($2::numeric / 1000000000)";

/** Events that were decided on and lie in no quarantine, bodies and all. What was decided stays in the history. */
export const removeEvents: RetentionRule = (pool, query) =>
  runStep(
    pool,
    query,
    `with batch as materialized (
       select seq as id, received_at as at from mirror.inbox where seq > $1 order by seq limit $3
     ), gone as (
       delete from mirror.inbox i using batch b
       where i.seq = b.id and b.at < ${CUTOFF}
         and not exists (select from mirror.pending p where p.seq = i.seq)
         and not exists (select from mirror.quarantine q where q.inbox_seq = i.seq and q.state = 'open')
       returning 1
     )`,
  );

/** Observations, but of each order the one that it shows now: it says why the mirror says so. */
export const removeHistory: RetentionRule = (pool, query) =>
  runStep(
    pool,
    query,
    `with batch as materialized (
       select history_id as id, seen_at as at from mirror.history where history_id > $1 order by history_id limit $3
     ), gone as (
       delete from mirror.history h using batch b
       where h.history_id = b.id and b.at < ${CUTOFF}
         and not exists (
           select from mirror.orders o
           where o.source_id = h.source_id and o.reference = h.reference and o.history_id = h.history_id)
       returning 1
     )`,
  );

/** Changes of the feed. Readers that have not read them are told to begin anew. */
export const removeChanges: RetentionRule = (pool, query) =>
  runStep(
    pool,
    query,
    `with batch as materialized (
       select position as id, changed_at as at from mirror.changes where position > $1 order by position limit $3
     ), gone as (
       delete from mirror.changes c using batch b
       where c.position = b.id and b.at < ${CUTOFF} returning c.source_id, c.tx, c.position
     ), told as (
       insert into mirror.feed_removals as r (source_id, tx, position)
       select distinct on (source_id) source_id, tx, position from gone order by source_id, tx desc, position desc
       on conflict (source_id) do update set tx = excluded.tx, position = excluded.position
         where (r.tx, r.position) < (excluded.tx, excluded.position)
     )`,
  );

/**
 * Windows that were walked, but the proved ones that reach before history_since or beyond safe_through: these two say
 * all that the others prove, and mirror.proved says it to the readers. What stays may still move one of them, when a
 * gap is filled or a backfill meets the history. Both only widen what they enclose, so nothing goes too early.
 */
export const removeCoverage: RetentionRule = (pool, query) =>
  runStep(
    pool,
    query,
    `with batch as materialized (
       select coverage_id as id, ended_at as at from mirror.coverage where coverage_id > $1
       order by coverage_id limit $3
     ), gone as (
       delete from mirror.coverage c using batch b
       where c.coverage_id = b.id and b.at < ${CUTOFF}
         and (not c.proved or exists (
           select from mirror.poll_state p
           where p.source_id = c.source_id and c.since >= p.history_since and c.until <= p.safe_through))
       returning 1
     )`,
  );

/** `batch` is what was looked at, `gone` what was removed of it. A batch whose last row is young ends the pass. */
async function runStep(pool: Pool, query: StepQuery, statement: string): Promise<RetentionStep> {
  const { rows } = await pool.query<{ removed: number; after: string | null; over: boolean }>(
    `${statement}
     select (select count(*)::int from gone) as removed, max(id) as after,
       count(*) < $3 or coalesce(max(at) >= ${CUTOFF}, true) as over
     from batch`,
    [query.after, String(query.cutoff), query.limit],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("an aggregate returns one row");
  return { removed: row.removed, after: row.over ? null : row.after };
}
