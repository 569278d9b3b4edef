import { queryInstants, type Queryable } from "../database/database.ts";
import { type Instant } from "../domain/order/instant.ts";
import type { ExportRows } from "./exportOrders.sql.ts";
import { toTimestamp, writeFieldFilter, type Bind, type OrderFilter } from "./orderFilter.sql.ts";

/** An order is late from this delay on. */
export const LATE_SECONDS = 300;

/** Lateness is measured up to the last read of the source, as on the pages: nothing is known since. */
const READ_UP_TO =
  "(select mirror.instant_at(p.polled_through) from mirror.poll_state p where p.source_id = s.source_id)";

const IS_OPEN = "mirror.is_open(status, real_delivery_time)";

/** The states that people look for, each as a condition on mirror.orders. */
const MARKS = {
  late: () => `${IS_OPEN} and delivery_time <= ${READ_UP_TO} - interval '${LATE_SECONDS} s'`,
  open: () => IS_OPEN,
  unverified: () => "not settled",
  corrected: () => `exists (select from mirror.history h where h.source_id = orders.source_id
    and h.reference = orders.reference and h.verdict = 'corrected')`,
} as const;
export type OrderMark = keyof typeof MARKS;
export const ORDER_MARKS = Object.keys(MARKS) as OrderMark[];
/** States whose orders are counted on each page; the history has no index for the others. */
const COUNTED_MARKS = ["late", "open", "unverified"] as const;
export type CountedMark = (typeof COUNTED_MARKS)[number];

/** The order of a list: each is an index, read from either end. */
export const SORTS = {
  updated: { column: "version", field: "updatedAt" },
  delivery: { column: "delivery_time", field: "deliveryTime" },
} as const;
export type ListSort = keyof typeof SORTS;

/** A line of the list; the next page begins after it. */
export interface ListPosition {
  readonly at: Instant;
  readonly sourceId: string;
  readonly reference: string;
}

export interface ListedOrdersQuery {
  /** Null: every source. */
  readonly sourceId: string | null;
  readonly fields: Omit<OrderFilter, "sourceId">;
  /** Null: in any state. */
  readonly mark: OrderMark | null;
  /** Text in the reference or the external id, in upper or lower case; null: any. */
  readonly text: string | null;
}

export interface ListPaging {
  readonly sort: ListSort;
  readonly ascending: boolean;
  readonly after: ListPosition | null;
  readonly limit: number;
}

/** An order as a row of the pages' list. */
export interface ListedOrder {
  readonly sourceId: string;
  readonly reference: string;
  readonly externalOrderId: string | null;
  readonly status: string;
  readonly fleetName: string | null;
  /** Its name; if that is unknown, its reference or id. */
  readonly branch: string | null;
  readonly pickupTime: Instant | null;
  readonly deliveryTime: Instant | null;
  readonly realPickupTime: Instant | null;
  readonly realDeliveryTime: Instant | null;
  readonly updatedAt: Instant;
  /** A read has confirmed this state. */
  readonly settled: boolean;
  readonly corrected: boolean;
}

/** Place of an order in a list. An order without the sort's time is in none. */
export function positionOf(order: ListedOrder, sort: ListSort): ListPosition {
  const { sourceId, reference, [SORTS[sort].field]: at } = order;
  return { at: at ?? 0n, sourceId, reference };
}

/** Columns of mirror.orders o and mirror.branches b. */
export const ORDER_COLUMNS = `o.source_id as "sourceId", o.reference, o.external_order_id as "externalOrderId", o.status,
  o.fleet_name as "fleetName", coalesce(b.name, o.branch_reference, o.branch_id) as branch, o.settled,
  o.version as "updatedAt",
  mirror.nanos_of(o.pickup_time) as "pickupTime", mirror.nanos_of(o.delivery_time) as "deliveryTime",
  mirror.nanos_of(o.real_pickup_time) as "realPickupTime", mirror.nanos_of(o.real_delivery_time) as "realDeliveryTime"`;

/**
 * Writes the rows of mirror.orders on one page, as a subquery: of each source its first ones, then the first of those.
 */
function writePage(query: ListedOrdersQuery & ListPaging, bind: Bind): { page: string; order: string } {
  const { column } = SORTS[query.sort];
  const direction = query.ascending ? "asc" : "desc";
  const conditions = [...writeConditions(query, bind), ...writePosition(query, bind)];
  const order = ["", "o."].map((o) => `${o}${column} ${direction}, ${o}reference ${direction}`);
  return {
    page: `(
       select page.* from mirror.sources s cross join lateral (
         select * from mirror.orders where ${conditions.join(" and ")} order by ${order[0]} limit ${bind(query.limit)}
       ) page where ${bind(query.sourceId)}::text is null or s.source_id = ${bind(query.sourceId)}
     )`,
    order: `${order[1]}, o.source_id ${direction} limit ${bind(query.limit)}`,
  };
}

/** Reads the orders of one page. Orders without the sort's time are left out. */
export async function readListedOrders(
  db: Queryable,
  query: ListedOrdersQuery & ListPaging,
): Promise<ListedOrder[]> {
  const values: unknown[] = [];
  const { page, order } = writePage(query, (value) => `$${values.push(value)}`);
  return queryInstants<ListedOrder>(
    db,
    `select ${ORDER_COLUMNS},
       exists (select from mirror.history h where h.source_id = o.source_id and h.reference = o.reference
         and h.verdict = 'corrected') as corrected
     from ${page} o left join mirror.branches b on b.source_id = o.source_id and b.branch_id = o.branch_id
     order by ${order}`,
    values,
  );
}

