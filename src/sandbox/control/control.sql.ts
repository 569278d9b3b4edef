import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/world.sql.ts";
import type { EventRow } from "../events/events.sql.ts";
import type { OrderRow } from "../api/orderRow.ts";
import { ORDER_FIELDS } from "../api/orders.sql.ts";

/** Orders as readers see them, by number, after `after`. */
export async function readOrdersAfter(
  connection: Connection,
  from: { organizationId: string; livemode: boolean; after: bigint; limit: number },
): Promise<OrderRow[]> {
  const { rows } = await connection.query<OrderRow>(
    `select ${ORDER_FIELDS} from sandbox.orders
     where number > $3 and organization_id = $1 and livemode = $2 order by number limit $4`,
    [from.organizationId, from.livemode, from.after, from.limit],
  );
  return rows;
}

export async function readNewestOrders(
  connection: Connection,
  organizationId: string,
  limit: number,
): Promise<OrderRow[]> {
  const { rows } = await connection.query<OrderRow>(
    `select ${ORDER_FIELDS} from (
       (select * from sandbox.orders where organization_id = $1 and livemode order by updated_at desc limit $2)
       union all
       (select * from sandbox.orders where organization_id = $1 and not livemode order by updated_at desc limit $2)
     ) newest order by updated_at desc, number desc limit $2`,
    [organizationId, limit],
  );
  return rows;
}

export interface EventView extends Omit<EventRow, "body"> {
  readonly deliveries: readonly DeliveryView[];
}

/** One delivery with the outcome of its last attempt. */
interface DeliveryView {
  readonly deliveryId: number;
  readonly endpointId: string;
  readonly reason: string;
  readonly state: string;
  readonly attempts: number;
  readonly status: number | null;
  readonly error: string | null;
}

/** The newest events with their deliveries; only of one order if `reference` is given. */
export async function readEvents(
  connection: Connection,
  filter: { reference: string | null; limit: number },
): Promise<EventView[]> {
  const { rows } = await connection.query<EventView>(
    `select event_number as "eventNumber", event_id as "eventId", organization_id as "organizationId", livemode,
       reference, type, created, sent_as as "sentAs",
       coalesce((
         select jsonb_agg(jsonb_build_object('deliveryId', d.delivery_id, 'endpointId', d.endpoint_id,
           'reason', d.reason, 'state', d.state, 'attempts', d.attempts, 'status', d.status, 'error', d.error)
           order by d.delivery_id)
         from sandbox.deliveries d where d.event_id = e.event_id
       ), '[]') as deliveries
     from sandbox.events e where $1::text is null or reference = $1
     order by event_number desc limit $2`,
    [filter.reference, filter.limit],
  );
  return rows;
}

/** The live order on its way that changed longest ago, among those whose present status an event announced that arrived. */
export async function findAnnounced(
  connection: Connection,
  organizationId: string,
): Promise<string | undefined> {
  const { rows } = await connection.query<{ reference: string }>(
    `select reference from sandbox.orders o
     where organization_id = $1 and livemode and status in ('arrived_for_pickup', 'picked_up', 'arrived_for_delivery')
       and exists (
         select from sandbox.events e join sandbox.deliveries d using (event_id)
         where e.reference = o.reference and e.type = 'order.' || o.status and d.state = 'delivered')
     order by updated_at, number limit 1`,
    [organizationId],
  );
  return rows[0]?.reference;
}

/** The organization and mode of an event, to resend it; undefined if there is no such event. */
export async function readEventOwner(
  connection: Connection,
  eventId: string,
): Promise<{ organizationId: string; livemode: boolean } | undefined> {
  const { rows } = await connection.query<{ organizationId: string; livemode: boolean }>(
    `select organization_id as "organizationId", livemode from sandbox.events where event_id = $1`,
    [eventId],
  );
  return rows[0];
}

export interface OrganizationFigures {
  readonly organizationId: string;
  readonly orders: number;
  /** A charge is recorded when a live order is created, and stays (spec, "What the service does", rule 10). */
  readonly charges: number;
  readonly searches: number;
}

export async function readFigures(
  connection: Connection,
  organizationIds: readonly string[],
): Promise<OrganizationFigures[]> {
  const { rows } = await connection.query<OrganizationFigures>(
    `select organization_id as "organizationId",
       (select count(*)::integer from sandbox.orders o where o.organization_id = org.organization_id) as orders,
       (select count(*)::integer from sandbox.orders c where c.organization_id = org.organization_id and c.livemode) as charges,
       (select count(*)::integer from sandbox.searches s where s.organization_id = org.organization_id) as searches
     from unnest($1::text[]) as org (organization_id)`,
    [organizationIds],
  );
  return rows;
}

/** Reschedules moving orders when the fleet's speed changes; at speed 0 they do not move. */
export async function rescheduleMoves(
  connection: Connection,
  pace: { now: Instant; spreadNanos: bigint | null },
): Promise<void> {
  await connection.query(
    `update sandbox.orders set next_move_at =
       $1::bigint + (hashint8(number) & 1023) * ($2::bigint / 1024)
     where livemode and status in ('created', 'arrived_for_pickup', 'picked_up', 'arrived_for_delivery')`,
    [pace.now, pace.spreadNanos],
  );
}
