import type { Instant } from "../../domain/order/instant.ts";
import type { Window } from "../../domain/window/window.ts";
import type { Margins } from "../../domain/window/lateness.ts";
import type { Pool, Queryable } from "../../database/database.ts";
import { HELD, leaseValues, makeLeaseLostError } from "../../database/leases.sql.ts";
import type { Lease } from "../../database/leases.sql.ts";
import { insertUnconfirmed } from "./refetches.sql.ts";
import { makeForgottenError, SAME_GROUND } from "./walks.sql.ts";

/** A window that was walked to its end. */
export interface WalkedWindow extends Window {
  readonly sourceId: string;
  readonly sweep: string;
  /**
   * Nothing in the window can be missing: the walk was certainly complete, and began so long after `until` that no
   * change could still appear in the window.
   */
  readonly proved: boolean;
  /** Moves the cursor of the fast sweep to `until`, if it is not there yet. */
  readonly movesCursor: boolean;
  /** The margins in force at the commit. */
  readonly margins: Margins;
  /** Provider-clock instant at which the first page was requested, a lower bound. */
  readonly begunAt: Instant;
  readonly requests: number;
  readonly orders: number;
  readonly durationMs: number;
  /** Its pages that the database has recorded: all but the last one. */
  readonly pagesBefore: number;
  /** A proof also requests the orders with a claim in the window that no read has shown: the walk would have. */
  readonly confirmsClaims: boolean;
}

/** The cursor, and the end of what is proved, after the commit. */
export interface CoverageProgress {
  readonly polledThrough: Instant;
  readonly safeThrough: Instant | undefined;
  /** Single reads of orders are due. */
  readonly refetchesDue: boolean;
}

const PROOF = `proof as (
  select int8range(since, until) as span from mirror.coverage, known
  where source_id = $4 and proved and until > known.reached
  union all
  select int8range($5::bigint, $6::bigint)
), run as (
  select unnest(range_agg(span)) as span from proof
), reproved as (
  update mirror.coverage_breaches b set reproved_at = clock_timestamp()
  from known
  where source_id = $4 and reproved_at is null and int8range(b.since, b.until) <@ (
    select range_agg(span) from (
      select int8range(p.since, p.until) as span from mirror.proved p
      where p.source_id = $4 and p.until > b.since and p.since < b.until
      union all
      select int8range($5::bigint, $6::bigint)) proved)
), unconfirmed as (
  ${insertUnconfirmed("$4", "$16 and version >= $5::bigint and version < $6::bigint and exists (select from known)")}
  returning 1
)`;

/*
 * - ground: the source's row of poll_state, locked, so that no proof is withdrawn before the commit. The statement's other
 *   parts see the database as it was before it waited for that lock: a row that was changed meanwhile is not taken (xmin).
 * - ended: the record of the walk, or what is left of an abandoned one.
 * - known: nothing is written unless the database knows the pages before the last one.
 */
const commitStatement = (proves: boolean) => `
with ${HELD}, seen as materialized (
  select xmin as row_of from mirror.poll_state where source_id = $4
), ground as materialized (
  select coalesce(p.safe_through, p.history_since) as reached, held.fence
  from mirror.poll_state p, held, seen where p.source_id = $4 and p.xmin = seen.row_of for update of p
), ended as (
  delete from mirror.walks using ground
  where source_id = $4 and sweep = $7 and ($15 = 0 or since = $5::bigint and until = $6::bigint
    and begun_at = $11::bigint and step = $15 and ${SAME_GROUND})
  returning step
), known as materialized (
  select ground.* from ground where $15 = 0 or exists (select from ended)
), recorded as (
  insert into mirror.coverage (source_id, since, until, sweep, proved, fence, provider, server, settle_seconds,
    overlap_seconds, begun_at, requests, orders, started_at)
  select source_id, $5::bigint, $6::bigint, $7, ${proves}, known.fence, coalesce(provider, base_url),
    mirror.server_identity(), $9, $10, $11::bigint, $12, $13, clock_timestamp() - $14 * interval '1 millisecond'
  from mirror.sources, known where source_id = $4
)${proves ? `, ${PROOF}` : ""}, moved as (
  update mirror.poll_state p set
    polled_through = case when $8 then greatest(polled_through, $6::bigint) else polled_through end${
      proves
        ? `,
    safe_through = greatest(safe_through, (select upper(span) from run, known where span @> known.reached))`
        : ""
    }
  from known where source_id = $4
  returning polled_through as "polledThrough", safe_through as "safeThrough"
)
select exists (select from held, seen) as held, exists (select from ground) as "isCurrent", moved.*,
  exists (
    select from mirror.refetches where source_id = $4 and next_attempt_at <= clock_timestamp()
  )${proves ? " or exists (select from unconfirmed)" : ""} as "refetchesDue"
from (select) as one left join moved on true`;

