import type { Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";
import type { Verdict } from "../apply/batchRow.sql.ts";
import type { Pool } from "../database/database.ts";

/** A decision as the history keeps it. */
export interface DecisionRow {
  readonly historyId: bigint;
  readonly sourceId: string;
  readonly reference: string | null;
  readonly via: Via;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly reason: string | null;
  readonly eventId: string | null;
  readonly eventType: string | null;
  readonly status: string | null;
  /** Status before, where the decision changed the order; null for a new order, and where nothing changed. */
  readonly previousStatus: string | null;
  readonly version: Instant | null;
  /** The database's clock. */
  readonly seenAt: Instant;
}

export interface DecisionFilter {
  /** Null: of every source. */
  readonly sourceId: string | null;
  /** Null: of every order. */
  readonly reference: string | null;
}

/** The newest decisions, at most `limit`, oldest first. */
export async function readLastDecisions(
  pool: Pool,
  { sourceId, reference, limit }: DecisionFilter & { limit: number },
): Promise<DecisionRow[]> {
  const { rows } = await pool.query<Row>(
    `${COLUMNS}
     where ($1::text is null or h.source_id = $1) and ($2::text is null or h.reference = $2)
     order by h.history_id desc limit $3`,
    [sourceId, reference, limit],
  );
  return rows.reverse().map(toDecision);
}

/** Decisions beyond `afterId`, oldest first, at most `limit`. A smaller number may still be committed later. */
export async function readDecisionsAfter(
  pool: Pool,
  { sourceId, reference, afterId, limit }: DecisionFilter & { afterId: bigint; limit: number },
): Promise<DecisionRow[]> {
  const { rows } = await pool.query<Row>(
    `${COLUMNS}
     where h.history_id > $3 and ($1::text is null or h.source_id = $1) and ($2::text is null or h.reference = $2)
     order by h.history_id limit $4`,
    [sourceId, reference, afterId, limit],
  );
  return rows.map(toDecision);
}

/** A moment of the history, to tell later up to where it cannot grow any more. */
export interface HistoryMark {
  /** Number of the newest decision that can be seen, 0 when there is none. */
  readonly lastId: bigint;
  /** No transaction with a smaller number is still running. */
  readonly xmin: bigint;
  /** Transactions from this number on had not begun. */
  readonly xmax: bigint;
}

export async function readHistoryMark(pool: Pool): Promise<HistoryMark> {
  const { rows } = await pool.query<{ id: string; xmin: string; xmax: string }>(
    `select (select coalesce(max(history_id), 0) from mirror.history) as id,
       pg_snapshot_xmin(now) as xmin, pg_snapshot_xmax(now) as xmax
     from pg_current_snapshot() as now`,
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a function returns a row");
  return { lastId: BigInt(row.id), xmin: BigInt(row.xmin), xmax: BigInt(row.xmax) };
}

const COLUMNS = `
  select h.history_id, h.source_id, h.reference, h.via, h.verdict, h.conflict, h.reason, h.event_id, h.event_type,
    h.status, h.previous_status, h.version, (extract(epoch from h.seen_at) * 1000000000)::bigint as seen_at
  from mirror.history h`;

interface Row {
  readonly history_id: string;
  readonly source_id: string;
  readonly reference: string | null;
  readonly via: Via;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly reason: string | null;
  readonly event_id: string | null;
  readonly event_type: string | null;
  readonly status: string | null;
  readonly previous_status: string | null;
  readonly version: string | null;
  readonly seen_at: string;
}

function toDecision(row: Row): DecisionRow {
  return {
    historyId: BigInt(row.history_id),
    sourceId: row.source_id,
    reference: row.reference,
    via: row.via,
    verdict: row.verdict,
    conflict: row.conflict,
    reason: row.reason,
    eventId: row.event_id,
    eventType: row.event_type,
    status: row.status,
    previousStatus: row.previous_status,
    version: row.version === null ? null : BigInt(row.version),
    seenAt: BigInt(row.seen_at),
  };
}
