import path from "node:path";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import fc from "fast-check";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { countQuarantined, replayQuarantined } from "../../../src/apply/quarantine.sql.ts";
import { asPool, beside } from "../../support/servers/database.ts";
import { runCommand } from "../../support/programs/command.ts";
import { makeLiveApply, makeObserver } from "../../support/mirror/liveApply.ts";
import { openLiveMirror } from "../../support/mirror/liveMirror.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { EMPTY_MIRROR } from "../../support/mirror/tables.ts";

const { database, pool, apply, read, tell } = await openLiveMirror();
const { applyEvents } = apply;
const empty = () => pool.query(EMPTY_MIRROR);
beforeEach(empty);
const erase = (reference = "ORD-1") => eraseOrder(pool, { sourceId: "live", reference });

/** The personal data of an order: in fields of the provider's contract, and in one that it may add later. */
const secretOf = (reference: string) => `personal-${reference}-data`;
function personal(reference: string) {
  const secret = secretOf(reference);
  return {
    externalOrderId: secret,
    customer: { firstName: secret, phone: secret, address: { street: secret } },
    fleet: { name: "Northside Couriers", note: secret },
    addedLater: [{ deeply: { nested: secret } }],
  };
}
const sketch = (reference = "ORD-1", version = 1, status = "created") => ({
  reference,
  updatedAt: at(version),
  status,
  more: personal(reference),
});

/** Selects the names of all tables with a row that contains one of the texts. */
const { rows: places } = await pool.query<{ search: string }>(
  `select string_agg(format('select %L as name where exists (select from %I.%I t, unnest($1::text[]) form
     where position(form in t::text) > 0)', schemaname || '.' || tablename, schemaname, tablename), ' union all ') as search
   from pg_tables where schemaname not in ('pg_catalog', 'information_schema')`,
);

/** The tables that hold the personal data of the order, also as bytes and as UTF-16. */
async function findAnywhere(reference = "ORD-1"): Promise<string[]> {
  const secret = secretOf(reference);
  const forms = [
    secret,
    ...(["utf8", "utf16le"] as const).map((as) => Buffer.from(secret, as).toString("hex")),
  ];
  const { rows } = await pool.query<{ name: string }>(`${places[0]!.search} order by 1`, [forms]);
  return rows.map(({ name }) => name);
}

let bodies = 0;
const put = (body: Buffer | string) =>
  putIntoInbox(pool, [{ eventId: `body_${(bodies += 1)}`, body: Buffer.from(body) }]);
const EVERYTHING = { quarantineId: null, sourceId: null, reason: null };
type Order = ReturnType<typeof sketch>;

/** A read that shows the order, and another state of it that cannot be read. */
const readBy = (via: "poll" | "backfill" | "refetch" | "verify" | "write") => (order: Order) => {
  const { reference } = order;
  const raw = JSON.stringify({ ...order.more, reference, updatedAt: "some day" });
  return apply.applyReads({
    sourceId: "live",
    via,
    snapshots: [makeSnapshot(order)],
    unreadable: [{ raw, detail: "x", reference }],
    time: readAt(parseInstant(order.updatedAt) + 100_000_000_000n, 5),
  });
};
/** Everything that brings data of an order. */
const WAYS: readonly ((order: Order) => Promise<unknown>)[] = [
  ...(["poll", "backfill", "refetch", "verify", "write"] as const).map(readBy),
  (order) => tell(order),
  (order) => put(makeEventBody({ id: "e", order })),
  async (order) =>
    applyEvents(await put(makeEventBody({ id: "e", order }).toString().replaceAll("updatedAt", "changedAt"))),
  async (order) => applyEvents(await put(makeEventBody({ id: "e", livemode: false, order }))),
  async () => {
    const { throughId } = await countQuarantined(pool, EVERYTHING);
    if (throughId === null) return;
    const { seqs } = await replayQuarantined(pool, { filter: EVERYTHING, throughId, limit: 100 });
    await applyEvents(seqs);
  },
];
const steps = fc.array(
  fc.record({
    come: fc.constantFrom(...WAYS),
    order: fc
      .tuple(
        fc.constantFrom("ORD-1", "ORD-12"),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom("created", "picked_up", "cancelled"),
      )
      .map((parts) => sketch(...parts)),
  }),
  { maxLength: 8 },
);

