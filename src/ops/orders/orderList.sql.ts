import { formatInstant, NANOS_PER_SECOND, tryParseInstant } from "../../domain/order/instant.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { OPEN_STATUSES } from "../../domain/order/order.ts";
import type { Queryable } from "../../database/database.ts";
import { queryInstants } from "../../database/database.ts";
import { toTimestamp, writeFieldFilter } from "../../orders/orderFilter.sql.ts";
import type { Bind, OrderFilter } from "../../orders/orderFilter.sql.ts";
import { readField } from "../page.ts";

/** An order is late from this delay on. */
export const LATE_SECONDS = 300;

/** The states that people look for, each as a condition on mirror.orders. */
const MARKS = {
  open: (bind: Bind) => `real_delivery_time is null and status = any(${bind(OPEN_STATUSES)})`,
  late: (bind: Bind) => `(real_delivery_time >= delivery_time + interval '${LATE_SECONDS} s'
    or (real_delivery_time is null and status = any(${bind(OPEN_STATUSES)})
      and delivery_time <= clock_timestamp() - interval '${LATE_SECONDS} s'))`,
  unverified: () => "not settled",
  corrected: () => `exists (select from mirror.history h where h.source_id = orders.source_id
    and h.reference = orders.reference and h.verdict = 'corrected')`,
} as const;
export type OrderMark = keyof typeof MARKS;
const ORDER_MARKS = Object.keys(MARKS) as OrderMark[];

/** The order of a list: each is an index, read from either end. */
const SORTS = {
  updated: { column: "version", field: "updatedAt" },
  pickup: { column: "pickup_time", field: "pickupTime" },
  delivery: { column: "delivery_time", field: "deliveryTime" },
  seen: { column: "first_seen_at", field: "firstSeenAt" },
} as const;
export type ListSort = keyof typeof SORTS;
const LIST_SORTS = Object.keys(SORTS) as ListSort[];

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
  readonly marks: readonly OrderMark[];
  /** Text in the reference or the external id, in upper or lower case; null: any. */
  readonly text: string | null;
}

export interface OrderName {
  readonly sourceId: string;
  readonly reference: string;
}

export interface ListPaging {
  readonly sort: ListSort;
  readonly ascending: boolean;
  readonly after: ListPosition | null;
  readonly limit: number;
}

export interface ListedOrder extends OrderName {
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
  readonly firstSeenAt: Instant;
  /** A read has confirmed this state. */
  readonly settled: boolean;
  readonly corrected: boolean;
}

/** Where an order is in a list. One without the sort's time is in none. */
export function positionOf(order: ListedOrder, sort: ListSort): ListPosition {
  const { sourceId, reference, [SORTS[sort].field]: at } = order;
  return { at: at ?? 0n, sourceId, reference };
}

/** Columns of mirror.orders o and mirror.branches b. */
export const ORDER_COLUMNS = `o.source_id as "sourceId", o.reference, o.external_order_id as "externalOrderId", o.status,
  o.fleet_name as "fleetName", coalesce(b.name, o.branch_reference, o.branch_id) as branch, o.settled,
  o.version as "updatedAt", mirror.nanos_of(o.first_seen_at) as "firstSeenAt",
  mirror.nanos_of(o.pickup_time) as "pickupTime", mirror.nanos_of(o.delivery_time) as "deliveryTime",
  mirror.nanos_of(o.real_pickup_time) as "realPickupTime", mirror.nanos_of(o.real_delivery_time) as "realDeliveryTime"`;

/** The orders of one page. Orders without the sort's time are left out. */
export async function readListedOrders(
  db: Queryable,
  query: ListedOrdersQuery & ListPaging,
): Promise<ListedOrder[]> {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const { column } = SORTS[query.sort];
  const direction = query.ascending ? "asc" : "desc";
  const conditions = [...writeConditions(query, bind), ...writePosition(query, bind)];
  return queryInstants<ListedOrder>(
    db,
    `select ${ORDER_COLUMNS},
       exists (select from mirror.history h where h.source_id = o.source_id and h.reference = o.reference
         and h.verdict = 'corrected') as corrected
     from (
       select page.* from mirror.sources s cross join lateral (
         select * from mirror.orders where ${conditions.join(" and ")}
         order by ${column} ${direction}, reference ${direction} limit ${bind(query.limit)}
       ) page where ${bind(query.sourceId)}::text is null or s.source_id = ${bind(query.sourceId)}
     ) o left join mirror.branches b on b.source_id = o.source_id and b.branch_id = o.branch_id
     order by o.${column} ${direction}, o.reference ${direction}, o.source_id ${direction} limit ${bind(query.limit)}`,
    values,
  );
}

/** How many orders match, counted up to `max`. */
export async function countListedOrders(
  db: Queryable,
  query: ListedOrdersQuery & { readonly max: number },
): Promise<number> {
  const values: unknown[] = [];
  const bind: Bind = (value) => `$${values.push(value)}`;
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from (
       select from mirror.sources s cross join lateral (
         select from mirror.orders where ${writeConditions(query, bind).join(" and ")} limit ${bind(query.max)}
       ) matching where ${bind(query.sourceId)}::text is null or s.source_id = ${bind(query.sourceId)}
       limit ${bind(query.max)}
     ) counted`,
    values,
  );
  return rows[0]?.count ?? 0;
}

/** An order or an event that has exactly the name that was looked for. */
export interface SearchHit {
  readonly sourceId: string;
  /** Null for an event. */
  readonly reference: string | null;
  readonly eventId: string | null;
}

const HITS_MAX = 50;

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
    [text, HITS_MAX],
  );
  return rows;
}

/** What the orders can be selected by. */
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
         select distinct on (branch_id) branch_id as id, name from mirror.branches order by branch_id, closed_at nulls first
         limit 1000) branch), '[]') as branches`,
  );
  return rows[0] ?? { sources: [], statuses: [], fleets: [], branches: [] };
}

