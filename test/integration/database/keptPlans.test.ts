import { afterAll, afterEach, expect, it, onTestFinished, vi } from "vitest";
import { makePool } from "../../../src/database/database.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const { database } = await openTestDatabase();

const common = { url: database.url, purpose: "test", max: 1, statementTimeoutMs: 10_000 };
const pool = makePool({ ...common, keepsPlans: true });

afterEach(() => void vi.useRealTimers());

afterAll(() => pool.end());

async function explainKeptPlan(): Promise<string> {
  const { rows } = await pool.query<{ "QUERY PLAN": string }>("explain execute find_place(1)");
  return rows.map((row) => row["QUERY PLAN"]).join("\n");
}

async function findConnection(): Promise<unknown> {
  return (await pool.query("select pg_backend_pid()")).rows[0];
}

it("plans are renewed after 15 seconds on the same connection", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  await pool.query("create table places (place integer primary key)");
  await pool.query("set plan_cache_mode = force_generic_plan");
  await pool.query({ name: "find_place", text: "select place from places where place = $1", values: [1] });
  const connection = await findConnection();
  // From here on no new plan can use the index, but a kept one still does.
  await pool.query("set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off");
  await pool.query("set enable_seqscan = on");
  vi.advanceTimersByTime(14_999);
  expect(await explainKeptPlan()).toContain("Index");
  vi.advanceTimersByTime(1);
  expect(await explainKeptPlan()).toContain("Seq Scan");
  expect(await findConnection()).toEqual(connection);
  // To compile a plan would take longer than to run it.
  expect((await pool.query("show jit")).rows).toEqual([{ jit: "off" }]);
});

it("a statement with values is prepared once per connection, under one name", async () => {
  const apply = makePool({ ...common, plansForAnyValues: true });
  onTestFinished(() => apply.end());
  for (let times = 0; times < 3; times += 1) {
    const statement = { text: "select $1::int as given", values: [times] };
    expect((await apply.query(statement)).rows).toEqual([{ given: times }]);
    expect((await apply.query(statement.text, statement.values)).rows).toEqual([{ given: times }]);
    await apply.query({ name: "own", text: "select $1::text", values: ["a"] });
  }
  const { rows } = await apply.query(
    "select name, statement, generic_plans::int + custom_plans::int as runs from pg_prepared_statements order by name",
  );
  expect(rows).toEqual([
    { name: "own", statement: "select $1::text", runs: 3 },
    { name: "statement 1", statement: "select $1::int as given", runs: 6 },
  ]);
});
