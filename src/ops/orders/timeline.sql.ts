import type { Instant } from "../../domain/order/instant.ts";
import type { Via } from "../../domain/order/observation.ts";
import type { Verdict } from "../../apply/batchRow.sql.ts";
import { toInstant } from "../../database/columns.ts";
import type { Pool } from "../../database/database.ts";

/** One observation of an order, and what was decided on it. */
export interface TimelineEntry {
  readonly historyId: bigint;
  readonly via: Via;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly reason: string | null;
  readonly eventId: string | null;
  readonly eventType: string | null;
  readonly status: string | null;
  readonly version: Instant | null;
  readonly settled: boolean | null;
  /** Provider's clock: when the read was requested or the event created. */
  readonly observedAt: Instant | null;
  /** Our clock (the database's): when the event was received; null for a read. */
  readonly receivedAt: Instant | null;
  /** Our clock: when it was decided on. */
  readonly seenAt: Instant;
  /** The snapshot as it came; null for a duplicate or a confirmation. */
  readonly raw: string | null;
}

interface TimelineRow {
  readonly history_id: string;
  readonly via: Via;
  readonly verdict: Verdict;
  readonly conflict: boolean;
  readonly reason: string | null;
  readonly event_id: string | null;
  readonly event_type: string | null;
  readonly status: string | null;
  readonly version: string | null;
  readonly settled: boolean | null;
  readonly observed_at: string | null;
  readonly received_at: string | null;
  readonly seen_at: string;
  readonly raw: string | null;
}

/** All observations of one order, oldest decision first; at most `limit`, the newest ones. */
export async function readTimeline(
  pool: Pool,
  order: { sourceId: string; reference: string; limit: number },
): Promise<TimelineEntry[]> {
  const { rows } = await pool.query<TimelineRow>(
    `select history.history_id, via, verdict, conflict, reason, history.event_id, event_type, status, version,
            settled, observed_at, raw::text as raw,
            (extract(epoch from inbox.received_at) * 1000000000)::bigint as received_at,
            (extract(epoch from seen_at) * 1000000000)::bigint as seen_at
     from mirror.history left join mirror.inbox on inbox.seq = history.inbox_seq
     where history.source_id = $1 and history.reference = $2
     order by history.history_id desc limit $3`,
    [order.sourceId, order.reference, order.limit],
  );
  return rows.reverse().map((row) => ({
    historyId: BigInt(row.history_id),
    via: row.via,
    verdict: row.verdict,
    conflict: row.conflict,
    reason: row.reason,
    eventId: row.event_id,
    eventType: row.event_type,
    status: row.status,
    version: toInstant(row.version),
    settled: row.settled,
    observedAt: toInstant(row.observed_at),
    receivedAt: toInstant(row.received_at),
    seenAt: BigInt(row.seen_at),
    raw: row.raw,
  }));
}

export interface FoundOrder {
  readonly sourceId: string;
  readonly reference: string;
  readonly externalOrderId: string | null;
  readonly status: string;
  readonly version: Instant;
  readonly settled: boolean;
  readonly revision: number;
  readonly firstSeenVia: Via;
}

/** Orders whose reference or externalOrderId is `text`, over all sources or in one; the newest first. */
export async function findOrders(
  pool: Pool,
  { text, sourceId }: { text: string; sourceId: string | null },
): Promise<FoundOrder[]> {
  const { rows } = await pool.query<{
    source_id: string;
    reference: string;
    external_order_id: string | null;
    status: string;
    version: string;
    settled: boolean;
    revision: number;
    first_seen_via: Via;
  }>(
    `select source_id, reference, external_order_id, status, version, settled, revision, first_seen_via
     from mirror.orders
     where source_id in (select s.source_id from mirror.sources s where $2::text is null or s.source_id = $2)
       and (reference = $1 or external_order_id = $1)
     order by version desc limit 20`,
    [text, sourceId],
  );
  return rows.map((row) => ({
    sourceId: row.source_id,
    reference: row.reference,
    externalOrderId: row.external_order_id,
    status: row.status,
    version: BigInt(row.version),
    settled: row.settled,
    revision: row.revision,
    firstSeenVia: row.first_seen_via,
  }));
}
