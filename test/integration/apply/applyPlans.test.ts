import { expect, it, onTestFinished } from "vitest";
import { readEventsAt } from "../../../src/ops/queues/queueEvents.sql.ts";
import { asPool } from "../../support/servers/database.ts";
import { openAppliedMirror } from "../../support/mirror/liveMirror.ts";
import { at, makeEventBody, putIntoInbox } from "../../support/mirror/orders.ts";
import { listPlanNodes, type PlanNode } from "../../support/mirror/reporting.ts";

/**
 * How Postgres plans the statements of apply while the tables grow, as in a busy hour: on the worker's kind of
 * connection, before any analyze or vacuum.
 */
const ROUNDS = 30;
const EVENTS_PER_ROUND = 100;

const { pool, apply } = await openAppliedMirror();

for (let round = 0; round < ROUNDS; round += 1) {
  await apply.applyEvents(await storeEvents(round, EVENTS_PER_ROUND));
  // The pool does this every 15 seconds.
  await pool.query("discard plans");
}

function storeEvents(round: number, count: number): Promise<number[]> {
  const events = Array.from({ length: count }, (_, index) => {
    const eventId = `evt_${round}_${index}`;
    const order = { reference: `R${index}-${round % 8}`, updatedAt: at(round) };
    return { eventId, body: makeEventBody({ id: eventId, order }) };
  });
  return putIntoInbox(pool, events);
}

it("the statements are not replanned at each execution", async () => {
  const { rows } = await pool.query<{ name: string; custom_plans: string }>(
    // Others, of this test, have names that the pool chose.
    "select name, custom_plans from pg_prepared_statements where name !~ '^statement ' order by name",
  );
  expect(rows).toEqual([
    { name: "apply-batch", custom_plans: "0" },
    { name: "read-pending-events", custom_plans: "0" },
  ]);
});

it("the statement of a batch is the one that stands beside it as a whole, for people", async () => {
  const { rows } = await pool.query<{ statement: string }>(
    "select statement from pg_prepared_statements where name = 'apply-batch'",
  );
  await expect(rows[0]!.statement.trim() + "\n").toMatchFileSnapshot("../../../src/apply/applyBatch.sql");
});

it("an event is looked up by its position, even when many were decided since the last vacuum", async () => {
  const [seq] = await storeEvents(ROUNDS, 1);
  const { rows } = await pool.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
    `explain (format json) execute "read-pending-events" ('{${seq}}', 1000000)`,
  );
  const nodes = listPlanNodes(rows[0]!["QUERY PLAN"][0].Plan);
  const scans = nodes.filter(({ "Index Name": index }) => index?.endsWith("_pkey"));
  expect(scans.map((scan) => [scan["Index Name"], scan["Index Cond"]])).toEqual(
    expect.arrayContaining([
      ["inbox_pkey", expect.stringContaining("seq = ")],
      ["pending_pkey", expect.stringContaining("seq = ")],
    ]),
  );
});

it("the decisions on a few events are found without reading the history", async () => {
  const client = await pool.connect();
  onTestFinished(() => client.release(true));
  const { rows: last } = await client.query<{ seq: string }>(
    "select inbox_seq as seq from mirror.history order by history_id desc limit 3",
  );
  const countRead = async () => {
    const { rows } = await client.query<{ read: number }>(
      `select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_user_tables
       where relid = 'mirror.history'::regclass`,
    );
    return rows[0]!.read;
  };
  // One transaction: the server's counts are handed over between transactions.
  await client.query("begin");
  const before = await countRead();
  const seqs = last.map(({ seq }) => Number(seq));
  expect(await readEventsAt(asPool(client), seqs)).toHaveLength(3);
  expect((await countRead()) - before).toBeLessThan(EVENTS_PER_ROUND);
});
