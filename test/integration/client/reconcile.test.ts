import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { RequestHandler } from "express";
import { makeApply } from "../../../src/apply/apply.ts";
import { applyAbsence } from "../../../src/apply/absence.sql.ts";
import {
  createMirrorClient,
  memoryOrders,
  postgresOrders,
  stateOf,
  StoreDiffersError,
} from "../../../src/client/mirrorClient.ts";
import type { MirrorClient, Order, OrderStore, StoredOrder } from "../../../src/client/mirrorClient.ts";
import { makePool } from "../../../src/database/database.ts";
import type { Pool } from "../../../src/database/database.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { eraseOrder } from "../../../src/retention/erase.ts";
import { silentLogger } from "../../../src/runtime/telemetry/logger.ts";
import { deliveryEvents } from "../../../src/wire/events.ts";
import { boundBehind, compareBounds } from "../../../src/wire/stateRange.ts";
import { serve } from "../../support/http/serve.ts";
import type { TestServer } from "../../support/http/serve.ts";
import { addSource, at, makeOrder, makeSnapshot, readAt } from "../../support/mirror/orders.ts";
import type { OrderSketch } from "../../support/mirror/orders.ts";
import { makeTestReport } from "../../support/mirror/report.ts";
import { makeTestDatabase } from "../../support/servers/database.ts";
import type { TestDatabase } from "../../support/servers/database.ts";
import { emptying } from "../../support/mirror/emptying.ts";

let database: TestDatabase;
let pool: Pool;
let server: TestServer;
let mirror: MirrorClient;
/** Runs before each answer of the mirror to a request for ranges, and once before it answers about changes. */
let beforeAnswer: () => Promise<void> = () => Promise.resolve();

beforeAll(async () => {
  database = await makeTestDatabase();
  pool = makePool({ url: database.url, purpose: "test", max: 4, statementTimeoutMs: 30_000 });
  const disturb: RequestHandler = async (_request, _response, next) => {
    await beforeAnswer();
    next();
  };
  server = await serve(disturb, makeTestReport({ pool }));
  mirror = createMirrorClient({ baseUrl: server.url, deadlineMs: 60_000 });
  await addSource(pool, "live");
});
afterAll(async () => {
  await server.close();
  await pool.end();
  await database.drop();
});
beforeEach(empty);

async function empty(): Promise<void> {
  beforeAnswer = () => Promise.resolve();
  await pool.query(emptying("orders history changes feed_removals poll_state erasures"));
}

const apply = () =>
  makeApply({ events: deliveryEvents, pool, logger: silentLogger, modes: new Map([["live", "live"]]) });

async function see(...orders: OrderSketch[]): Promise<void> {
  await apply().applyReads({
    sourceId: "live",
    via: "poll",
    snapshots: orders.map(makeSnapshot),
    time: readAt(0n),
  });
}

/** What happens to an order of the mirror. */
interface Deed {
  readonly number: number;
  readonly second: number;
  readonly kind: "seen" | "gone" | "erased";
}
const deed = fc.record({
  number: fc.nat(40),
  // Few, so that many orders share an updatedAt.
  second: fc.nat(12),
  kind: fc.constantFrom<Deed["kind"]>("seen", "seen", "seen", "seen", "gone", "erased"),
});

async function perform({ number, second, kind }: Deed): Promise<void> {
  const reference = `DO-${number}`;
  if (kind === "seen") await see({ reference, updatedAt: at(second), status: `status_${second}` });
  if (kind === "erased") await eraseOrder(pool, { sourceId: "live", reference });
  const horizon = parseInstant(at(second));
  if (kind === "gone")
    await applyAbsence(pool, { sourceId: "live", reference, via: "refetch", horizon, requestedAt: horizon });
}

const state = fc.record({
  number: fc.nat(40),
  second: fc.nat(12),
  status: fc.constantFrom("mine", "status_3", "status_5"),
});
/** A reader's own orders: some equal to the mirror's, some in other states, some that the mirror does not have. */
function makeReaderOrders(states: readonly { number: number; second: number; status: string }[]) {
  return states.map(({ number, second, status }) =>
    stateOf(makeOrder({ reference: `DO-${number}`, updatedAt: at(second), status }) as Order),
  );
}

