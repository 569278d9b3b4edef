import type { Instant } from "../../domain/order/instant.ts";
import { makeCode } from "../world/chance.ts";
import { readRows, takeNumbers, writeRows, type Connection } from "../world/world.sql.ts";
import type { OrderRow } from "./orderRow.ts";
import type { ListParameters } from "./parameters.ts";
import type { Faults } from "../control/faults.ts";

const select = (connection: Connection, from: string, values: unknown[]) =>
  readRows<OrderRow>(connection, `select * from sandbox.${from}`, values);

/** The columns in which an order may change. */
const OVERWRITE =
  `status branch_id zone_code first_name phone street city postcode latitude longitude distance_km schedule_mode basis
   pickup_time delivery_time real_pickup real_delivery updated_at next_move_at`
    .split(/\s+/)
    .map((column) => `${column} = excluded.${column}`)
    .join(", ");

/**
 * Stores states of orders, new or known, each with the instant from which readers see it. Those that readers do not see
 * yet wait for putLateChanges; so does each that follows a waiting one of its order, because a change must not become
 * visible before an earlier one.
 */
export async function putStates(
  connection: Connection,
  states: readonly { readonly row: OrderRow; readonly visibleAt: Instant }[],
  now: Instant,
): Promise<void> {
  await connection.query(
    `with given as materialized (
       select (row ->> 'number')::bigint as number, row, visible_at
       from rows from (jsonb_array_elements($1), unnest($2::bigint[])) as state (row, visible_at)
     ), waiting as materialized (
       select number, max(l.visible_at) as until
       from sandbox.late_changes l join given using (number) group by number
     ), late as (
       insert into sandbox.late_changes (number, visible_at, row)
       select number, greatest(g.visible_at, until), row from given g left join waiting using (number)
       where g.visible_at > $3 or until is not null
       returning number
     )
     insert into sandbox.orders
     select o.* from given cross join lateral jsonb_populate_record(null::sandbox.orders, row) as o
     where o.number not in (select number from late)
     on conflict (number) do update set ${OVERWRITE}`,
    [writeRows(states.map(({ row }) => row)), states.map(({ visibleAt }) => visibleAt), now],
  );
}

/** Makes the due changes visible; of each order the latest. */
export async function putLateChanges(connection: Connection, now: Instant): Promise<void> {
  await connection.query(
    `with due as (
       delete from sandbox.late_changes where visible_at <= $1 returning change_id, number, row
     ), last as (
       select distinct on (number) row from due order by number, change_id desc
     )
     insert into sandbox.orders
     select (jsonb_populate_record(null::sandbox.orders, row)).* from last
     on conflict (number) do update set ${OVERWRITE}`,
    [now],
  );
}

/** An order's name in a path, restricted to what the caller's key can see. */
export interface OrderName {
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly name: string;
}

/** `orders`: as readers see them. `latest`: with the changes that readers do not see yet. */
type Orders = "orders" | "latest";

/** Finds by service reference or externalOrderId. Assumed: if both match, the reference wins. */
export async function readOrder(
  connection: Connection,
  from: Orders,
  order: OrderName,
): Promise<OrderRow | undefined> {
  const [row] = await select(
    connection,
    `${from}
     where organization_id = $1 and livemode = $2 and (reference = $3 or external_order_id = $3)
     order by reference = $3 desc limit 1`,
    [order.organizationId, order.livemode, order.name],
  );
  return row;
}

/** Tells whether an order has this externalOrderId, also one that is not visible yet. */
export async function isTaken(connection: Connection, order: OrderName): Promise<boolean> {
  const { rowCount } = await connection.query(
    `select from sandbox.latest where organization_id = $1 and livemode = $2 and external_order_id = $3`,
    [order.organizationId, order.livemode, order.name],
  );
  return rowCount !== 0;
}

/** The order with this service reference, in any organization and mode, with changes that readers do not see yet. */
export async function readAnyOrder(connection: Connection, reference: string): Promise<OrderRow | undefined> {
  const [row] = await select(connection, "latest where reference = $1", [reference]);
  return row;
}

/** A length with which two references never are the same. */
const REFERENCE_LENGTH = 12;

/** The next `count` order numbers with their references. */
export async function takeOrderNumbers(connection: Connection, count: number, seed: number) {
  const numbers = await takeNumbers(connection, "order_number", count);
  return numbers.map((number) => ({
    number,
    reference: `DO-${makeCode(REFERENCE_LENGTH, seed, "reference", number)}`,
  }));
}

