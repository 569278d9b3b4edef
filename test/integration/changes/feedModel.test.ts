import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type pg from "pg";
import { makeApply } from "../../../src/apply/apply.ts";
import { FEED_BEGINNING, readChanges, readFeedFence } from "../../../src/changes/changeFeed.sql.ts";
import type { Change, FeedCursor } from "../../../src/changes/changeFeed.sql.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { asPool } from "../../support/servers/asPool.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";

const WRITERS = 3;
const MODES = new Map([["live", "live"]] as const);

let database: TestDatabase;
let pool: Pool;
let clients: pg.PoolClient[];
beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "test", max: WRITERS + 1, statementTimeoutMs: 20_000 });
  await addSource(pool, "live");
  clients = await Promise.all(Array.from({ length: WRITERS }, () => pool.connect()));
});
afterAll(async () => {
  for (const client of clients) client.release();
  await pool.end();
  await database.drop();
});

/** Each writer's uncommitted and committed revisions of its own orders. */
interface Model {
  readonly open: (string[] | undefined)[];
  readonly committed: string[];
  readonly revisions: Map<string, number>;
}
interface Real {
  after: FeedCursor;
  readonly seen: Change[];
  version: number;
}
type Command = fc.AsyncCommand<Model, Real>;

const write = (writer: number, order: number): Command => ({
  check: () => true,
  run: async (model, real) => {
    const client = clients[writer]!;
    if (model.open[writer] === undefined) await client.query("begin");
    const pending = (model.open[writer] ??= []);
    const reference = `W${writer}-${order}`;
    const apply = makeApply({
      events: deliveryEvents,
      pool: asPool(client),
      logger: silentLogger,
      modes: MODES,
    });
    const snapshots = [makeSnapshot({ reference, updatedAt: at((real.version += 1)) })];
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n) });
    pending.push(reference);
  },
  toString: () => `writer ${writer} changes order ${order}`,
});

const end = (writer: number, how: "commit" | "rollback"): Command => ({
  check: ({ open }) => open[writer] !== undefined,
  run: async (model) => {
    await clients[writer]?.query(how);
    for (const reference of how === "commit" ? (model.open[writer] ?? []) : []) {
      const revision = (model.revisions.get(reference) ?? 0) + 1;
      model.revisions.set(reference, revision);
      model.committed.push(`${reference}/${revision}`);
    }
    model.open[writer] = undefined;
  },
  toString: () => `writer ${writer}: ${how}`,
});

const read = (limit: number): Command => ({
  check: () => true,
  run: async (_model, real) => {
    const fence = await readFeedFence(pool);
    const { changes, epoch } = await readChanges(pool, { sourceId: "live", after: real.after, fence, limit });
    real.seen.push(...changes);
    const last = changes.at(-1);
    if (last !== undefined) real.after = { epoch, position: last.position, digest: last.digest };
  },
  toString: () => `read ${limit}`,
});

const name = ({ reference, revision }: Change) => `${reference}/${revision}`;

it("shows exactly the committed changes, each once, however transactions overlap, end or fail", async () => {
  const writer = fc.nat(WRITERS - 1);
  const commands = fc.commands(
    [
      fc.tuple(writer, fc.nat(1)).map(([who, order]) => write(who, order)),
      writer.map((who) => end(who, "commit")),
      writer.map((who) => end(who, "rollback")),
      fc.integer({ min: 1, max: 5 }).map(read),
    ],
    // The default prefers short sequences, in which two transactions rarely overlap.
    { maxCommands: 40, size: "max" },
  );
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      await pool.query("truncate mirror.orders, mirror.changes, mirror.history");
      const model: Model = { open: [], committed: [], revisions: new Map() };
      const real: Real = { after: FEED_BEGINNING, seen: [], version: 0 };
      try {
        await fc.asyncModelRun(() => ({ model, real }), sequence);
      } finally {
        for (const client of clients) await client.query("rollback");
      }
      for (let before = -1; before < real.seen.length;) {
        before = real.seen.length;
        await read(5).run(model, real);
      }
      const seen = real.seen.map(name);
      expect(seen.toSorted()).toEqual(model.committed.toSorted());
      // The changes of one order come in the sequence in which they happened.
      for (const reference of model.revisions.keys()) {
        const revisions = real.seen
          .filter((change) => change.reference === reference)
          .map(({ revision }) => revision);
        expect(revisions).toEqual(revisions.toSorted((left, right) => left - right));
      }
    }),
    { numRuns: 60 },
  );
});