async function readAll(): Promise<Record<string, Order>> {
  const orders: Record<string, Order> = {};
  for await (const order of mirror.orders()) orders[order.reference] = order;
  return orders;
}

/** The store's orders by reference. */
async function contentOf(
  store: ReturnType<typeof memoryOrders> | "postgres",
): Promise<Record<string, Order>> {
  if (store !== "postgres")
    return Object.fromEntries([...store.orders.values()].map(({ reference, order }) => [reference, order]));
  const { rows } = await pool.query<{ reference: string; order: Order }>(
    'select reference, "order" from order_mirror_orders',
  );
  return Object.fromEntries(rows.map(({ reference, order }) => [reference, order]));
}

/** Adds `count` orders to the mirror, some with the same updatedAt, without the work of applying them. */
async function fill(count: number, { note = "", perSecond = 3 } = {}): Promise<void> {
  await pool.query(
    `insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw,
       history_id, first_seen_via)
     select 'live', 'S' || n, mirror.nanos_of(t), true, 0, 1, sha256(convert_to('S' || n || $2, 'UTF8')), 'created', t,
       json_build_object('reference', 'S' || n, 'updatedAt', to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
         'note', $2), n, 'poll'
     from (select n, '2026-01-01T00:00:00Z'::timestamptz + n / $3::int * interval '1 s' as t from generate_series(1, $1::int) n) s`,
    [count, note, perSecond],
  );
}