/** Orders as readers see them, by number, after `after`. */
export async function readOrdersAfter(
  connection: Connection,
  from: { organizationId: string; livemode: boolean; after: bigint; limit: number },
): Promise<OrderRow[]> {
  return select(
    connection,
    `orders
     where number > $3 and organization_id = $1 and livemode = $2 order by number limit $4`,
    [from.organizationId, from.livemode, from.after, from.limit],
  );
}

/** Live orders whose next step is due, the longest waiting first. */
export async function readDueOrders(
  connection: Connection,
  now: Instant,
  limit: number,
): Promise<OrderRow[]> {
  return select(
    connection,
    `orders
     where next_move_at is not null and next_move_at <= $1
       and not exists (select from sandbox.late_changes l where l.number = orders.number)
     order by next_move_at, number limit $2`,
    [now, limit],
  );
}

/** Reschedules moving orders when the fleet's speed changes, also with late changes; at speed 0 they do not move. */
export async function rescheduleMoves(
  connection: Connection,
  pace: { now: Instant; spreadNanos: bigint | null },
): Promise<void> {
  await connection.query(
    `with planned as (
       select number, $1::bigint + (hashint8(number) & 1023) * ($2::bigint / 1024) as at from sandbox.latest
       where livemode and status in ('created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery')
     ), late as (
       update sandbox.late_changes set row = row || jsonb_build_object('next_move_at', at)
       from planned where late_changes.number = planned.number
     )
     update sandbox.orders set next_move_at = at from planned where orders.number = planned.number`,
    [pace.now, pace.spreadNanos],
  );
}

/** The parameters of GET /v1/orders; undefined means no restriction. */
export interface SandboxOrderFilter extends Partial<Omit<ListParameters, "branch" | "limit">> {
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly branchId?: string | undefined;
  readonly limit: number;
}

/**
 * Counts for which organizations would be charged. A charge is recorded when a live order is created, and stays (spec,
 * "What the service does", rule 10).
 */
export async function readFigures(connection: Connection, organizationIds: readonly string[]) {
  return readRows<{ organizationId: string; orders: number; charges: number; searches: number }>(
    connection,
    `select organization_id, count(o.number)::integer as orders,
       (count(o.number) filter (where o.livemode))::integer as charges,
       (select count(*)::integer from sandbox.searches s where s.organization_id = org.organization_id) as searches
     from unnest($1::text[]) as org (organization_id) left join sandbox.orders o using (organization_id)
     group by organization_id`,
    [organizationIds],
  );
}

const SORT_COLUMNS = { updatedAt: "updated_at", pickupTime: "pickup_time" } as const;

/** Half-open is the spec's rule; the others are mistakes that a provider might make. */
const BOUNDS = {
  "half-open": { from: ">=", until: "<" },
  inclusive: { from: ">=", until: "<=" },
  exclusive: { from: ">", until: "<" },
} as const;

/** Reads a page of orders, sorted as the faults say. */
export async function readOrders(
  connection: Connection,
  filter: SandboxOrderFilter,
  faults: Faults,
): Promise<OrderRow[]> {
  const values: unknown[] = [filter.organizationId, filter.livemode];
  const conditions = ["organization_id = $1", "livemode = $2"];
  const restrict = (column: string, operator: string, value: unknown) => {
    if (value === undefined) return;
    values.push(value);
    conditions.push(`${column} ${operator} $${values.length}`);
  };
  const { from, until } = BOUNDS[faults.listBounds];
  restrict("updated_at", from, filter.updatedSince);
  restrict("updated_at", until, filter.updatedUntil);
  restrict("pickup_time", from, filter.pickupFrom);
  restrict("pickup_time", until, filter.pickupUntil);
  restrict("delivery_time", from, filter.deliveryFrom);
  restrict("delivery_time", until, filter.deliveryUntil);
  restrict("status", "=", filter.status);
  restrict("branch_id", "=", filter.branchId);
  values.push(filter.limit, filter.offset ?? 0);
  return select(
    connection,
    `orders
     where ${conditions.join(" and ")}
     order by ${writeOrder(SORT_COLUMNS[filter.sort ?? "updatedAt"], faults)}
     limit $${values.length - 1} offset $${values.length}`,
    values,
  );
}

/** Assumed: ascending; the spec shows neither the direction nor the order of equal timestamps. */
function writeOrder(column: string, faults: Faults): string {
  if (faults.listOrder === "unsorted") return "hashint8(number), number";
  const direction = faults.listOrder === "ascending" ? "asc" : "desc";
  return faults.listTies === "random"
    ? `${column} ${direction}, random()`
    : `${column} ${direction}, number ${direction}`;
}
