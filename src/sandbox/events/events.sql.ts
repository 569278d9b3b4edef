import type { Instant } from "../../domain/order/instant.ts";
import { readRows, writeRows, type Connection } from "../world/world.sql.ts";

/** The fate of an event: sent, lost on purpose, or not sent because there is no plan or no endpoint. */
export type SentAs = "event" | "lost" | "no_plan" | "no_endpoint";

export interface EventRow {
  readonly eventNumber: bigint;
  readonly eventId: string;
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly reference: string;
  readonly type: string;
  readonly created: Instant;
  readonly sentAs: SentAs;
  readonly body: string;
}

export interface NewDelivery {
  readonly eventId: string;
  readonly endpointId: string;
  readonly dueAt: Instant;
}

export interface WebhookEndpoint {
  readonly endpointId: string;
  readonly organizationId: string;
  readonly livemode: boolean;
  readonly url: string;
  readonly secret: string;
  readonly scheme: string;
}

/** Stores events, and their deliveries in this sequence. */
export async function insertSandboxEvents(
  connection: Connection,
  events: readonly EventRow[],
  deliveries: readonly NewDelivery[],
): Promise<void> {
  await connection.query(
    `with stored as (
       insert into sandbox.events select * from jsonb_populate_recordset(null::sandbox.events, $1)
     )
     insert into sandbox.deliveries (event_id, endpoint_id, state, due_at)
     select event_id, endpoint_id, 'pending', due_at
     from jsonb_populate_recordset(null::sandbox.deliveries, $2) with ordinality order by ordinality`,
    [writeRows(events), writeRows(deliveries)],
  );
}

export const readEndpoints = (connection: Connection) =>
  readRows<WebhookEndpoint>(connection, "select * from sandbox.endpoints order by endpoint_id");

export async function putEndpoint(connection: Connection, endpoint: WebhookEndpoint): Promise<void> {
  await connection.query(
    `insert into sandbox.endpoints select * from jsonb_populate_recordset(null::sandbox.endpoints, $1)
     on conflict (endpoint_id) do update set url = excluded.url, secret = excluded.secret, scheme = excluded.scheme`,
    [writeRows([endpoint])],
  );
}

/** A delivery to be sent, with its event and its endpoint. */
export interface DueSandboxDelivery extends Omit<EventRow, "sentAs">, WebhookEndpoint {
  readonly deliveryId: bigint;
  /** The number of earlier attempts. */
  readonly attempts: number;
}

/** The result of an attempt: the response's status, or the error before one arrived. */
export interface AttemptResult {
  readonly deliveryId: bigint;
  readonly status: number | null;
  readonly error: string | null;
  readonly state: "delivered" | "failed" | "pending";
  /** Instant at which a delivery that stays pending is due again. */
  readonly dueAt: Instant;
}

/** Reads up to `limit` due deliveries that are not being sent, the longest due first. */
export async function readDueDeliveries(
  connection: Connection,
  due: { now: Instant; sending: readonly bigint[]; limit: number },
): Promise<DueSandboxDelivery[]> {
  return readRows<DueSandboxDelivery>(
    connection,
    `select delivery_id, d.attempts, e.*, p.*
     from sandbox.deliveries d join sandbox.events e using (event_id) join sandbox.endpoints p using (endpoint_id)
     where d.state = 'pending' and d.due_at <= $1 and delivery_id <> all ($2::bigint[])
     order by d.due_at, delivery_id limit $3`,
    [due.now, due.sending, due.limit],
  );
}

export async function recordDelivery(connection: Connection, result: AttemptResult): Promise<void> {
  await connection.query(
    `update sandbox.deliveries set attempts = attempts + 1, state = $2, due_at = $3, status = $4,
       error = $5 where delivery_id = $1`,
    [result.deliveryId, result.state, result.dueAt, result.status, result.error],
  );
}

/** The earliest due times of each kind; null if nothing is due. */
export async function readDueTimes(connection: Connection, sending: readonly bigint[]) {
  type DueTimes = Record<"delivery" | "move" | "lateChange", Instant | null>;
  const [times] = await readRows<DueTimes>(connection, {
    // Asked at each step of the sandbox's clock: planning it takes longer than running it.
    name: "read-due-times",
    text: `select
       (select due_at from sandbox.deliveries where state = 'pending' and delivery_id <> all ($1::bigint[])
          order by due_at, delivery_id limit 1) as delivery,
       (select next_move_at from sandbox.orders o where next_move_at is not null
          and not exists (select from sandbox.late_changes l where l.number = o.number)
        order by next_move_at limit 1) as move,
       (select min(visible_at) from sandbox.late_changes) as late_change`,
    values: [sending],
  });
  return times ?? { delivery: null, move: null, lateChange: null };
}

export interface EventView extends Omit<EventRow, "body"> {
  /** Each with the outcome of its last attempt. */
  readonly deliveries: readonly (Pick<AttemptResult, "status" | "error" | "state"> & {
    readonly deliveryId: number;
    readonly endpointId: string;
    readonly attempts: number;
  })[];
}

/** The newest events with their deliveries; only of one order if `reference` is given. */
export async function readEvents(
  connection: Connection,
  filter: { reference: string | null; limit: number },
): Promise<EventView[]> {
  return readRows<EventView>(
    connection,
    `select event_number, event_id, organization_id, livemode, reference, type, created, sent_as,
       coalesce((
         select jsonb_agg(jsonb_build_object('deliveryId', d.delivery_id, 'endpointId', d.endpoint_id,
           'state', d.state, 'attempts', d.attempts, 'status', d.status, 'error', d.error) order by d.delivery_id)
         from sandbox.deliveries d where d.event_id = e.event_id
       ), '[]') as deliveries
     from sandbox.events e where $1::text is null or reference = $1
     order by event_number desc limit $2`,
    [filter.reference, filter.limit],
  );
}