describe("a reconciled store", () => {
  it("equals a full read, for any two sets, also while the mirror changes", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(deed, { maxLength: 60 }),
        fc.array(state, { maxLength: 60 }),
        fc.array(fc.array(deed, { maxLength: 3 }), { maxLength: 8 }),
        fc.boolean(),
        async (deeds, own, meanwhile, inPostgres) => {
          await empty();
          for (const each of deeds) await perform(each);
          const memory = memoryOrders();
          if (inPostgres) await pool.query("drop table if exists order_mirror_orders");
          const store: OrderStore = inPostgres ? postgresOrders(pool) : memory;
          const last = new Map(makeReaderOrders(own).map((order) => [order.reference, order]));
          await store.put([...last.values()]);
          const disturbances = meanwhile.values();
          beforeAnswer = async () => {
            for (const each of disturbances.next().value ?? []) await perform(each);
          };
          const { position } = await mirror.reconcile(store);
          beforeAnswer = () => Promise.resolve();
          for (const each of meanwhile.flat().slice(0, 3)) await perform(each);
          // Erasures are no changes; what follows the position is.
          for await (const change of mirror.changes({ after: position, follow: false })) {
            if (change.after === null) await store.remove([change.reference]);
            else await store.put([stateOf(change.after)]);
          }
          const erased = await pool.query<{ reference: string }>("select reference from mirror.erasures");
          const [expected, found] = [await readAll(), await contentOf(inPostgres ? "postgres" : memory)];
          for (const { reference } of erased.rows) {
            delete expected[reference];
            delete found[reference];
          }
          expect(found).toEqual(expected);
          // Quiet now: erasures, too, and the next one finds nothing.
          await mirror.reconcile(store);
          expect(await contentOf(inPostgres ? "postgres" : memory)).toEqual(await readAll());
          expect(await mirror.reconcile(store)).toMatchObject({ written: 0, removed: 0, requests: 2 });
        },
      ),
      { numRuns: 40 },
    );
  });

  it("finds every difference in large sets, also where many orders have one updatedAt", async () => {
    const touched = fc.array(fc.tuple(fc.nat(2_999), fc.constantFrom("lost", "other", "unknown")), {
      maxLength: 60,
    });
    for (const perSecond of [1, 700, 5_000]) {
      await empty();
      await fill(3_000, { perSecond });
      const store = memoryOrders();
      await mirror.reconcile(store);
      const known = [...store.orders.values()];
      expect(known.length).toBe(3_000);
      await fc.assert(
        fc.asyncProperty(touched, async (touches) => {
          const mine = memoryOrders(known);
          for (const [index, kind] of touches) {
            const order = known[index]!;
            if (kind === "lost") await mine.remove([order.reference]);
            if (kind === "other") await mine.put([{ ...order, hash: "ab".repeat(32) }]);
            if (kind === "unknown") await mine.put([{ ...order, reference: `X${index}` }]);
          }
          await mirror.reconcile(mine);
          expect(mine.orders).toEqual(store.orders);
        }),
        { numRuns: 10 },
      );
    }
  });

  it("equals the mirror at its position while writers commit all the time", async () => {
    for (let round = 0; round < 4; round += 1) {
      await empty();
      await fill(2_000);
      const store = memoryOrders();
      const seconds = { next: 0 };
      const state = { over: false };
      const write = async (writer: number) => {
        while (!state.over) {
          seconds.next += 1;
          const orders = Array.from({ length: 3 }, (_, each) => ({
            reference: `DO-${(seconds.next * 7 + each * 11) % 50}`,
            updatedAt: at(seconds.next),
            status: `by_${writer}`,
          }));
          await see(...orders);
        }
      };
      const writers = [write(1), write(2)];
      const { position } = await mirror.reconcile(store);
      const again = await mirror.reconcile(store);
      state.over = true;
      await Promise.all(writers);
      expect(position).not.toBe(again.position);
      for await (const change of mirror.changes({ after: again.position, follow: false }))
        await store.put([stateOf(change.after!)]);
      expect(await contentOf(store)).toEqual(await readAll());
    }
  });

  it("costs bytes and requests in proportion to the difference", async () => {
    await fill(20_000);
    const store = memoryOrders();
    const full = await mirror.reconcile(store);
    expect(full).toMatchObject({ written: 20_000, removed: 0 });
    expect(await contentOf(store)).toEqual(await readAll());
    // Pages of 5,000, and one for the changes meanwhile.
    expect(full.requests).toBeLessThan(10);
    expect(full.bytesSent).toBeLessThan(10_000);

    const none = await mirror.reconcile(store);
    expect(none).toMatchObject({ written: 0, removed: 0, requests: 2 });
    expect(none.bytesSent + none.bytesReceived).toBeLessThan(2_500);

    const other = (reference: string) => ({ ...store.orders.get(reference)!, hash: "ab".repeat(32) });
    await store.put([other("S500"), other("S12345"), { ...other("S9000"), reference: "unknown" }]);
    await store.remove(["S9001"]);
    const few = await mirror.reconcile(store);
    expect(few).toMatchObject({ written: 3, removed: 1 });
    expect(few.requests).toBeLessThan(7);
    expect(few.bytesSent + few.bytesReceived).toBeLessThan(20_000);
    expect(await contentOf(store)).toEqual(await readAll());
  });

  it("gets large orders in several answers", async () => {
    await fill(12, { note: "x".repeat(1_500_000) });
    const store = memoryOrders();
    const { requests } = await mirror.reconcile(store);
    expect(requests).toBeGreaterThan(5);
    expect(store.orders.size).toBe(12);
    const known = [...store.orders.values()];
    await store.put(known.map((order) => ({ ...order, hash: "ab".repeat(32) })));
    await mirror.reconcile(store);
    expect([...store.orders.values()].map(({ hash }) => hash)).toEqual(known.map(({ hash }) => hash));
    expect(await mirror.reconcile(store)).toMatchObject({ written: 0, removed: 0, requests: 2 });
  });

  it("says up to when it is complete, and continues with the changes", async () => {
    await see({ reference: "DO-1", updatedAt: at(1) });
    await pool.query(
      "insert into mirror.poll_state (source_id, safe_through) values ('live', 1772355600000000000)",
    );
    const store = memoryOrders();
    const result = await mirror.reconcile(store);
    expect(result).toMatchObject({ safeThrough: "2026-03-01T09:00:00Z", exceptions: 0, written: 1 });
    await see({ reference: "DO-1", updatedAt: at(2), status: "picked_up" });
    const changes = [];
    for await (const change of mirror.changes({ after: result.position, follow: false }))
      changes.push(change);
    expect(changes.map(({ reference, status }) => [reference, status])).toEqual([["DO-1", "picked_up"]]);
  });

  it("loses the personal data that the mirror has erased", async () => {
    await see({ reference: "DO-1", updatedAt: at(1), more: { note: "ring at Ann's" } });
    const store = memoryOrders();
    await mirror.reconcile(store);
    expect(JSON.stringify(store.orders.get("DO-1")?.order)).toContain("Ann");
    await eraseOrder(pool, { sourceId: "live", reference: "DO-1" });
    expect(await mirror.reconcile(store)).toMatchObject({ written: 1 });
    expect(JSON.stringify(store.orders.get("DO-1")?.order)).not.toContain("Ann");
    expect(await mirror.reconcile(store)).toMatchObject({ written: 0, requests: 2 });
  });

  it("refuses a store that does not keep what it is given", async () => {
    await see({ reference: "DO-1", updatedAt: at(1) });
    const forgetful: OrderStore = { ...memoryOrders(), put: () => Promise.resolve() };
    await expect(mirror.reconcile(forgetful)).rejects.toBeInstanceOf(StoreDiffersError);
  });
});

