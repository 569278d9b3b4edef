import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import type pg from "pg";
import {
  FEED_BEGINNING,
  readChanges,
  readFeedFence,
  type Change,
  type FeedCursor,
} from "../../../src/changes/changeFeed.sql.ts";
import { makePool } from "../../../src/database/database.ts";
import { asPool, openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import { addSource, at, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import { emptying } from "../../support/mirror/tables.ts";

const WRITERS = 3;

const { database } = await openTestDatabase();
const pool = makePool({ url: database.url, purpose: "test", max: WRITERS + 1, statementTimeoutMs: 20_000 });
await addSource(pool, "live");
await pool.query("insert into mirror.poll_state (source_id) values ('live')");
const clients = await Promise.all(Array.from({ length: WRITERS }, () => pool.connect()));
afterAll(async () => {
  for (const client of clients) client.release();
  await pool.end();
});

/** Each writer's uncommitted and committed revisions of its own orders. */
interface Model {
  readonly open: (string[] | undefined)[];
  readonly committed: string[];
  readonly revisions: Map<string, number>;
  /** What was committed when safe_through moved to an instant. */
  readonly proofs: Map<bigint, readonly string[]>;
}
interface Real {
  after: FeedCursor;
  readonly seen: Change[];
  version: number;
  /** Up to when the last page said that everything was given. */
  completeThrough: bigint | undefined;
}
type Command = fc.AsyncCommand<Model, Real>;

const write = (writer: number, order: number): Command => ({
  check: () => true,
  run: async (model, real) => {
    const client = clients[writer]!;
    if (model.open[writer] === undefined) await client.query("begin");
    const pending = (model.open[writer] ??= []);
    const reference = `W${writer}-${order}`;
    const apply = makeLiveApply(asPool(client));
    const snapshots = [makeSnapshot({ reference, updatedAt: at((real.version += 1)) })];
    await apply.applyReads({ sourceId: "live", via: "poll", snapshots, time: readAt(0n) });
    pending.push(reference);
  },
  toString: () => `writer ${writer} changes order ${order}`,
});

/** Moves safe_through, as the commit of a window does. */
async function prove(client: Pick<pg.PoolClient, "query">, { proofs }: Model): Promise<bigint> {
  const through = BigInt(proofs.size + 1);
  await client.query("update mirror.poll_state set safe_through = $1", [through]);
  proofs.set(through, []);
  return through;
}

const proveNow: Command = {
  check: () => true,
  run: async (model) => {
    model.proofs.set(await prove(pool, model), [...model.committed]);
  },
  toString: () => "prove",
};

const end = (writer: number, how: "commit" | "rollback", proves: boolean): Command => ({
  check: ({ open }) => open[writer] !== undefined,
  run: async (model) => {
    const client = clients[writer]!;
    const through = proves && how === "commit" ? await prove(client, model) : undefined;
    await client.query(how);
    for (const reference of how === "commit" ? (model.open[writer] ?? []) : []) {
      const revision = (model.revisions.get(reference) ?? 0) + 1;
      model.revisions.set(reference, revision);
      model.committed.push(`${reference}/${revision}`);
    }
    model.open[writer] = undefined;
    if (through !== undefined) model.proofs.set(through, [...model.committed]);
  },
  toString: () => `writer ${writer}: ${how}${proves ? " with a proof" : ""}`,
});

const read = (limit: number): Command => ({
  check: () => true,
  run: async ({ proofs }, real) => {
    const fence = await readFeedFence(pool);
    const page = await readChanges(pool, { sourceId: "live", after: real.after, fence, limit });
    const { changes, epoch, complete } = page;
    real.seen.push(...changes);
    real.completeThrough = complete?.through;
    if (complete !== null) {
      const seen = new Set(real.seen.map(name));
      expect(proofs.get(complete.through)?.filter((change) => !seen.has(change))).toEqual([]);
    }
    const last = changes.at(-1);
    if (last !== undefined) real.after = { epoch, position: last.position, digest: last.digest };
  },
  toString: () => `read ${limit}`,
});

const name = ({ reference, revision }: Change) => `${reference}/${revision}`;

it("shows exactly the committed changes, each once, and claims no proof before all that it was made from was shown", async () => {
  const writer = fc.nat(WRITERS - 1);
  const commands = fc.commands(
    [
      fc.tuple(writer, fc.nat(1)).map(([who, order]) => write(who, order)),
      fc.tuple(writer, fc.boolean()).map(([who, proves]) => end(who, "commit", proves)),
      writer.map((who) => end(who, "rollback", false)),
      fc.constant(proveNow),
      fc.integer({ min: 1, max: 5 }).map(read),
    ],
    // The default prefers short sequences, in which two transactions rarely overlap.
    { maxCommands: 40, size: "max" },
  );
  await fc.assert(
    fc.asyncProperty(commands, async (sequence) => {
      await pool.query(
        emptying("orders changes history") + "; update mirror.poll_state set safe_through = null",
      );
      const model: Model = { open: [], committed: [], revisions: new Map(), proofs: new Map() };
      const real: Real = { after: FEED_BEGINNING, seen: [], version: 0, completeThrough: undefined };
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
      // Nobody writes any more, so the last proof holds for the reader.
      expect(real.completeThrough).toBe(model.proofs.size === 0 ? undefined : BigInt(model.proofs.size));
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
