import type { Instant } from "../../domain/order/instant.ts";
import type { Via } from "../../domain/order/observation.ts";
import { DECISION_COLUMNS } from "../../changes/changeTail.sql.ts";
import type { DecisionRow } from "../../changes/changeTail.sql.ts";
import { queryInstants } from "../../database/columns.ts";
import type { Pool } from "../../database/database.ts";

/** One observation of an order, with its decision. */
export interface TimelineEntry extends DecisionRow {
  readonly settled: boolean | null;
  /** Provider's clock: when the read was requested or the event created. */
  readonly observedAt: Instant | null;
  /** Our clock (the database's): when the event was received; null for a read. */
  readonly receivedAt: Instant | null;
  /** The snapshot as received; null for a duplicate or a confirmation. */
  readonly raw: string | null;
}

/** The observations of one order, oldest decision first; the newest `limit`. */
export async function readTimeline(
  pool: Pool,
  order: { sourceId: string; reference: string; limit: number },
): Promise<TimelineEntry[]> {
  const rows = await queryInstants<TimelineEntry>(
    pool,
    `select ${DECISION_COLUMNS}, h.settled, h.observed_at as "observedAt", s.raw::text as raw,
       (extract(epoch from inbox.received_at) * 1000000000)::bigint as "receivedAt"
     from mirror.history h left join mirror.snapshots s on s.history_id = h.history_id
     left join mirror.inbox on inbox.seq = h.inbox_seq
     where h.source_id = $1 and h.reference = $2
     order by h.history_id desc limit $3`,
    [order.sourceId, order.reference, order.limit],
  );
  return rows.reverse();
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

/** Orders whose reference or externalOrderId is `text`, in one source or all; the newest first. */
export async function findOrders(
  pool: Pool,
  { text, sourceId }: { text: string; sourceId: string | null },
): Promise<FoundOrder[]> {
  return queryInstants<FoundOrder>(
    pool,
    `select source_id as "sourceId", reference, external_order_id as "externalOrderId", status, version, settled,
       revision, first_seen_via as "firstSeenVia"
     from mirror.orders
     where source_id in (select s.source_id from mirror.sources s where $2::text is null or s.source_id = $2)
       and (reference = $1 or external_order_id = $1)
     order by version desc limit 20`,
    [text, sourceId],
  );
}