describe("stores", () => {
  it("in memory and in Postgres agree on sums, cuts and states of any ranges", async () => {
    const hash = fc
      .uint8Array({ minLength: 32, maxLength: 32 })
      .map((bytes) => Buffer.from(bytes).toString("hex"));
    const version = fc.oneof(
      fc.bigInt({ min: 0n, max: 3n }),
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 2n }),
    );
    const orders = fc.uniqueArray(
      fc.record({ reference: fc.string({ minLength: 1, maxLength: 3 }), version, hash }),
      { selector: ({ reference }) => reference, maxLength: 40 },
    );
    const anyBound = fc.oneof(fc.record({ version, hash: fc.constant("") }), fc.record({ version, hash }));
    await pool.query('drop table if exists "Shop ""1"""');
    await fc.assert(
      fc.asyncProperty(
        orders,
        fc.array(fc.tuple(anyBound, anyBound), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 2, max: 5 }),
        async (drawn, pairs, parts) => {
          const stored = drawn
            .filter(({ reference }) => !reference.includes("\0"))
            .map((each): StoredOrder => ({ ...each, order: { reference: each.reference } as Order }));
          const ranges = pairs.map(([a, b]) =>
            compareBounds(a, b) < 0 ? { since: a, until: b } : { since: b, until: boundBehind(a) },
          );
          const [memory, postgres] = [memoryOrders(stored), postgresOrders(pool, 'Shop "1"')];
          await postgres.states(ranges);
          await pool.query('truncate "Shop ""1"""');
          await postgres.put(stored);
          const salt = randomBytes(16).toString("hex");
          expect(await postgres.sums(ranges, salt)).toEqual(await memory.sums(ranges, salt));
          const identify = (lists: Awaited<ReturnType<OrderStore["states"]>>) =>
            lists.map((list) => list.map(({ reference }) => reference));
          expect(identify(await postgres.states(ranges))).toEqual(identify(await memory.states(ranges)));
          const cuts = await memory.cuts(ranges, parts);
          expect((await postgres.cuts(ranges, parts)).map((list) => list.length)).toEqual(
            cuts.map((list) => list.length),
          );
          for (const store of [memory, postgres]) {
            const found = await store.cuts(ranges, parts);
            for (const [index, bounds] of found.entries()) {
              if (bounds.length === 0) continue;
              const { since, until } = ranges[index]!;
              const ends = [since, ...bounds, until];
              const pieces = ends.slice(1).map((end, part) => ({ since: ends[part]!, until: end }));
              for (const { count } of await store.sums(pieces, salt)) expect(count).toBeGreaterThan(0);
            }
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
