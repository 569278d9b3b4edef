import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/database.ts";

export interface DueSandboxDelivery {
  readonly deliveryId: bigint;
  readonly eventId: string;
  readonly eventType: string;
  readonly organizationId: string;
  readonly reference: string;
  readonly body: string;
  readonly corrupt: boolean;
  /** The number of earlier attempts. */
  readonly attempts: number;
  readonly url: string;
  readonly secret: string;
  readonly scheme: string;
}

/** The result of an attempt: the response's status, or the error before one arrived. */
export interface AttemptResult {
  readonly deliveryId: bigint;
  readonly attemptedAt: Instant;
  readonly durationMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly state: "delivered" | "failed" | "pending";
  /** When a delivery that stays pending is due again. */
  readonly dueAt: Instant;
}

/** Takes up to `limit` due deliveries, the longest due first; nobody else gets them until recordDelivery. */
export async function takeDueDeliveries(
  connection: Connection,
  now: Instant,
  limit: number,
): Promise<DueSandboxDelivery[]> {
  const { rows } = await connection.query<DueSandboxDelivery>(
    `with taken as (
       update sandbox.deliveries set taken = true
       where delivery_id in (
         select delivery_id from sandbox.deliveries
         where state = 'pending' and not taken and due_at <= $1
         order by due_at, delivery_id limit $2
       )
       returning delivery_id, event_id, endpoint_id, corrupt, attempts, due_at
     )
     select delivery_id as "deliveryId", event_id as "eventId", e.type as "eventType",
       e.organization_id as "organizationId", e.reference, e.body,
       t.corrupt, t.attempts, p.url, p.secret, p.scheme
     from taken t join sandbox.events e using (event_id) join sandbox.endpoints p using (endpoint_id)
     order by t.due_at, delivery_id`,
    [now, limit],
  );
  return rows;
}

export async function recordDelivery(connection: Connection, result: AttemptResult): Promise<void> {
  const { deliveryId, attemptedAt, durationMs, status, error, state, dueAt } = result;
  await connection.query(
    `with recorded as (
       update sandbox.deliveries set taken = false, attempts = attempts + 1, state = $6, due_at = $7
       where delivery_id = $1 returning delivery_id
     )
     insert into sandbox.attempts (delivery_id, attempted_at, duration_ms, status, error)
     select delivery_id, $2, $3, $4, $5 from recorded`,
    [deliveryId, attemptedAt, durationMs, status, error, state, dueAt],
  );
}

/** Releases the deliveries that an ended process had taken; they are attempted again. */
export async function releaseDeliveries(connection: Connection): Promise<void> {
  await connection.query(`update sandbox.deliveries set taken = false where taken`);
}

/** The earliest due times of each kind; null if nothing is due. */
export interface DueTimes {
  readonly delivery: Instant | null;
  readonly move: Instant | null;
  readonly lateChange: Instant | null;
}

export async function readDueTimes(connection: Connection): Promise<DueTimes> {
  const { rows } = await connection.query<DueTimes>({
    // Asked at each step of the sandbox's clock: planning it takes longer than running it.
    name: "read-due-times",
    text: `select
       (select min(due_at) from sandbox.deliveries where state = 'pending' and not taken) as delivery,
       (select next_move_at from sandbox.orders o where next_move_at is not null
          and not exists (select from sandbox.late_changes l where l.number = o.number)
        order by next_move_at limit 1) as move,
       (select min(visible_at) from sandbox.late_changes) as "lateChange"`,
  });
  return rows[0] ?? { delivery: null, move: null, lateChange: null };
}