describe("an erased order", () => {
  it("leaves no personal data anywhere, before or after the erasure, and other orders keep theirs", async () => {
    await fc.assert(
      fc.asyncProperty(steps, steps, async (before, after) => {
        await empty();
        await tell(sketch("ORD-12", 9));
        for (const { come, order } of before) await come(order);
        await erase();
        for (const { come, order } of after) await come(order);
        const { rows } = await pool.query<{ seq: string }>("select seq from mirror.pending order by seq");
        await applyEvents(rows.map(({ seq }) => Number(seq)));
        expect(await findAnywhere()).toEqual([]);
        expect(await findAnywhere("ORD-12")).toEqual(
          expect.arrayContaining(["mirror.inbox", "mirror.orders"]),
        );
        const read = await pool.query<{ of: string; said: boolean }>(
          `select distinct reference as of, raw::text like '%personal-' || reference || '-data%' as said
           from mirror.snapshots where raw is not null order by reference`,
        );
        expect(read.rows.every(({ of, said }) => said === (of === "ORD-12"))).toBe(true);
        expect(read.rows.some(({ said }) => said)).toBe(true);
      }),
      { numRuns: 25 },
    );
  });

  it("keeps reference, status and times, its key only grows, and a repeated read or event writes nothing", async () => {
    await tell(sketch());
    await tell(sketch("ORD-1", 2, "picked_up"), { eventId: "evt_same" });
    // A scheme may read headers of any kind.
    await pool.query("update mirror.inbox set headers = json_build_object('x-for', $1::text)", [
      secretOf("ORD-1"),
    ]);
    await erase();
    expect(await findAnywhere()).toEqual([]);
    await tell(sketch());
    const readAgain = () => readBy("poll")(sketch("ORD-1", 2, "picked_up"));
    await readAgain();
    const dump = () => read("select o.*, (select count(*) from mirror.history) as h from mirror.orders o");
    const settled = await dump();
    expect(settled).toMatchObject([
      {
        status: "picked_up",
        revision: 2,
        external_order_id: null,
        pickup_time: "2026-03-01 09:20:00+00",
        raw: {
          reference: "ORD-1",
          externalOrderId: null,
          updatedAt: at(2),
          fleet: { name: "Northside Couriers" },
          erased: true,
        },
      },
    ]);
    await readAgain();
    expect(await tell(sketch("ORD-1", 2, "picked_up"), { eventId: "evt_same" })).toEqual([]);
    expect(await dump()).toEqual(settled);
  });

  it("stays erased when a batch is in progress", async () => {
    await beside(
      pool,
      (client) => {
        const connection = asPool(client);
        return makeObserver(connection, makeLiveApply(connection)).show(parseInstant(at(1)), [sketch()]);
      },
      erase,
    );
    expect(await findAnywhere()).toEqual([]);
  });

  it("is redacted by a batch that waited for the erasure", async () => {
    await beside(
      pool,
      (client) =>
        client.query(`lock table mirror.orders in share row exclusive mode;
          insert into mirror.erasures (source_id, reference) values ('live', 'ORD-1')`),
      () => tell(sketch()),
    );
    expect(await findAnywhere()).toEqual([]);
  });

  it("leaves nothing when retention removes its events at the same time", async () => {
    for (let round = 0; round < 10; round += 1) {
      const reference = `ORD-R${round}`;
      for (const version of [1, 2, 3]) await tell(sketch(reference, version));
      const pass = { keptFor: { eventsKeptFor: "P1D" }, aheadDays: 2, stepRows: 2 };
      await Promise.all([erase(reference), removeOlder(pool, pass)]);
      expect(await findAnywhere(reference)).toEqual([]);
    }
    const { rows } = await pool.query(
      "select raw ->> 'erased' as erased, count(*)::int as observations from mirror.snapshots group by 1",
    );
    expect(rows).toEqual([{ erased: "true", observations: 30 }]);
  });

  it("is erased from an event whose decision is no longer in the history", async () => {
    await addSource(pool, "test");
    const pass = { keptFor: { historyKeptFor: "P1D" }, aheadDays: 2 };
    const remove = async () => expect(await removeOlder(pool, pass)).toMatchObject({ removed: 2 });
    for (const isLate of [false, true]) {
      await empty();
      for (const reference of ["ORD-1", "ORD-12"])
        for (const version of [1, 2]) await tell(sketch(reference, version, `status ${version}`));
      await putIntoInbox(pool, [{ sourceId: "test", eventId: "t", body: Buffer.from('{"of":"ORD-1"}') }]);
      await pool.query("delete from mirror.pending");
      const waiting = await put(makeEventBody({ id: "w", order: sketch("ORD-1", 3, "status 3") }));
      if (!isLate) await remove();
      // Late: when the erasure has looked for its events, and does not have its lock yet.
      const connect = () => (isLate ? remove() : Promise.resolve()).then(() => pool.connect());
      const watched = { query: pool.query.bind(pool), connect } as unknown as typeof pool;
      expect(await eraseOrder(watched, { sourceId: "live", reference: "ORD-1" })).toMatchObject({
        events: 2,
      });
      expect(await applyEvents(waiting)).toMatchObject([{ verdict: "applied", status: "status 3" }]);
      expect(await findAnywhere()).toEqual([]);
      const others = await pool.query(`select seq from mirror.inbox where body <> '{"erased":true}'`);
      expect(others.rowCount).toBe(3);
    }
  });

  it("is reported as unavailable when the orders stay locked for too long", async () => {
    const client = await pool.connect();
    await client.query("begin");
    await client.query("lock table mirror.orders in share update exclusive mode");
    const erasing = erase();
    await expect(erasing).rejects.toMatchObject({ name: "UnavailableError", retry: "later" });
    await client.query("rollback");
    client.release();
    expect((await pool.query("select 1 from mirror.erasures")).rows).toEqual([]);
  });
});

