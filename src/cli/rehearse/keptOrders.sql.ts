import type pg from "pg";
import { readInBatches } from "../../database/snapshot.sql.ts";
import { ORDER_COLUMN_LIST } from "../../domain/order/orderColumns.ts";

/** One observation that the history keeps; bigints as decimal text, the hash as hex. */
export interface KeptObservation {
  readonly verdict: string;
  readonly horizon: string | null;
  /** Null when a read did not find the order. */
  readonly version: string | null;
  readonly settled: boolean;
  readonly observedAt: string;
  readonly rank: number | null;
  readonly hash: string | null;
  /** Null when another observation with this hash has it. */
  readonly raw: string | null;
}

/** The key of an observation; bigints as decimal text, the hash as hex. */
export interface KeptKey {
  readonly horizon: string | null;
  readonly gone: boolean;
  readonly version: string;
  readonly settled: boolean;
  readonly observedAt: string;
  readonly rank: number;
  readonly hash: string;
}

/** An order as the mirror holds it, with its kept history. */
export interface KeptOrder {
  readonly sourceId: string;
  readonly reference: string;
  readonly stored: KeptKey & {
    readonly raw: string;
    /** The columns of its fields; times in microseconds since 1970, as decimal text. */
    readonly columns: Readonly<Record<string, string | boolean | null>>;
  };
  /** True when its personal data was erased, also from the history. */
  readonly erased: boolean;
  readonly observations: readonly KeptObservation[];
}

const BATCH = 100;
const FIELDS = ORDER_COLUMN_LIST.map(({ column, type }) =>
  type === "timestamptz"
    ? `'${column}', (extract(epoch from o.${column}) * 1000000)::bigint::text`
    : `'${column}', o.${column}`,
).join(", ");

const ORDERS = `
  select o.source_id as "sourceId", o.reference,
    json_build_object('horizon', o.horizon::text, 'gone', o.gone_at is not null, 'version', o.version::text,
      'settled', o.settled, 'observedAt', o.observed_at::text, 'rank', o.rank, 'hash', encode(o.hash, 'hex'),
      'raw', o.raw::text, 'columns', json_build_object(${FIELDS})) as stored,
    exists (select from mirror.erasures e where e.source_id = o.source_id and e.reference = o.reference) as erased,
    coalesce((
      select json_agg(json_build_object('verdict', h.verdict, 'horizon', h.horizon::text, 'version', h.version::text,
        'settled', h.settled, 'observedAt', h.observed_at::text, 'rank', h.rank, 'hash', encode(h.hash, 'hex'),
        'raw', s.raw::text))
      from mirror.history h join mirror.snapshots s on s.history_id = h.history_id
      where h.source_id = o.source_id and h.reference = o.reference
        and h.verdict not in ('ignored', 'quarantined')), '[]') as observations
  from mirror.orders o`;

export async function countOrders(client: pg.ClientBase): Promise<number> {
  const { rows } = await client.query<{ orders: number }>(
    "select count(*)::int as orders from mirror.orders",
  );
  return rows[0]?.orders ?? 0;
}

/** All orders in batches. Within a transaction. */
export function readKeptOrders(client: pg.ClientBase): AsyncGenerator<readonly KeptOrder[]> {
  return readInBatches<KeptOrder>(client, { text: ORDERS }, BATCH);
}

/** Orders that the mirror does not have, although the history keeps a decision that changed them. */
export async function readMissingOrders(
  client: pg.ClientBase,
): Promise<readonly Pick<KeptOrder, "sourceId" | "reference">[]> {
  const { rows } = await client.query<Pick<KeptOrder, "sourceId" | "reference">>(
    `select distinct h.source_id as "sourceId", h.reference from mirror.history h
     where h.verdict in ('applied', 'corrected') and not exists (
       select from mirror.orders o where o.source_id = h.source_id and o.reference = h.reference)
     order by 1, 2`,
  );
  return rows;
}
