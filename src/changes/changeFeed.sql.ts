/**
 * The feed of changes: every change of every order once, no position twice, and none skipped under any concurrency.
 *
 * A reader gets what lies before the fence, which no open transaction can still change; an epoch tells a server that
 * has lost changes from its successor. `feedReader.ts` makes entries of them, `changeRoutes.ts` lists them and sends
 * them as they come; `announcements.ts` tells it when. Start at `readChanges`.
 */
import type { Instant } from "../domain/order/instant.ts";
import { queryInstants, type Pool, type Queryable } from "../database/database.ts";
import type { Via } from "../domain/order/observation.ts";

export const CHANGE_VERDICTS = ["applied", "corrected", "gone"] as const;
export type ChangeVerdict = (typeof CHANGE_VERDICTS)[number];

/** A real change of an order. */
export interface Change {
  readonly position: bigint;
  readonly digest: string;
  readonly sourceId: string;
  readonly reference: string;
  /** 1 for the first state of the order that was seen, then one more for each change. */
  readonly revision: number;
  readonly status: string;
  readonly previousStatus: string | null;
  /** gone: the provider no longer has the order; `after` is then null. */
  readonly verdict: ChangeVerdict;
  readonly via: Via;
  readonly eventId: string | null;
  readonly eventType: string | null;
  /** The provider's updatedAt. */
  readonly version: Instant;
  /** Our clock (the database's). */
  readonly changedAt: Instant;
  /** The order object as the provider sent it, unchanged; null if it is no longer kept. */
  readonly after: string | null;
  /** The previous order object; null for a new order, and if it is no longer kept. */
  readonly before: string | null;
}

/**
 * The columns of a change of the table or alias `from`; with a digest and both orders, queryInstants makes a Change of
 * them.
 */
export function changeColumns(from: string): string {
  return `${from}.position, ${from}.source_id as "sourceId", ${from}.reference, ${from}.revision, ${from}.status,
    ${from}.previous_status as "previousStatus", ${from}.verdict, ${from}.via, ${from}.event_id as "eventId",
    ${from}.event_type as "eventType", ${from}.version, mirror.nanos_of(${from}.changed_at) as "changedAt"`;
}

/** A reader's position in the feed: after one change. */
export interface FeedCursor {
  /** The server epoch of the position; null: before the first change, on any server. */
  readonly epoch: string | null;
  readonly position: bigint;
  /**
   * The digest of the change at the position; empty if the position is not after a change. See mirror.change_digest.
   */
  readonly digest: string;
}

/** A cursor of the current epoch, or of an earlier one. */
export type WrittenCursor = FeedCursor & { readonly epoch: string };

export const FEED_BEGINNING: FeedCursor = { epoch: null, position: 0n, digest: "" };

/** A claim about what a reader has been given up to a position of the feed. */
export interface Completeness {
  /** Every change of the source with an earlier updatedAt is at the position or before it. */
  readonly through: Instant;
  /** Orders excluded from this claim: see mirror.exceptions. Counted up to 1,000. */
  readonly exceptions: number;
}

export interface FeedPage {
  /** The epoch of the positions in `changes`. */
  readonly epoch: string;
  /** False if the feed was last written on another server: beginFeedEpoch must run first. */
  readonly current: boolean;
  /**
   * The position after which the page begins: the requested one, or an earlier one if that was lost with its server.
   * Null if the cursor is no longer valid.
   */
  readonly place: bigint | null;
  readonly changes: readonly Change[];
  /** True if there is more to read immediately. */
  readonly hasMore: boolean;
  /** The completeness at the end of the page; null if nothing is proved, or not all of it was given yet. */
  readonly complete: Completeness | null;
}

/** A page ends early beyond this much text, whatever its limit; it always has at least one change. */
const PAGE_BYTES_MAX = 4_000_000;

/** A separate statement: only a statement that begins after its answer sees every change up to it. */
const FENCE = "select mirror.feed_fence() as fence";

const PAGE = `
  with place as materialized (select mirror.feed_place($1, $2, $3::bigint, $4) as position),
  fresh as materialized (
    select c.* from mirror.changes c
    where c.source_id = $1 and c.position > (select position from place) and c.position <= $5::bigint
    order by c.position limit $6 + 1
  ),
  page as (
    select f.*, mirror.change_digest(f::mirror.changes) as digest,
      h.raw::text as after, p.raw::text as before, row_number() over walk as nth,
      sum(coalesce(octet_length(h.raw::text), 0) + coalesce(octet_length(p.raw::text), 0)) over walk as bytes_through,
      (count(*) over ())::int as found
    from fresh f
    left join mirror.snapshots h on h.history_id = f.history_id
    left join mirror.snapshots p on p.history_id = f.previous_history_id
    window walk as (order by f.position)
  )
  select (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch,
    feed.server_started = pg_postmaster_start_time() as current, place.position as place,
    ${changeColumns("page")}, page.digest, page.after, page.before, page.found,
    proof.safe_through as "safeThrough", proof.safe_position as "safePosition", (select count(*)::int from (
      select from mirror.exceptions e where e.source_id = $1 limit 1000) excepted) as exceptions
  from mirror.feed cross join place
  left join mirror.poll_state proof on proof.source_id = $1
  left join page on page.nth <= $6 and (page.nth = 1 or page.bytes_through <= ${PAGE_BYTES_MAX})
  order by page.position`;

