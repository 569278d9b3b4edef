import type pg from "pg";
import { formatInstant, type Instant } from "../../../src/domain/order/instant.ts";
import { ORDER_COLUMN_LIST } from "../../../src/domain/order/orderColumns.ts";
import { observeRead } from "../../../src/domain/order/observation.ts";
import { readAt } from "./orders.ts";
import { readSnapshot } from "../../../src/wire/order.ts";

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

/** Puts an order into the mirror's table as a read would, without the code that applies. */
export async function insertOrder(pool: pg.Pool, sourceId: string, raw: string): Promise<void> {
  const snapshot = readSnapshot(raw, JSON.parse(raw));
  const { fields, version } = snapshot;
  const requestedAt = version + 60_000_000_000n;
  const { key } = observeRead({ sourceId, via: "poll", snapshot, time: readAt(requestedAt, 5) });
  const values = {
    source_id: sourceId,
    reference: fields.reference,
    horizon: key.horizon,
    version,
    settled: key.settled,
    observed_at: key.observedAt,
    rank: key.rank,
    hash: Buffer.from(key.hash, "hex"),
    ...Object.fromEntries(
      ORDER_COLUMN_LIST.map(({ field, column }) => {
        const value = fields[field];
        return [column, typeof value === "bigint" ? toTimestamp(value) : value];
      }),
    ),
    updated_at: toTimestamp(version),
    raw,
    history_id: 1,
    first_seen_via: "poll",
  };
  const names = Object.keys(values);
  const places = names.map((_, index) => `$${index + 1}`);
  await pool.query(
    `insert into mirror.orders (${names.join(", ")}) values (${places.join(", ")})`,
    Object.values(values),
  );
}

function toTimestamp(instant: Instant): string {
  return formatInstant(instant, 6);
}
