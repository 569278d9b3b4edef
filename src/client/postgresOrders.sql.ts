import type { OrderState } from "../domain/order/order.ts";
import type { RangeSum, StateBound, StateRange } from "../wire/stateRange.ts";
import { sumColumns, withinRange } from "../wire/stateRange.sql.ts";
import type { SumRow } from "../wire/stateRange.sql.ts";
import type { OrderStore } from "./orderStore.ts";
import type { PostgresClient } from "./postgresStore.sql.ts";

const RANGES = `unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[])
  with ordinality as r (since, since_hash, until, until_hash, nth)`;
const WITHIN = withinRange("o.version", "o.hash", "r");

const writeSums = (name: string) => `
  select summed.count, summed.sum
  from ${RANGES}
  cross join lateral (select ${sumColumns("o.hash", "$5::bytea")} from ${name} o where ${WITHIN}) summed
  order by r.nth`;

/** Counted first: window functions that need the number of rows would keep all of them. */
const writeCuts = (name: string) => `
  select r.nth::int as nth, first.version::text as version, encode(first.hash, 'hex') as hash
  from ${RANGES}
  cross join lateral (select count(*) as states from ${name} o where ${WITHIN}) counted
  cross join lateral (
    select version, case when version = version_before then hash end as hash
    from (
      select version, hash, row_number() over walk - 1 as place, lag(version) over walk as version_before
      from ${name} o where ${WITHIN} window walk as (order by version, hash)
    ) o
    where place > 0 and place * $5::bigint / states <> (place - 1) * $5::bigint / states
  ) first
  where states > $5::bigint
  order by r.nth, first.version, first.hash nulls first`;

const writeStates = (name: string) => `
  select r.nth::int as nth, o.reference, o.version::text as version, encode(o.hash, 'hex') as hash
  from ${RANGES} join ${name} o on ${WITHIN}
  order by r.nth, o.version, o.hash`;

const writePut = (name: string) => `
  insert into ${name} (reference, version, hash, "order")
  select reference, version, hash, text::json
  from unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[]) as o (reference, version, hash, text)
  on conflict (reference) do update
  set version = excluded.version, hash = excluded.hash, "order" = excluded."order"`;

interface StateRow {
  readonly nth: number;
  readonly version: string;
  /** Hexadecimal; null: not needed in a bound. */
  readonly hash: string | null;
}

/**
 * Keeps orders in a table of your own database, by default `order_mirror_orders`, which it creates on first use: with
 * `reference`, `version` (updatedAt in nanoseconds), `hash` and `"order"` (JSON). The table may have more columns that have
 * defaults or are generated from these. Give a schema as in `shop.orders`.
 */
export function postgresOrders(client: PostgresClient, table = "order_mirror_orders"): OrderStore {
  const name = table.split(".").map(quote).join(".");
  let isCreated = false;
  const query = async <Row>(text: string, values: unknown[]) => {
    if (!isCreated) await create(client, name, table);
    isCreated = true;
    return (await client.query(text, values)).rows as Row[];
  };
  return {
    async sums(ranges, salt) {
      const rows = await query<SumRow>(writeSums(name), [...bind(ranges), Buffer.from(salt, "hex")]);
      return rows.map(({ count, sum }): RangeSum => ({ count, sum: BigInt(`0b${sum ?? "0"}`) }));
    },
    async cuts(ranges, parts) {
      const rows = await query<StateRow>(writeCuts(name), [...bind(ranges), parts]);
      return group(ranges, rows, ({ version, hash }): StateBound => ({
        version: BigInt(version),
        hash: hash ?? "",
      }));
    },
    async states(ranges) {
      const rows = await query<StateRow & { reference: string; hash: string }>(
        writeStates(name),
        bind(ranges),
      );
      return group(ranges, rows, ({ reference, version, hash }): OrderState => ({
        reference,
        version: BigInt(version),
        hash,
      }));
    },
    async put(orders) {
      await query(writePut(name), [
        orders.map(({ reference }) => reference),
        orders.map(({ version }) => String(version)),
        orders.map(({ hash }) => Buffer.from(hash, "hex")),
        orders.map(({ order }) => JSON.stringify(order)),
      ]);
    },
    async remove(references) {
      await query(`delete from ${name} where reference = any ($1::text[])`, [references]);
    },
  };
}

async function create(client: PostgresClient, name: string, table: string): Promise<void> {
  await client.query(
    `create table if not exists ${name} (
       reference text primary key, version bigint not null, hash bytea not null, "order" json not null)`,
  );
  const index = quote(`${table.split(".").at(-1)}_by_state`);
  await client.query(`create index if not exists ${index} on ${name} (version, hash)`);
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function bind(ranges: readonly StateRange[]): unknown[] {
  return [
    ranges.map(({ since }) => String(since.version)),
    ranges.map(({ since }) => Buffer.from(since.hash, "hex")),
    ranges.map(({ until }) => String(until.version)),
    ranges.map(({ until }) => Buffer.from(until.hash, "hex")),
  ];
}

/** The rows of each range. */
function group<Row extends StateRow, Result>(
  ranges: readonly StateRange[],
  rows: readonly Row[],
  read: (row: Row) => Result,
): Result[][] {
  const groups: Result[][] = ranges.map(() => []);
  for (const row of rows) groups[row.nth - 1]?.push(read(row));
  return groups;
}
