import fc from "fast-check";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import { makeApply } from "../../../src/apply/apply.ts";
import type { Apply } from "../../../src/apply/apply.ts";
import { readKeptOrders } from "../../../src/cli/rehearse/keptOrders.sql.ts";
import { rehearseOrder } from "../../../src/cli/rehearse/rehearseOrder.ts";
import { beginSnapshot } from "../../../src/database/snapshot.sql.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/emptying.ts";

let database: TestDatabase;
let apply: Apply;
beforeAll(async () => {
  database = await makeTestDatabase();
  await addSource(database.pool, "live");
  const modes = new Map([["live", "live"]] as const);
  apply = makeApply({ events: deliveryEvents, pool: database.pool, logger: silentLogger, modes });
});
afterAll(() => database.drop());
beforeEach(() => empty());

const empty = () =>
  database.pool.query(
    emptying("orders history changes pending quarantine refetches inbox erasures", {
      restartsIdentity: true,
    }),
  );

const MARGIN_SECONDS = 100;
const STATUSES = ["created", "arrived_for_pickup", "picked_up", "cancelled"] as const;
type Status = (typeof STATUSES)[number];

/** One observation of an order, in seconds since the start. */
interface Step {
  readonly kind: "event" | "read" | "absence";
  readonly reference: string;
  readonly status: Status;
  readonly version: number;
  readonly at: number;
}

const steps = fc.array(
  fc.record({
    kind: fc.constantFrom("event", "event", "read", "read", "absence"),
    reference: fc.constantFrom("A", "B"),
    status: fc.constantFrom(...STATUSES),
    // Uses few instants, so that equal versions and horizons are common.
    version: fc.integer({ min: 0, max: 12 }).map((tens) => tens * 25),
    at: fc.integer({ min: 0, max: 20 }).map((tens) => tens * 25),
  }) as fc.Arbitrary<Step>,
  { minLength: 1, maxLength: 14 },
);

const instant = (seconds: number) => parseInstant(at(seconds));
let events = 0;

async function see({ kind, reference, status, version, at: seconds }: Step): Promise<void> {
  if (kind === "absence") {
    const requestedAt = instant(seconds);
    const horizon = instant(seconds - MARGIN_SECONDS);
    await applyAbsence(database.pool, { sourceId: "live", reference, via: "refetch", horizon, requestedAt });
    return;
  }
  const order = { reference, status, updatedAt: at(version) };
  if (kind === "read") {
    const time = readAt(instant(seconds), 5, MARGIN_SECONDS);
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots: [makeSnapshot(order)], time });
    return;
  }
  events += 1;
  const id = `evt_${events}`;
  await apply.applyEvents(
    await putIntoInbox(database.pool, [{ eventId: id, body: makeEventBody({ id, order }) }]),
  );
}

async function findDifferences() {
  const client = new pg.Client(database.url);
  await client.connect();
  try {
    await beginSnapshot(client);
    const found = [];
    for await (const batch of readKeptOrders(client)) found.push(...batch.map((kept) => rehearseOrder(kept)));
    return found.filter((difference) => difference !== undefined);
  } finally {
    await client.end();
  }
}

it("computes the same state from events, reads, refutations and gone orders, in any sequence", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (seen) => {
      await empty();
      for (const step of seen) await see(step);
      expect(await findDifferences()).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

const rehearse = (...args: string[]) => runCommand(["rehearse", ...args], { databaseUrl: database.url });
const ORDER = { kind: "read", reference: "A", status: "picked_up", version: 25, at: 500 } as const;

it("reports no difference with exit code 0, and writes nothing", async () => {
  await see({ ...ORDER, status: "created", version: 0 });
  await see(ORDER);
  await see({ ...ORDER, kind: "event", reference: "B" });
  const said = await rehearse();
  expect(said.stdout).toMatch(
    /^Folded 3 observations of 2 orders in .*\.\nThis program comes to the same state of every order\.\n$/,
  );
  expect(said.code).toBe(0);
  const json = await rehearse("--json");
  expect(JSON.parse(json.stdout)).toMatchObject({ equal: true, orders: 2, observations: 3, differences: [] });
});

it("recognizes an order whose personal data was erased", async () => {
  await see(ORDER);
  const erased = await runCommand(["erase", "A", "--yes"], { databaseUrl: database.url });
  expect(erased.code).toBe(0);
  expect(await findDifferences()).toEqual([]);
});

it.each([
  ["another status in its column", "update mirror.orders set status = 'created'", "content", ["status"]],
  [
    "a key that no observation has",
    "update mirror.orders set version = version + 1, horizon = horizon + 1",
    "unexplained",
    ["version", "hash"],
  ],
  [
    "a state of before",
    `alter table mirror.orders disable trigger orders_only_grow;
     update mirror.orders o set (horizon, version, settled, observed_at, rank, hash, raw, status) =
       (select horizon, version, settled, observed_at, rank, hash, raw, status from mirror.history order by history_id limit 1);
     alter table mirror.orders enable trigger orders_only_grow`,
    "state",
    ["version", "hash"],
  ],
  ["nothing where the history has it", "delete from mirror.orders", "missing", []],
])("finds an order with %s", async (_, tampering, kind, columns) => {
  await see({ ...ORDER, status: "created", version: 0, at: 300 });
  await see(ORDER);
  await database.pool.query(tampering);
  const { stdout, code } = await rehearse("--json");
  expect(JSON.parse(stdout)).toMatchObject({
    equal: false,
    differences: [{ sourceId: "live", reference: "A", kind, columns }],
  });
  expect(code).toBe(3);
  const { stdout: text } = await rehearse();
  expect(text).toMatch(new RegExp(`This program comes to another state of one order:\n +live +A +${kind}`));
});
