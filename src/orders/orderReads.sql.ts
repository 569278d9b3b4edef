import type { Instant } from "../domain/order/instant.ts";
import { queryInstants, type Pool, type Queryable } from "../database/database.ts";
import { toTimestamp, writeOrderFilter, type Bind, type OrderFilter } from "./orderFilter.sql.ts";

export const ORDER_SORTS = ["updatedAt", "pickupTime", "firstSeenAt"] as const;
export type OrderSort = (typeof ORDER_SORTS)[number];

/** A position in a sorted list. `at` is the sort's time; null, a missing pickupTime, sorts last. */
export interface OrderPosition {
  readonly at: Instant | null;
  readonly reference: string;
}

export interface OrdersQuery extends OrderFilter {
  readonly sort: OrderSort;
  /** Only orders after this position; undefined starts at the first. */
  readonly after?: OrderPosition | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** An order as the API serves it. */
export interface ServedOrder {
  /** The order object's JSON text, unchanged. */
  readonly raw: string;
  readonly position: OrderPosition;
  /** The number of states that the order has had, as in the change feed. */
  readonly revision: number;
  /** The instant at which the mirror learned of this state, by the database's clock, to the microsecond. */
  readonly changedAt: Instant;
}

/** Only pickup_time may be null. */
const SORT_COLUMNS = {
  updatedAt: "version",
  pickupTime: "pickup_time",
  firstSeenAt: "first_seen_at",
} as const;

interface OrderRow extends FreshnessRow, Omit<ServedOrder, "position"> {
  readonly at: Instant | null;
  /** Null in the only row of an empty page. */
  readonly reference: string | null;
}

/** A page of orders, with the freshness of the answer. */
export interface OrderPage {
  readonly orders: readonly ServedOrder[];
  /** From the same snapshot as the orders, so it claims nothing that they do not show. */
  readonly freshness: Freshness | undefined;
}

/**
 * Reads one page of a source's orders, ascending by the sort's time and then by reference, at most `limit` of them.
 *
 * updatedAt is compared to the nanosecond; the planned times are stored, and therefore compared, to the
 * microsecond. An order without a planned pickup comes last by pickupTime and lies in no pickup period.
 */
export async function selectOrders(pool: Pool, query: OrdersQuery): Promise<OrderPage> {
  const values: unknown[] = [query.sourceId];
  const bind: Bind = (value) => `$${values.push(value)}`;
  // An order that the provider no longer has is kept but not served.
  const filters = ["gone_at is null", ...writeOrderFilter(query, bind)];
  const column = SORT_COLUMNS[query.sort];
  const columns = `raw, reference, ${column}, revision, changed_at`;
  // Ends with the reference, so that the order is total. Nulls come last, Postgres' default.
  const sequence = `order by ${column}, reference`;
  const paging = `${sequence} limit ${bind(query.limit)}`;
  const offset = bind(query.offset);
  const ranges = writeRanges(query, bind).map((range) => {
    const where = [...filters, ...range].join(" and ");
    return `(select ${columns} from mirror.orders where ${where} ${paging} offset ${offset})`;
  });
  // Freshness and orders in one statement: a second one would double the cost for the web process and Postgres. Times
  // are converted in the outer query: a deep offset would otherwise convert everything that it skips.
  const text = `
    with freshness as materialized (
      select ${FRESHNESS} from (select) as one left join mirror.poll_state p on p.source_id = $1
    ),
    page as (select ${columns} from (${ranges.join(" union all ")}) as ranges ${paging})
    select freshness.*, raw::text as raw, reference, revision, mirror.nanos_of(changed_at) as "changedAt",
      ${column === "version" ? column : `mirror.nanos_of(${column})`} as at
    from freshness left join page on true ${sequence}`;
  const rows = await queryInstants<OrderRow>(pool, text, values);
  const [first] = rows;
  if (first === undefined) throw new TypeError("a left join from one row returns a row");
  const orders = rows.flatMap(({ raw, at, reference, revision, changedAt }) =>
    reference === null ? [] : [{ raw, position: { at, reference }, revision, changedAt }],
  );
  return { orders, freshness: toFreshness(first) };
}

/** Whether any order of the source has this status. */
export async function hasStatus(
  pool: Pool,
  { sourceId, status }: { sourceId: string; status: string },
): Promise<boolean> {
  const { rows } = await pool.query<{ found: boolean }>(
    `select exists (select from mirror.orders where source_id = $1 and status = $2) as found`,
    [sourceId, status],
  );
  return rows[0]?.found === true;
}

export interface Freshness {
  /** The mirror has every change of the source with an earlier updatedAt, from historySince on. */
  readonly safeThrough: Instant;
  readonly historySince: Instant | null;
  /** Orders excluded from this claim: see mirror.exceptions. Counted up to 1,000. */
  readonly exceptions: number;
}

/** Null while it is unknown how far the orders can be trusted. */
type FreshnessRow = Omit<Freshness, "safeThrough"> & { readonly safeThrough: Instant | null };

/** Columns of FreshnessRow. */
const FRESHNESS = `p.safe_through as "safeThrough", p.history_since as "historySince",
    (select count(*)::int from (
      select from mirror.exceptions e where e.source_id = $1 limit 1000) excepted) as exceptions`;

/** An order, with the freshness of the answer. */
export interface OrderText {
  /** The order object's JSON text, unchanged; undefined if the order does not exist. */
  readonly raw: string | undefined;
  /** From the same snapshot as the order, so it claims nothing that the order does not show. */
  readonly freshness: Freshness | undefined;
}

/*
 * The most frequent statement, so it is prepared and includes the freshness: a second statement would double the cost
 * for the web process and Postgres.
 */
const ORDER = `
  select
    coalesce(
      (select o.raw::text from mirror.orders o where o.source_id = $1 and o.reference = $2 and o.gone_at is null),
      (select o.raw::text from mirror.orders o where o.source_id = $1 and o.external_order_id = $2 and o.gone_at is null
       order by o.version desc, o.reference desc limit 1)) as raw,
    ${FRESHNESS}
  from (select) as one left join mirror.poll_state p on p.source_id = $1`;

/**
 * `reference` is the provider's reference or the externalOrderId (spec, "GET /v1/orders/{reference}"). If both match,
 * the provider's reference wins; of several orders with one externalOrderId, the most recently changed.
 */
export async function selectOrder(
  pool: Pool,
  order: { sourceId: string; reference: string },
): Promise<OrderText> {
  const statement = { name: "select-order", text: ORDER };
  const values = [order.sourceId, order.reference];
  const [row] = await queryInstants<FreshnessRow & { raw: string | null }>(pool, statement, values);
  if (row === undefined) throw new TypeError("a left join from one row returns a row");
  return { raw: row.raw ?? undefined, freshness: toFreshness(row) };
}

/** A change or a proof that a client waits for. */
export interface Awaited {
  readonly sourceId: string;
  /**
   * The provider's reference or the externalOrderId: of an order whose updatedAt is later than `instant`. Null: until
   * the mirror is complete up to `instant`.
   */
  readonly reference: string | null;
  readonly instant: Instant;
}

/** The indexes of what has arrived. */
export async function findArrived(pool: Pool, awaited: readonly Awaited[]): Promise<number[]> {
  const { rows } = await pool.query<{ index: number }>({
    name: "find-arrived",
    text: `
      select w.place::int - 1 as index
      from unnest($1::text[], $2::text[], $3::bigint[]) with ordinality as w (source_id, reference, instant, place)
      where exists (select from mirror.orders o
          where o.source_id = w.source_id and o.reference = w.reference and o.version > w.instant and o.gone_at is null)
        or exists (select from mirror.orders o
          where o.source_id = w.source_id and o.external_order_id = w.reference and o.version > w.instant and o.gone_at is null)
          -- Read is the order that has it as its reference, if there is one.
          and not exists (select from mirror.orders o
            where o.source_id = w.source_id and o.reference = w.reference and o.gone_at is null)
        or w.reference is null and exists (select from mirror.poll_state p
          where p.source_id = w.source_id and p.history_since <= w.instant and p.safe_through >= w.instant)`,
    values: [
      awaited.map(({ sourceId }) => sourceId),
      awaited.map(({ reference }) => reference),
      awaited.map(({ instant }) => instant.toString()),
    ],
  });
  return rows.map(({ index }) => index);
}

/** Why the mirror is not complete up to an instant, in words; null if it is. */
export async function explainIncomplete(
  pool: Pool,
  { sourceId, instant }: { sourceId: string; instant: Instant },
): Promise<string | null> {
  const { rows } = await pool.query<{ why: string | null }>(
    "select mirror.explain_incomplete($1, $2::bigint, $2::bigint) as why",
    [sourceId, instant],
  );
  return rows[0]?.why ?? null;
}

/** Reads how far a source's orders can be trusted; undefined while that is unknown. */
export async function selectFreshness(database: Queryable, sourceId: string): Promise<Freshness | undefined> {
  const text = `select ${FRESHNESS} from mirror.poll_state p where p.source_id = $1`;
  const [row] = await queryInstants<FreshnessRow>(database, { name: "select-freshness", text }, [sourceId]);
  return row && toFreshness(row);
}

/** Undefined before the first proof. */
function toFreshness({ safeThrough, historySince, exceptions }: FreshnessRow): Freshness | undefined {
  return safeThrough === null ? undefined : { safeThrough, historySince, exceptions };
}

/**
 * The conditions for orders after `query.after`: one list per index range, each later than the previous one. Two ranges
 * instead of one condition with `or`, which Postgres would answer by reading from the start.
 */
function writeRanges({ sort, after }: OrdersQuery, bind: Bind): string[][] {
  if (after === undefined) return [[]];
  const column = SORT_COLUMNS[sort];
  const reference = bind(after.reference);
  if (after.at === null) return [[`${column} is null`, `reference > ${reference}`]];
  const at = bind(column === "version" ? String(after.at) : toTimestamp(after.at));
  const later = [`(${column}, reference) > (${at}, ${reference})`];
  return column === "pickup_time" ? [later, [`${column} is null`]] : [later];
}