const COMMIT_WALKED = commitStatement(false);
const COMMIT_PROVED = commitStatement(true);

/**
 * Records a walked window and its effects, under the lease, and removes the record of its walk, or what is left of an
 * abandoned one: all in one statement. Throws LeaseLostError, or WalkForgottenError if the database does not know the
 * earlier pages; then nothing was written.
 *
 * `safe_through` is the end of the contiguous run of proved windows that begins at the source's history_since. So it
 * stops at a gap, however much was read beyond it, and jumps when the gap is filled. No commit moves it back, only a
 * breach: mirror.withdraw_proof withdraws a proof when a change is found that it had missed.
 */
export async function commitWindow(
  client: Queryable,
  lease: Lease,
  walked: WalkedWindow,
): Promise<CoverageProgress> {
  const values = [
    ...leaseValues(lease),
    walked.sourceId,
    walked.since,
    walked.until,
    walked.sweep,
    walked.movesCursor,
    walked.margins.settleSeconds,
    walked.margins.overlapSeconds,
    walked.begunAt,
    walked.requests,
    walked.orders,
    walked.durationMs,
    walked.pagesBefore,
    ...(walked.proved ? [walked.confirmsClaims] : []),
  ];
  for (;;) {
    const { rows } = await client.query<CommittedRow>(walked.proved ? COMMIT_PROVED : COMMIT_WALKED, values);
    const [row] = rows;
    if (row?.held !== true) throw makeLeaseLostError(lease);
    // A proof was withdrawn meanwhile.
    if (!row.isCurrent) continue;
    if (row.polledThrough === null) throw makeForgottenError(walked.sweep, walked.pagesBefore);
    return {
      polledThrough: BigInt(row.polledThrough),
      safeThrough: row.safeThrough === null ? undefined : BigInt(row.safeThrough),
      refetchesDue: row.refetchesDue,
    };
  }
}

interface CommittedRow {
  readonly held: boolean;
  readonly isCurrent: boolean;
  readonly polledThrough: string | null;
  readonly safeThrough: string | null;
  readonly refetchesDue: boolean;
}

/** Locks the lease and the source's row of poll_state until the end of the transaction. Throws LeaseLostError. */
export async function lockPollState(client: Queryable, lease: Lease, sourceId: string): Promise<void> {
  const { rowCount } = await client.query(
    `with ${HELD} select from mirror.poll_state, held where source_id = $4 for update of poll_state`,
    [...leaseValues(lease), sourceId],
  );
  if (rowCount === 0) throw makeLeaseLostError(lease);
}

/**
 * The parts of `within` that no proved window covers, oldest first, at most `limit`. The period between history_since
 * and safe_through is proved although its windows may have been deleted; see removeCoverage.
 */
export async function readGaps(
  pool: Pool,
  { sourceId, within, limit }: { sourceId: string; within: Window; limit: number },
): Promise<Window[]> {
  const { rows } = await pool.query<{ since: string; until: string }>(
    `select lower(gap) as since, upper(gap) as until
     from unnest(int8multirange(int8range($2::bigint, $3::bigint)) - coalesce(
       (select range_agg(int8range(since, until)) from mirror.proved
        where source_id = $1 and until > $2::bigint and since < $3::bigint),
       '{}'::int8multirange)) as gap
     order by since limit $4`,
    [sourceId, within.since, within.until, limit],
  );
  return rows.map(({ since, until }) => ({ since: BigInt(since), until: BigInt(until) }));
}
