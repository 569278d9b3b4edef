import pg from "pg";
import { expect, it, onTestFinished } from "vitest";
import { followDecisions } from "../../../src/cli/commands/tail.ts";
import {
  readNewestDecision,
  readDecisions,
  type DecisionFilter,
} from "../../../src/changes/changeTail.sql.ts";
import { systemClock, type Clock } from "../../../src/process/clock.ts";
import { asPool, openTestDatabase } from "../../support/servers/database.ts";
import { addSource } from "../../support/mirror/orders.ts";

const { database } = await openTestDatabase();
await addSource(database.pool, "live");

const ALL: DecisionFilter = { sourceId: null, reference: null };
let passedMs = 0;
/** Time passes only when a test advances it; checks follow each other immediately. */
const testClock: Clock = {
  ...systemClock,
  monotonicMs: () => passedMs,
  sleep: (_ms, signal) => systemClock.sleep(5, signal),
};

async function follow(filter: DecisionFilter = ALL) {
  const ending = new AbortController();
  const seen: (string | null)[] = [];
  const after = await readNewestDecision(database.pool);
  const { pool } = database;
  const running = (async () => {
    const decisions = followDecisions({ pool, clock: testClock, filter, after, signal: ending.signal });
    for await (const decision of decisions) seen.push(decision.reference);
  })();
  onTestFinished(async () => {
    ending.abort();
    await running;
  });
  return seen;
}

const INSERT = `insert into mirror.history (source_id, reference, via, verdict, status, version)
  values ('live', $1, 'poll', 'applied', 'created', 1)`;
const decide = (reference: string, on: { query: pg.Pool["query"] } = database.pool) =>
  on.query(INSERT, [reference]);

it("shows each decision once, in sequence, or those of the requested order; the last ones oldest first", async () => {
  await decide("before");
  const [seen, ofOne] = [await follow(), await follow({ sourceId: "live", reference: "R3" })];
  const references = Array.from({ length: 30 }, (_, number) => `R${number}`);
  for (const reference of references) await decide(reference);
  await expect.poll(() => [seen, ofOne]).toEqual([references, ["R3"]]);
  const last = async (filter: DecisionFilter) =>
    (await readDecisions(database.pool, { ...filter, limit: 2 })).map(({ reference }) => reference);
  expect([await last(ALL), await last({ ...ALL, reference: "R3" })]).toEqual([["R28", "R29"], ["R3"]]);
});

it("shows a decision that was committed long after a later one", async () => {
  const slow = new pg.Client(database.url);
  await slow.connect();
  onTestFinished(() => slow.end());
  const seen = await follow();
  await slow.query("begin");
  await decide("drawn first", asPool(slow));
  await decide("drawn second");
  await expect.poll(() => seen).toEqual(["drawn second"]);
  // As long as a transaction of the mirror may last.
  passedMs += 14_000;
  await decide("drawn third");
  await expect.poll(() => seen).toContain("drawn third");
  await decide("drawn fourth");
  await expect.poll(() => seen).toContain("drawn fourth");
  await slow.query("commit");
  await expect.poll(() => seen).toContain("drawn first");
  expect(seen.filter((reference) => reference === "drawn first")).toHaveLength(1);
});