describe("the command", () => {
  const run = (...args: string[]) => runCommand(["erase", ...args], { databaseUrl: database.url });

  it("erases only with --yes, and the requests that CAPTURE_REFUSED stored, too; previews by the merchant's order id", async () => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-erase-"));
    onTestFinished(() => rm(dataDir, { recursive: true }));
    const folder = path.join(dataDir, "refused-requests");
    await mkdir(folder);
    for (const name of ["live.ndjson", "test.ndjson"])
      await writeFile(path.join(folder, name), secretOf("ORD-1"));
    const runThere = (...args: string[]) =>
      runCommand(["erase", ...args], { databaseUrl: database.url, env: { DATA_DIR: dataDir } });
    await tell(sketch());
    const asked = await runThere("ORD-1");
    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining("--yes") as unknown });
    const look = await runThere(secretOf("ORD-1"), "--dry-run", "--json");
    const found = { observations: 1, events: 1, quarantined: 0 };
    const previewed = { sourceId: "live", reference: "ORD-1", found, erased: null };
    expect(JSON.parse(look.stdout)).toMatchObject(previewed);
    expect(await findAnywhere()).not.toEqual([]);
    expect(await readdir(folder)).toHaveLength(2);
    const done = await runThere("ORD-1", "--yes", "--json");
    expect(JSON.parse(done.stdout)).toMatchObject({ erased: found });
    expect(done.stderr).toContain("refused requests of 2 sources");
    expect([done.code, await findAnywhere(), await readdir(folder)]).toEqual([0, [], []]);
  });

  it("names another source that has input about the order", async () => {
    await addSource(pool, "test");
    await tell(sketch());
    await pool.query(
      "insert into mirror.quarantine (source_id, via, reference, reason) values ('test', 'webhook', 'ORD-1', 'wrong_mode')",
    );
    expect(await run("ORD-1", "--source", "live", "--yes")).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("order-mirror erase --source test ORD-1") as unknown,
    });
  });

  it("explains what to do about an unknown order", async () => {
    const unknown = await run("ORD-9", "--yes");
    expect(unknown).toMatchObject({ code: 3, stderr: expect.stringContaining("--source") as unknown });
    const kept = await run("ORD-9", "--source", "live", "--yes");
    expect(kept.code).toBe(0);
    await tell(sketch("ORD-9"));
    expect(await findAnywhere("ORD-9")).toEqual([]);
  });
});
