import type { Pool } from "../../src/database/database.ts";
import { amount } from "./effort.ts";

export const ORDERS = amount(1_000_000);

const FIRST_AT_SECONDS = 1_700_000_000;

/** When the order with this number last changed, in seconds since 1970; its pickup is ten minutes later. */
export function timeOfOrder(number: number): number {
  return FIRST_AT_SECONDS + number;
}

/** Orders as in a business: most delivered, the others in all statuses; some 700 bytes each. */
export async function fillOrders(pool: Pool): Promise<void> {
  const batch = amount(100_000);
  for (let first = 1; first <= ORDERS; first += batch) {
    await pool.query(
      `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id,
         status, updated_at, livemode, fleet_name, branch_id, schedule_mode, pickup_time, delivery_time, raw, history_id,
         first_seen_via)
       select 'live', 'S' || n, ($4::bigint + n) * 1000000000, true, 0, 1, sha256(convert_to('S' || n, 'UTF8')), 'shop-' || n,
         case when n % 50 = 0 then 'created' when n % 50 = 1 then 'picked_up' when n % 20 = 2 then 'cancelled' else 'delivered' end,
         to_timestamp($4::bigint + n), true, 'Fleet ' || n % 20, 'b-' || n % 200, 'asap',
         to_timestamp($4::bigint + n + 600), to_timestamp($4::bigint + n + 1800),
         json_build_object('reference', 'S' || n, 'status', 'x',
           'updatedAt', to_char(to_timestamp($4::bigint + n) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'note', repeat('x', 600)), n, 'poll'
       from generate_series($1::bigint, least($2::bigint, $1::bigint + $3::bigint - 1)) n`,
      [first, ORDERS, batch, FIRST_AT_SECONDS],
    );
  }
  await pool.query("vacuum analyze mirror.orders");
  // Otherwise pending writes would happen during the measurement.
  await pool.query("checkpoint");
}