function writeConditions({ fields, marks, text }: ListedOrdersQuery, bind: Bind): string[] {
  const conditions = [
    "source_id = s.source_id",
    "gone_at is null",
    ...writeFieldFilter(fields, bind),
    ...marks.map((mark) => MARKS[mark](bind)),
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

/** The time that a period is of. */
export const PERIODS_OF = ["updated", "pickup", "delivery"] as const;
/** Periods that end now, in hours. */
export const WITHIN: Readonly<Record<string, number>> = { "1h": 1, "24h": 24, "7d": 168, "30d": 720 };

/** What the address of the order list asks for. A value that means nothing is as if it were absent. */
export interface OrderListQuery {
  /** Part of a reference or an external id. */
  readonly text: string;
  readonly source: string;
  readonly branch: string;
  readonly fleet: string;
  readonly status: string;
  readonly marks: readonly OrderMark[];
  readonly periodOf: (typeof PERIODS_OF)[number];
  /** A word of WITHIN; empty: from and until. */
  readonly within: string;
  readonly from: Instant | null;
  /** Exclusive. */
  readonly until: Instant | null;
  readonly sort: ListSort;
  readonly ascending: boolean;
  readonly after: ListPosition | null;
}

/** The maximum length of an external id; no other name is longer. */
export const TEXT_LENGTH_MAX = 512;

type Parameters = Readonly<Record<string, unknown>>;

export function parseOrderList(query: Parameters): OrderListQuery {
  const field = (name: string) => readField(query[name]).trim().slice(0, TEXT_LENGTH_MAX);
  const within = field("within");
  const isRelative = Object.hasOwn(WITHIN, within);
  return {
    text: field("q"),
    source: field("source"),
    branch: field("branch"),
    fleet: field("fleet"),
    status: field("status"),
    marks: pickWords(ORDER_MARKS, query["is"]),
    periodOf: PERIODS_OF.find((word) => word === field("of")) ?? "updated",
    within: isRelative ? within : "",
    from: isRelative ? null : readMinute(field("from")),
    until: isRelative ? null : readMinute(field("until")),
    sort: LIST_SORTS.find((word) => word === field("sort")) ?? "updated",
    ascending: field("dir") === "up",
    after: readPosition(query["after"]),
  };
}

/** The query as an address; what is as by default is left out. `after` is left out unless it is given in `changes`. */
export function writeOrderList(query: OrderListQuery, changes: Partial<OrderListQuery> = {}): string {
  const to = { ...query, after: null, ...changes };
  const parameters = new URLSearchParams();
  const put = (name: string, value: string, standard = "") => {
    if (value !== standard) parameters.append(name, value);
  };
  put("q", to.text);
  for (const name of ["source", "branch", "fleet", "status", "within"] as const) put(name, to[name]);
  for (const mark of to.marks) put("is", mark);
  put("from", writeMinute(to.from));
  put("until", writeMinute(to.until));
  put("of", to.periodOf, "updated");
  put("sort", to.sort, "updated");
  put("dir", to.ascending ? "up" : "");
  const { at, sourceId, reference } = to.after ?? {};
  if (at !== undefined)
    for (const part of [at, sourceId, reference]) parameters.append("after", String(part));
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** The filter on fields of orders; `now` ends a relative period. */
export function toFieldFilter(query: OrderListQuery, now: Instant): Omit<OrderFilter, "sourceId"> {
  const { branch, fleet, status, periodOf, within } = query;
  const hours = WITHIN[within];
  const from =
    hours === undefined ? query.from : now - BigInt(hours) * BigInt(SECONDS_PER_HOUR) * NANOS_PER_SECOND;
  // Planned times lie in the future, too: "within 24 h" is then on either side of now.
  const ahead = periodOf === "updated" || from === null ? null : now + (now - from);
  const until = hours === undefined ? query.until : ahead;
  const [since, end] = {
    updated: ["updatedSince", "updatedUntil"] as const,
    pickup: ["pickupFrom", "pickupUntil"] as const,
    delivery: ["deliveryFrom", "deliveryUntil"] as const,
  }[periodOf];
  return {
    ...(from === null ? {} : { [since]: from }),
    ...(until === null ? {} : { [end]: until }),
    ...(status === "" ? {} : { status }),
    ...(branch === "" ? {} : { branchId: branch }),
    ...(fleet === "" ? {} : { fleet }),
  };
}

/** `2026-11-22T14:32`, as a browser's field of date and time has it, in UTC; empty for null. */
export function writeMinute(instant: Instant | null): string {
  return instant === null ? "" : formatInstant(instant, 0).slice(0, MINUTE_LENGTH);
}

const MINUTE_LENGTH = 16;
const SECONDS_PER_HOUR = 3_600;

function readMinute(text: string): Instant | null {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d$/.test(text) ? (tryParseInstant(`${text}:00Z`) ?? null) : null;
}

/** A bigint of Postgres. */
const NANOS = /^(?:-?\d{1,18}|-?[1-8]\d{18})$/;

function readPosition(given: unknown): ListPosition | null {
  const [at = "", sourceId = "", reference = ""] = [given].flat().map(readField);
  return NANOS.test(at) ? { at: BigInt(at), sourceId, reference } : null;
}

/** The words of a parameter that is given once or several times. */
function pickWords<Word extends string>(words: readonly Word[], given: unknown): Word[] {
  const texts: unknown[] = Array.isArray(given) ? given : [given];
  return words.filter((word) => texts.includes(word));
}
