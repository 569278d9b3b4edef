import { withClient } from "../../src/database/database.ts";

const BATCH = 250_000;
const FIRST_AT_SECONDS = 1_700_000_000;
const NANOS = 1_000_000_000n;

/** Version of the order with this number; each next order changed a second later. */
export function versionOf(number: number): bigint {
  return BigInt(FIRST_AT_SECONDS + number) * NANOS;
}

/*
 * Order n changed once, n seconds after the first, and has a state in the history and a change in the feed with its
 * number. Most are delivered, the others are in all statuses; snapshots have some 500 bytes.
 */
const SKETCH = `
with sketch as materialized (
  select n, 'S' || n as reference, to_timestamp($3::bigint + n) as at, ($3::bigint + n) * 1000000000 as version,
    case when n % 50 = 0 then 'created' when n % 50 = 1 then 'picked_up' when n % 20 = 2 then 'cancelled' else 'delivered' end as status
  from generate_series($1::bigint, $2::bigint) n
)`;
const FILLS = [
  `${SKETCH} insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id,
     status, updated_at, livemode, fleet_name, branch_id, schedule_mode, pickup_time, delivery_time, history_id,
     first_seen_via, first_seen_at, changed_at, raw)
   select 'live', reference, version, true, 0, 1, sha256(convert_to(reference, 'UTF8')), 'shop-' || n,
     status, at, true, 'Fleet ' || n % 20, 'b-' || n % 200, 'asap', at + interval '10 minutes', at + interval '30 minutes', n,
     'poll', at, at,
     ('{"reference":"' || reference || '","status":"' || status || '","updatedAt":"' || to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') || '","note":"' || repeat('x', 400) || '"}')::json
   from sketch`,
  `${SKETCH} insert into mirror.history (history_id, source_id, reference, via, verdict, version, settled, observed_at,
     rank, hash, status, seen_at)
   select n, 'live', reference, 'poll', 'applied', version, true, 0, 1, sha256(convert_to(reference, 'UTF8')), status, at
   from sketch`,
  `${SKETCH} insert into mirror.changes (position, source_id, reference, revision, history_id, status, via, version, verdict,
     changed_at)
   overriding system value
   select n, 'live', reference, 1, n, status, 'poll', version, 'applied', at from sketch`,
];
const TABLES = ["orders", "history", "changes"];

/** Fills an empty database with this many orders: without the indexes, which are made afterwards. */
export async function fillManyOrders(databaseUrl: string, orders: number): Promise<void> {
  await withClient(databaseUrl, async (client) => {
    await client.query("set maintenance_work_mem = '512MB'; set session_replication_role = replica");
    const { rows: indexes } = await client.query<{ name: string; definition: string }>(
      `select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as definition
       from pg_index i where i.indrelid = any ($1::regclass[]) and not i.indisprimary
       order by i.indrelid, 1`,
      [TABLES.map((table) => `mirror.${table}`)],
    );
    for (const { name } of indexes) await client.query(`drop index ${name}`);
    for (let first = 1; first <= orders; first += BATCH) {
      const values = [first, Math.min(orders, first + BATCH - 1), FIRST_AT_SECONDS];
      for (const fill of FILLS) await client.query(fill, values);
    }
    for (const { definition } of indexes) await client.query(definition);
    await client.query("select setval('mirror.history_id', $1)", [orders]);
    await client.query("select setval('mirror.changes_position_seq', $1)", [orders]);
    for (const table of TABLES) await client.query(`vacuum analyze mirror.${table}`);
    // Otherwise pending writes would happen during the measurement.
    await client.query("checkpoint");
  });
}