interface FeedRow extends Pick<FeedPage, "epoch" | "current" | "place"> {
  readonly safeThrough: Instant | null;
  readonly safePosition: bigint | null;
  readonly exceptions: number;
}

/** Without a change in the page, one row in which its columns are null. */
type PageRow = FeedRow & (Change | { readonly position: null }) & { readonly found: number | null };

/** The position up to which every change can be read: inclusive, by any statement that begins after the answer. */
export async function readFeedFence(database: Queryable): Promise<bigint> {
  const statement = { name: "read-feed-fence", text: FENCE };
  const [row] = await queryInstants<{ fence: bigint }>(database, statement);
  if (row === undefined) throw new TypeError("a function returns a row");
  return row.fence;
}

/**
 * The next changes of a source after a cursor and up to `fence` (inclusive), at most `limit`; the changes of each order
 * are in sequence.
 */
export async function readChanges(
  pool: Pool,
  query: { sourceId: string; after: FeedCursor; fence: bigint; limit: number },
): Promise<FeedPage> {
  const { sourceId, after, fence, limit } = query;
  const rows = await queryInstants<PageRow>(pool, { name: "read-changes", text: PAGE }, [
    sourceId,
    after.epoch,
    after.position,
    after.digest,
    fence,
    limit,
  ]);
  const [first] = rows;
  if (first === undefined) throw new TypeError("mirror.feed has no row");
  const changes = rows.flatMap((row) => (row.position === null ? [] : [row]));
  const { epoch, current, place } = first;
  const hasMore = (first.found ?? 0) > changes.length;
  const given = hasMore ? (changes.at(-1)?.position ?? 0n) : fence;
  return { epoch, current, place, changes, hasMore, complete: claimAt(given, first) };
}

/**
 * The claim to a reader who has been given every change up to position `given`. The fence was read before the
 * proof, so a change that the proof was made from is either before the fence or beyond it, never skipped.
 */
function claimAt(given: bigint, { safeThrough, safePosition, exceptions }: FeedRow): Completeness | null {
  if (safeThrough === null || safePosition === null || given < safePosition) return null;
  return { through: safeThrough, exceptions };
}

/** The cursor after the last change up to `fence`, or after the removed changes; its epoch is the current one. */
export async function readFeedEnd(
  pool: Pool,
  { sourceId, fence }: { sourceId: string; fence: bigint },
): Promise<WrittenCursor> {
  const [last] = await queryInstants<WrittenCursor>(
    pool,
    `select (select epoch from mirror.feed_epochs order by epoch_number desc limit 1) as epoch, position, digest
     from (
       (select position, mirror.change_digest(c) as digest from mirror.changes c
        where source_id = $1 and position <= $2 order by position desc limit 1)
       union all select removed_position, '' from mirror.sources where source_id = $1
       union all select 0, '') ends
     order by position desc limit 1`,
    [sourceId, fence],
  );
  if (last === undefined) throw new TypeError("the beginning is a row");
  return last;
}

/**
 * Names this mirror among those that share a server of queues: the same after a restore, and another one for a copy
 * under another database name.
 */
export async function readMirrorId(database: Queryable): Promise<string> {
  const { rows } = await database.query<{ id: string }>(
    `select left(md5(epoch || current_database()), 12) as id
     from mirror.feed_epochs order by epoch_number limit 1`,
  );
  return rows[0]?.id ?? "";
}

/** In the database and with its owner's rights, as it writes what the processes themselves must not. */
const BEGIN = "select mirror.begin_feed_epoch() as begun";

/**
 * Begins a new epoch of the change feed when the database has moved to another server or back in time; otherwise does
 * nothing. Returns true when it began one. Writers of changes ask the same, so the order of the two does not matter.
 */
export async function beginFeedEpoch(pool: Pool): Promise<boolean> {
  const { rows } = await pool.query<{ begun: boolean }>(BEGIN);
  return rows[0]?.begun === true;
}

/** Sends the announcement to every process that listens on this database; nothing of it is stored. */
export async function notifyChanges(pool: Pool): Promise<void> {
  await pool.query("notify order_mirror_changes");
}

/** Receives what notifyChanges sends, for as long as the connection lasts. */
export async function listenForChanges(client: Queryable): Promise<void> {
  await client.query("listen order_mirror_changes");
}
