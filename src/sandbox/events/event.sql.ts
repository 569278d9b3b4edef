import type { Instant } from "../../domain/order/instant.ts";
import type { Connection } from "../world/database.ts";

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
  readonly reason: "event" | "duplicate" | "resend";
  readonly corrupt: boolean;
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

export async function takeEventNumbers(connection: Connection, count: number): Promise<bigint[]> {
  const { rows } = await connection.query<{ number: bigint }>(
    `select nextval('sandbox.event_number') as number from generate_series(1, $1)`,
    [count],
  );
  return rows.map((row) => row.number).sort((left, right) => (left < right ? -1 : 1));
}

export async function insertSandboxEvents(
  connection: Connection,
  events: readonly EventRow[],
): Promise<void> {
  const column = <Name extends keyof EventRow>(name: Name) => events.map((event) => event[name]);
  await connection.query(
    `insert into sandbox.events
       (event_number, event_id, organization_id, livemode, reference, type, created, sent_as, body)
     select * from unnest($1::bigint[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::text[],
       $7::bigint[], $8::text[], $9::text[])`,
    [
      column("eventNumber"),
      column("eventId"),
      column("organizationId"),
      column("livemode"),
      column("reference"),
      column("type"),
      column("created"),
      column("sentAs"),
      column("body"),
    ],
  );
}

export async function insertDeliveries(
  connection: Connection,
  deliveries: readonly NewDelivery[],
): Promise<void> {
  if (deliveries.length === 0) return;
  const column = <Name extends keyof NewDelivery>(name: Name) => deliveries.map((delivery) => delivery[name]);
  await connection.query(
    `insert into sandbox.deliveries (event_id, endpoint_id, reason, corrupt, state, due_at)
     select event_id, endpoint_id, reason, corrupt, 'pending', due_at
     from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::bigint[])
       with ordinality as d (event_id, endpoint_id, reason, corrupt, due_at, place) order by place`,
    [column("eventId"), column("endpointId"), column("reason"), column("corrupt"), column("dueAt")],
  );
}

export async function readEndpoints(connection: Connection): Promise<WebhookEndpoint[]> {
  const { rows } = await connection.query<WebhookEndpoint>(
    `select endpoint_id as "endpointId", organization_id as "organizationId", livemode, url, secret, scheme
     from sandbox.endpoints order by endpoint_id`,
  );
  return rows;
}

export async function putEndpoint(connection: Connection, endpoint: WebhookEndpoint): Promise<void> {
  await connection.query(
    `insert into sandbox.endpoints (endpoint_id, organization_id, livemode, url, secret, scheme)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (endpoint_id) do update
       set url = excluded.url, secret = excluded.secret, scheme = excluded.scheme`,
    [
      endpoint.endpointId,
      endpoint.organizationId,
      endpoint.livemode,
      endpoint.url,
      endpoint.secret,
      endpoint.scheme,
    ],
  );
}

/** Returns whether it existed. Its deliveries are deleted with it. */
export async function deleteEndpoint(connection: Connection, endpointId: string): Promise<boolean> {
  const { rowCount } = await connection.query(`delete from sandbox.endpoints where endpoint_id = $1`, [
    endpointId,
  ]);
  return rowCount === 1;
}