/** Reads the same orders with the columns of an export, for writeCsv. */
export async function readListedCells(
  db: Queryable,
  query: ListedOrdersQuery & ListPaging,
): Promise<ExportRows> {
  const values: unknown[] = [];
  const { page, order } = writePage(query, (value) => `$${values.push(value)}`);
  await db.query("set local time zone 'UTC'");
  return db.query({
    text: `select r.* from ${page} o join reporting.orders r using (source_id, reference)
     order by ${order}`,
    values,
    rowMode: "array",
  });
}

/** Counts the orders of a choice in each state, and all of them, each up to `max`. */
export async function countListedOrders(
  db: Queryable,
  { max, ...query }: Omit<ListedOrdersQuery, "mark"> & { readonly max: number },
): Promise<Readonly<Record<CountedMark | "all", number>>> {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const count = (mark: CountedMark | null) => `(select count(*)::int from (
       select from mirror.sources s cross join lateral (
         select from mirror.orders where ${writeConditions({ ...query, mark }, bind).join(" and ")} limit ${bind(max)}
       ) matching where ${bind(query.sourceId)}::text is null or s.source_id = ${bind(query.sourceId)}
       limit ${bind(max)}
     ) counted) as "${mark ?? "all"}"`;
  const { rows } = await db.query<Record<CountedMark | "all", number>>(
    `select ${[...COUNTED_MARKS, null].map(count).join(", ")}`,
    values,
  );
  return rows[0] ?? { late: 0, open: 0, unverified: 0, all: 0 };
}

/** An order or an event that has exactly the name that was looked for. */
export interface SearchHit {
  readonly sourceId: string;
  /** Null for an event. */
  readonly reference: string | null;
  readonly eventId: string | null;
}

/** Orders by reference or externalOrderId, and events by id, of all sources. Every part is an index look-up. */
export async function searchMirror(db: Queryable, text: string): Promise<SearchHit[]> {
  const { rows } = await db.query<SearchHit>(
    `select distinct s.source_id as "sourceId", hit.reference, hit.event_id as "eventId"
     from mirror.sources s cross join lateral (
       (select reference, null as event_id from mirror.orders where source_id = s.source_id and reference = $1)
       union all
       (select reference, null from mirror.orders where source_id = s.source_id and external_order_id = $1 limit $2)
       union all
       (select null, event_id from mirror.inbox where source_id = s.source_id and event_id = $1 limit 1)
     ) hit order by 1, 2, 3 limit $2`,
    [text, 50],
  );
  return rows;
}

/** Filters by which orders can be selected. */
export interface FilterWords {
  readonly sources: readonly string[];
  readonly statuses: readonly string[];
  readonly fleets: readonly string[];
  readonly branches: readonly { readonly id: string; readonly name: string }[];
}

/** Steps from one value to the next in an index, so that it costs as much as there are values, not orders. */
export async function readFilterWords(db: Queryable): Promise<FilterWords> {
  const step = (column: string) =>
    `array(with recursive seen as (
       select s.source_id, (select min(o.${column}) from mirror.orders o where o.source_id = s.source_id) as value
       from mirror.sources s
       union all
       select source_id, (select min(o.${column}) from mirror.orders o
         where o.source_id = seen.source_id and o.${column} > seen.value)
       from seen where value is not null
     ) select distinct value from seen where value is not null order by 1 limit 200)`;
  const { rows } = await db.query<FilterWords>(
    `select array(select source_id from mirror.sources order by 1) as sources,
       ${step("status")} as statuses, ${step("fleet_name")} as fleets,
       coalesce((select json_agg(branch order by branch.name, branch.id) from (
         select distinct on (branch_id) branch_id as id, coalesce(name, branch_id) as name
         from mirror.branches order by branch_id, closed_at nulls first limit 1000) branch), '[]') as branches`,
  );
  return rows[0] ?? { sources: [], statuses: [], fleets: [], branches: [] };
}

function writeConditions({ fields, mark, text }: ListedOrdersQuery, bind: Bind): string[] {
  const conditions = [
    "source_id = s.source_id",
    "gone_at is null",
    ...writeFieldFilter(fields, bind),
    ...(mark === null ? [] : [MARKS[mark]()]),
  ];
  if (text !== null) {
    // With this prefix the pattern has no special characters; the operator ignores case, and is faster than ilike.
    const pattern = bind(`***=${text}`);
    conditions.push(`(reference ~* ${pattern} or external_order_id ~* ${pattern})`);
  }
  return conditions;
}

/** The conditions of a page; an order without the sort's time has no place in the list. */
function writePosition({ sort, ascending, after }: ListPaging, bind: Bind): string[] {
  const { column } = SORTS[sort];
  const isTime = column !== "version";
  const placed = isTime ? [`${column} is not null`] : [];
  if (after === null) return placed;
  const at = bind(isTime ? toTimestamp(after.at) : String(after.at));
  const [reference, sourceId] = [bind(after.reference), bind(after.sourceId)];
  return [
    ...placed,
    `(${column}, reference, source_id) ${ascending ? ">" : "<"} (${at}, ${reference}, ${sourceId})`,
  ];
}
