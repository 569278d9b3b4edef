import { expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";

const SMALL = "small, and written by people or once per window: whole on every server";
/** Tables whose keys lack the source, each with the reason why it does not prevent sharding by source. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  alerts: "a row per condition that holds; its subject is a source, or what all sources share",
  period_requests: SMALL,
  feed: "one row, about the server itself",
  feed_epochs: "a row per server that the feed was written on",
  leases: "one row per thing that is led; its name has the source in it",
  ops_actions: SMALL,
  ops_sessions: "of people, who see all sources",
  outgoing_deliveries: "also unique by endpoint, source and position; jobs refer to its number",
  retention_walks: "one row per table: where retention goes on",
  outgoing_endpoints: "an endpoint is notified of all its sources",
};

const { database } = await openTestDatabase();

it("every unique key contains the source, so that the mirror can be sharded by source", async () => {
  const { rows } = await database.pool.query<{ name: string; columns: string[] }>(`
    select of_table.relname as name,
      array(select attname::text from pg_attribute
            where attrelid = of_table.oid and attnum = any (key.indkey)) as columns
    from pg_index key join pg_class of_table on of_table.oid = key.indrelid
    where key.indisunique and of_table.relnamespace = 'mirror'::regnamespace and of_table.relkind in ('r', 'p')`);
  expect(rows.length).toBeGreaterThan(20);
  const without = rows.filter(({ columns }) => !columns.includes("source_id")).map(({ name }) => name);
  expect([...new Set(without)].toSorted()).toEqual(Object.keys(EXCEPTIONS).toSorted());
});
