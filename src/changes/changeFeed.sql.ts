import type { Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";
import type { Pool } from "../database/database.ts";

/** A place in the feed: behind the change with these numbers. Compared by `tx`, then by `position`. */
export interface FeedPosition {
  readonly tx: bigint;
  readonly position: bigint;
}

/** Before the first change. */
export const FEED_START: FeedPosition = { tx: 0n, position: 0n };

export const CHANGE_VERDICTS = ["applied", "corrected", "gone"] as const;
export type ChangeVerdict = (typeof CHANGE_VERDICTS)[number];

/** One real change of an order. */
export interface Change {
  /** Behind this change. */
  readonly at: FeedPosition;
  readonly sourceId: string;
  readonly reference: string;
  /** 1 for the first state that was seen of the order, and one more with each change. */
  readonly revision: number;
  readonly status: string;
  readonly previousStatus: string | null;
  /** gone: the provider has no such order any more; `after` is null then. */
  readonly verdict: ChangeVerdict;
  readonly via: Via;
  readonly eventId: string | null;
  readonly eventType: string | null;
  /** The provider's updatedAt. */
  readonly version: Instant;
  /** Our clock (the database's). */
  readonly changedAt: Instant;
  /** The order object exactly as the provider sent it; null when it is no longer kept. */
  readonly after: string | null;
  /** The one before; null for a new order, and when it is no longer kept. */
  readonly before: string | null;
}

export interface FeedPage {
  /** Positions hold within one epoch. */
  readonly epoch: string;
  /** False when the database is another one than the epoch was made for: settleFeed must run first. */
  readonly settled: boolean;
  /** True when changes after the asked position were removed by retention. */
  readonly incomplete: boolean;
  readonly changes: readonly Change[];
  /** True when there is more to read at once. */
  readonly hasMore: boolean;
}

/** Beyond this much text a page ends early, whatever its limit; it always has one change. */
const PAGE_BYTES_MAX = 4_000_000;

/*
 * Rows of a transaction that is not older than every running one are left for later: a smaller number may commit
 * after a greater one, and a reader that has passed it would miss it.
 */
const PAGE = `
  with fresh as materialized (
    select c.* from mirror.changes c
    where c.source_id = $1 and (c.tx, c.position) > ($2::xid8, $3::bigint)
      and c.tx < pg_snapshot_xmin(pg_current_snapshot())
    order by c.tx, c.position limit $4 + 1
  ),
  page as (
    select f.*, h.raw::text as after, p.raw::text as before, row_number() over walk as place,
      sum(coalesce(octet_length(h.raw::text), 0) + coalesce(octet_length(p.raw::text), 0)) over walk as bytes_through,
      count(*) over () as found
    from fresh f
    left join mirror.history h on h.history_id = f.history_id
    left join mirror.history p on p.history_id = f.previous_history_id
    window walk as (order by f.tx, f.position)
  )
  select feed.epoch, feed.server = mirror.server_identity() as settled,
    exists (select from mirror.feed_removals r
      where r.source_id = $1 and (r.tx, r.position) > ($2::xid8, $3::bigint)) as incomplete,
    page.tx, page.position, page.reference, page.revision, page.status, page.previous_status, page.verdict, page.via,
    page.event_id, page.event_type, page.version, page.after, page.before, page.found,
    (extract(epoch from page.changed_at) * 1000000)::bigint as changed_micros
  from mirror.feed
  left join page on page.place <= $4 and (page.place = 1 or page.bytes_through <= ${PAGE_BYTES_MAX})
  order by page.tx, page.position`;

interface FeedRow {
  readonly epoch: string;
  readonly settled: boolean;
  readonly incomplete: boolean;
}

interface ChangeRow extends FeedRow {
  /** Null when the page has no change; then everything after it is, too. */
  readonly tx: string | null;
  readonly position: string;
  readonly reference: string;
  readonly revision: number;
  readonly status: string;
  readonly previous_status: string | null;
  readonly verdict: ChangeVerdict;
  readonly via: Via;
  readonly event_id: string | null;
  readonly event_type: string | null;
  readonly version: string;
  readonly after: string | null;
  readonly before: string | null;
  readonly found: string;
  readonly changed_micros: string;
}

/** The next changes of a source after a position, at most `limit`: of each order in the order in which it changed. */
export async function readChanges(
  pool: Pool,
  query: { sourceId: string; after: FeedPosition; limit: number },
): Promise<FeedPage> {
  const { sourceId, after, limit } = query;
  const { rows } = await pool.query<ChangeRow>({
    name: "read-changes",
    text: PAGE,
    values: [sourceId, String(after.tx), String(after.position), limit],
  });
  const [first] = rows;
  if (first === undefined) throw new TypeError("mirror.feed has no row");
  const changes = rows.flatMap((row) => (row.tx === null ? [] : [toChange(sourceId, row.tx, row)]));
  const { epoch, settled, incomplete } = first;
  return { epoch, settled, incomplete, changes, hasMore: Number(first.found ?? 0) > changes.length };
}

/** The position behind the last change that can be read now, or was removed; FEED_START when the source has none. */
export async function readFeedEnd(pool: Pool, sourceId: string): Promise<FeedPosition> {
  const { rows } = await pool.query<{ tx: string; position: string }>(
    `(select tx, position from mirror.changes
      where source_id = $1 and tx < pg_snapshot_xmin(pg_current_snapshot())
      order by tx desc, position desc limit 1)
     union all select tx, position from mirror.feed_removals where source_id = $1
     order by tx desc, position desc limit 1`,
    [sourceId],
  );
  const [last] = rows;
  return last === undefined ? FEED_START : { tx: BigInt(last.tx), position: BigInt(last.position) };
}

/** Negative when `left` comes first, positive when `right` does, 0 when they are the same. */
export function compareFeedPositions(left: FeedPosition, right: FeedPosition): number {
  return Number(left.tx === right.tx ? left.position - right.position : left.tx - right.tx);
}

function toChange(sourceId: string, tx: string, row: ChangeRow): Change {
  return {
    at: { tx: BigInt(tx), position: BigInt(row.position) },
    sourceId,
    reference: row.reference,
    revision: row.revision,
    status: row.status,
    previousStatus: row.previous_status,
    verdict: row.verdict,
    via: row.via,
    eventId: row.event_id,
    eventType: row.event_type,
    version: BigInt(row.version),
    changedAt: BigInt(row.changed_micros) * 1_000n,
    after: row.after,
    before: row.before,
  };
}
