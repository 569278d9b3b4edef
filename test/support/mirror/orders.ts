import { createHash } from "node:crypto";
import type pg from "pg";
import type { ReadTime } from "../../../src/domain/order/observation.ts";
import { formatInstant, parseInstant } from "../../../src/domain/order/instant.ts";
import { readSnapshot } from "../../../src/wire/order.ts";
import type { Snapshot } from "../../../src/domain/order/order.ts";
import { makeApply } from "../../../src/apply/apply.ts";
import { silentLogger } from "../../../src/process/telemetry/logger.ts";

export interface OrderSketch {
  readonly reference: string;
  readonly updatedAt: string;
  readonly status?: string;
  readonly livemode?: boolean;
  readonly more?: Record<string, unknown>;
}

/** An order object as a provider would send it, with the parts that a test cares about. */
export function makeOrder({
  reference,
  updatedAt,
  status = "created",
  livemode = true,
  more = {},
}: OrderSketch) {
  return {
    reference,
    externalOrderId: `shop-${reference}`,
    status,
    livemode,
    fleet: { name: "Northside Couriers" },
    schedule: {
      mode: "asap",
      resolved: {
        pickupTime: "2026-03-01T10:20:00+01:00",
        deliveryTime: "2026-03-01T10:50:00+01:00",
        basis: "busy_hours",
      },
    },
    pickupTime: "2026-03-01T10:20:00+01:00",
    deliveryTime: "2026-03-01T10:50:00+01:00",
    realPickupTime: null,
    realDeliveryTime: null,
    updatedAt,
    ...more,
  };
}

/** The time of a read that was requested at an instant. */
export function readAt(requestedAt: bigint, marginSeconds = 300): ReadTime {
  return { requestedAt, marginSeconds };
}

export function makeSnapshot(sketch: OrderSketch): Snapshot {
  const order = makeOrder(sketch);
  return readSnapshot(JSON.stringify(order), order);
}

/** The body of an event about an order. */
export function makeEventBody(options: {
  id: string;
  type?: string;
  created?: string;
  livemode?: boolean;
  order: OrderSketch;
}): Buffer {
  const { id, order, type = `order.${order.status ?? "created"}`, created = order.updatedAt } = options;
  const livemode = options.livemode ?? order.livemode ?? true;
  return Buffer.from(JSON.stringify({ id, type, created, livemode, data: makeOrder(order) }));
}

/** Inserts events straight into the inbox, as the receiver does after it has verified them; returns their seqs. */
export async function putIntoInbox(
  pool: { query: (text: string, values: unknown[]) => Promise<{ rows: { seq: string }[] }> },
  events: readonly { sourceId?: string; eventId: string; body: Buffer }[],
): Promise<number[]> {
  const result = await pool.query(
    `with stored as (
       insert into mirror.inbox (source_id, event_id, body_hash, body, secret_index)
       select source_id, event_id, body_hash, body, 0
       from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[]) as e (source_id, event_id, body_hash, body)
       on conflict do nothing returning seq, source_id, received_at)
     insert into mirror.pending (seq, source_id, received_at) select seq, source_id, received_at from stored
     returning seq`,
    [
      events.map((event) => event.sourceId ?? "live"),
      events.map((event) => event.eventId),
      events.map((event) => createHash("sha256").update(event.body).digest()),
      events.map((event) => event.body),
    ],
  );
  return result.rows.map((row) => Number(row.seq));
}

export async function addSource(
  pool: { query: (text: string, values: unknown[]) => Promise<unknown> },
  sourceId: string,
  mode: "live" | "test" = "live",
): Promise<void> {
  await pool.query(
    "insert into mirror.sources (source_id, mode, base_url) values ($1, $2, 'http://127.0.0.1') on conflict do nothing",
    [sourceId, mode],
  );
}

/** `base` plus a number of seconds, as the provider writes it. */
export function at(seconds: number, base = "2026-03-01T09:00:00Z"): string {
  return formatInstant(parseInstant(base) + BigInt(Math.round(seconds * 1e9)));
}

/** The JSON text of an order object with the fields of the spec; `fields` replaces or adds some. */
export function orderText(fields: Record<string, unknown>): string {
  const at = "2026-11-20T10:00:00Z";
  return JSON.stringify({
    reference: "ORD-1",
    status: "created",
    livemode: true,
    fleet: { name: "North" },
    schedule: { mode: "asap", resolved: { pickupTime: at, deliveryTime: at, basis: "busy_hours" } },
    updatedAt: at,
    ...fields,
  });
}

/** Puts an order into the mirror, as a poll does a minute after its change. */
export async function insertOrder(pool: pg.Pool, sourceId: string, raw: string): Promise<void> {
  const snapshot = readSnapshot(raw, JSON.parse(raw));
  const apply = makeApply({ pool, logger: silentLogger, modes: new Map([[sourceId, "live"]]) });
  const time = readAt(snapshot.version + 60_000_000_000n, 5);
  await apply.applyReads({ sourceId, via: "poll", snapshots: [snapshot], time });
}

/** Puts orders R000001 and so on of the source `live` into the table, each with about `bytes` of JSON. */
export const insertMany = (pool: pg.Pool, count: number, bytes: number) =>
  pool.query(
    `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw,
       history_id, first_seen_via)
     select 'live', 'R' || lpad(n::text, 6, '0'), n, true, 0, 1, '', 'created', now(),
       json_build_object('reference', n, 'note', repeat('x', $2)), n, 'poll' from generate_series(1, $1) n`,
    [count, bytes],
  );
