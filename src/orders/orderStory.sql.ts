import { DECISION_COLUMNS, type DecisionRow } from "../changes/changeTail.sql.ts";
import { queryInstants, type Pool } from "../database/database.ts";
import type { Instant } from "../domain/order/instant.ts";
import type { Via } from "../domain/order/observation.ts";
import { ORDER_COLUMNS, type ListedOrder } from "./orderList.sql.ts";
import type { WaitingRead } from "./openQuestions.ts";

/** A change of the order that a read found before any event. */
export interface UnannouncedChange {
  readonly version: Instant;
  readonly state: "waiting" | "late" | "lost" | "not_announced";
}

export interface OrderSurroundings {
  /** False: no such source was ever configured. */
  readonly sourceKnown: boolean;
  /** Null if no single read is requested. */
  readonly waitingRead: WaitingRead | null;
  /** Numbers of its open quarantine entries, newest first, at most 20. */
  readonly quarantineIds: readonly string[];
  readonly unannounced: readonly UnannouncedChange[];
  /** The kind of its row in mirror.exceptions; null if what is proved includes the order. */
  readonly exception: string | null;
}

export async function readOrderSurroundings(
  pool: Pool,
  { sourceId, reference }: { sourceId: string; reference: string },
): Promise<OrderSurroundings> {
  type Row = Omit<OrderSurroundings, "unannounced"> & {
    unannounced: (Omit<UnannouncedChange, "version"> & { version: string })[];
  };
  const { rows } = await pool.query<Row>(
    `select exists (select from mirror.sources where source_id = $1) as "sourceKnown",
       case when r.reference is not null then json_build_object(
         'ageSeconds', extract(epoch from clock_timestamp() - r.requested_at),
         'waitSeconds', extract(epoch from r.next_attempt_at - clock_timestamp()),
         'attempts', r.attempts, 'isMissed', r.missed_at is not null,
         'isPaused', (select paused_at is not null from mirror.sources where source_id = $1)) end as "waitingRead",
       array(select quarantine_id::text from mirror.quarantine
         where source_id = $1 and reference = $2 and state = 'open' order by quarantine_id desc limit 20) as "quarantineIds",
       coalesce((select json_agg(json_build_object('version', version::text, 'state', state))
         from mirror.unannounced_changes where source_id = $1 and reference = $2), '[]') as unannounced,
       (select kind from mirror.exceptions where source_id = $1 and reference = $2 limit 1) as exception
     from (values (1)) one left join mirror.awaited_reads r on r.source_id = $1 and r.reference = $2`,
    [sourceId, reference],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("a row of values returns a row");
  return {
    ...row,
    unannounced: row.unannounced.map((change) => ({ ...change, version: BigInt(change.version) })),
  };
}

/** Facts that people of the business want to know about an order. */
export interface Delivery extends Omit<ListedOrder, "corrected"> {
  readonly revision: number;
  /** Time of the observation whose content this is, by the provider's clock. */
  readonly observedAt: Instant;
  /** Time at which a read found that the provider no longer has the order. */
  readonly goneAt: Instant | null;
  /** Time at which its personal data was erased; null: it was not. */
  readonly erasedAt: Instant | null;
  /** The order object as the mirror serves it. */
  readonly raw: string;
}

/** The delivery of one order; undefined if the mirror has no state of it. */
export async function readDelivery(
  pool: Pool,
  { sourceId, reference }: { sourceId: string; reference: string },
): Promise<Delivery | undefined> {
  const [delivery] = await queryInstants<Delivery>(
    pool,
    `select ${ORDER_COLUMNS}, o.revision, o.observed_at as "observedAt",
       mirror.nanos_of(o.gone_at) as "goneAt",
       (select mirror.nanos_of(e.erased_at) from mirror.erasures e
        where e.source_id = o.source_id and e.reference = o.reference) as "erasedAt", o.raw::text as raw
     from mirror.orders o left join mirror.branches b on b.source_id = o.source_id and b.branch_id = o.branch_id
     where o.source_id = $1 and o.reference = $2`,
    [sourceId, reference],
  );
  return delivery;
}

/** An observation of an order, with its decision. */
export interface TimelineEntry extends DecisionRow {
  readonly settled: boolean | null;
  /** A later read contradicted it. */
  readonly refuted: boolean;
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
    `select ${DECISION_COLUMNS}, h.settled, h.refuted, h.observed_at as "observedAt", s.raw::text as raw,
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
