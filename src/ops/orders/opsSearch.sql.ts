import type { Pool } from "../../database/database.ts";

/** A search result: an order, or an event that names none. */
export interface SearchHit {
  readonly sourceId: string;
  /** Null for an event without a readable order reference. */
  readonly reference: string | null;
  readonly eventId: string | null;
  readonly quarantineId: string | null;
}

const HITS_MAX = 50;

/**
 * Exact matches across all sources: orders by reference or externalOrderId, and events by id with their order. At most
 * 50. Every part is an index look-up.
 */
export async function searchMirror(pool: Pool, text: string): Promise<SearchHit[]> {
  const { rows } = await pool.query<SearchHit>(
    `with source as (select source_id from mirror.sources),
     named as (
       select o.source_id, o.reference, null::text as event_id, null::bigint as quarantine_id
       from source cross join lateral (
         (select source_id, reference from mirror.orders where source_id = source.source_id and reference = $1)
         union
         (select source_id, reference from mirror.orders
           where source_id = source.source_id and external_order_id = $1 limit $2)
       ) o
     ), announced as (
       select i.source_id, h.reference, i.event_id, q.quarantine_id
       from source cross join lateral (
         select * from mirror.inbox where source_id = source.source_id and event_id = $1 limit $2
       ) i
       left join lateral (
         select reference from mirror.history where inbox_seq = i.seq and reference is not null
         order by history_id limit 1
       ) h on true
       left join mirror.quarantine q on q.inbox_seq = i.seq
     ), hit as (select * from named union select * from announced limit $2)
     select hit.source_id as "sourceId", coalesce(hit.reference, q.reference) as reference,
       hit.event_id as "eventId", hit.quarantine_id::text as "quarantineId"
     from hit left join mirror.quarantine q using (quarantine_id)
     order by hit.source_id, 2, hit.event_id`,
    [text, HITS_MAX],
  );
  return rows;
}
