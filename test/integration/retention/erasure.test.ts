import path from "node:path";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import fc from "fast-check";
import type pg from "pg";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import type { Via } from "../../../src/domain/order/observation.ts";
import { parseInstant } from "../../../src/domain/order/instant.ts";
import { eraseOrder } from "../../../src/retention/erasure.sql.ts";
import { removeEvents, removeHistory } from "../../../src/retention/retention.sql.ts";
import { countQuarantined, replayQuarantined } from "../../../src/quarantine/replay.sql.ts";
import { asPool } from "../../support/servers/asPool.ts";
import { runCommand } from "../../support/programs/command.ts";
import { openTestDatabase } from "../../support/servers/database.ts";
import { makeLiveApply } from "../../support/mirror/liveApply.ts";
import {
  addSource,
  at,
  makeEventBody,
  makeSnapshot,
  putIntoInbox,
  readAt,
} from "../../support/mirror/orders.ts";
import { removeOlder } from "../../support/mirror/retention.ts";
import { emptying } from "../../support/mirror/emptying.ts";
import type { Pool } from "../../../src/database/database.ts";

/** Everything in the database that holds `text`, as table names; bytes are searched as well, also as UTF-16. */
async function findAnywhere(pool: Pool, text: string): Promise<string[]> {
  const { rows: tables } = await pool.query<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname not in ('pg_catalog', 'information_schema') order by 1",
  );
  const forms = [text, Buffer.from(text).toString("hex"), Buffer.from(text, "utf16le").toString("hex")];
  const found: string[] = [];
  for (const { name } of tables) {
    const { rows } = await pool.query(
      `select 1 from ${name} t where exists (select from unnest($1::text[]) form where position(form in t::text) > 0) limit 1`,
      [forms],
    );
    if (rows.length > 0) found.push(name);
  }
  return found;
}

const { database, pool } = await openTestDatabase({ statementTimeoutMs: 20_000 });

await addSource(pool, "live");

/** Everything that happens to orders and events is removed before each test. */
const empty = () =>
  pool.query(
    emptying("orders history changes pending quarantine refetches inbox erasures retention_walks", {
      restartsIdentity: true,
    }),
  );
beforeEach(empty);
const { applyEvents, applyReads } = makeLiveApply(pool);
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
const sketch = (reference: string, version: number, status = "created") => ({
  reference,
  updatedAt: at(version),
  status,
  more: personal(reference),
});

const UNDATED = { updatedAt: "some day" };

let events = 0;
async function tell(body: Buffer): Promise<number[]> {
  events += 1;
  return putIntoInbox(pool, [{ eventId: `evt_${events}`, body }]);
}

type Step =
  | { readonly do: "tell"; readonly apply: boolean }
  | { readonly do: "read"; readonly via: Exclude<Via, "webhook"> }
  | { readonly do: "unreadable" | "wrong mode" | "replay" };
type Placed = Step & { readonly reference: string; readonly version: number; readonly status: string };

async function take(step: Placed): Promise<void> {
  const order = sketch(step.reference, step.version, step.status);
  switch (step.do) {
    case "tell": {
      const seqs = await tell(makeEventBody({ id: "e", order }));
      if (step.apply) await applyEvents(seqs);
      return;
    }
    case "read":
      await applyReads({
        sourceId: "live",
        via: step.via,
        snapshots: [makeSnapshot(order)],
        unreadable: [
          {
            raw: JSON.stringify({ ...personal(step.reference), ...UNDATED, reference: step.reference }),
            detail: "x",
            reference: step.reference,
          },
        ],
        time: readAt(parseInstant(at(step.version + 100)), 5),
      });
      return;
    case "unreadable": {
      const text = makeEventBody({ id: "e", order }).toString().replaceAll("updatedAt", "changedAt");
      await applyEvents(await tell(Buffer.from(text)));
      return;
    }
    case "wrong mode":
      await applyEvents(await tell(makeEventBody({ id: "e", livemode: false, order })));
      return;
    case "replay": {
      const filter = { quarantineId: null, sourceId: null, reason: null };
      const { throughId } = await countQuarantined(pool, filter);
      if (throughId === null) return;
      const { seqs } = await replayQuarantined(pool, { filter, throughId, limit: 100 });
      await applyEvents(seqs);
      return;
    }
  }
}

const placed = fc.record({
  reference: fc.constantFrom("ORD-1", "ORD-12"),
  version: fc.integer({ min: 1, max: 4 }),
  status: fc.constantFrom("created", "picked_up", "cancelled"),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant("tell" as const), apply: fc.boolean() }),
  fc.record({
    do: fc.constant("read" as const),
    via: fc.constantFrom<Exclude<Via, "webhook">>("poll", "backfill", "refetch", "verify", "write"),
  }),
  fc.record({ do: fc.constantFrom("unreadable" as const, "wrong mode" as const, "replay" as const) }),
);
const steps = fc.array(
  fc.tuple(step, placed).map(([one, where]): Placed => ({ ...one, ...where })),
  { maxLength: 8 },
);

const FIRST = { do: "tell", apply: true, reference: "ORD-1", version: 1, status: "created" } as const;

/** Works in a transaction that is committed once what was begun meanwhile waits for it. */
async function beside(
  work: (client: pg.PoolClient) => Promise<unknown>,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const client = await pool.connect();
  await client.query("begin");
  await work(client);
  const waiting = meanwhile();
  await vi.waitUntil(
    async () =>
      (await pool.query("select from pg_locks where not granted and relation = 'mirror.orders'::regclass"))
        .rowCount === 1,
    { timeout: 60_000 },
  );
  await client.query("commit");
  client.release();
  await waiting;
}

describe("an erased order", () => {
  it("leaves no personal data anywhere, before or after the erasure, and other orders keep theirs", async () => {
    await fc.assert(
      fc.asyncProperty(steps, steps, async (before, after) => {
        await empty();
        const other: Placed = { do: "tell", apply: true, reference: "ORD-12", version: 9, status: "created" };
        for (const one of [other, ...before]) await take(one);
        await erase();
        for (const one of after) await take(one);
        const { rows } = await pool.query<{ seq: string }>("select seq from mirror.pending order by seq");
        await applyEvents(rows.map(({ seq }) => Number(seq)));
        expect(await findAnywhere(pool, secretOf("ORD-1"))).toEqual([]);
        expect(await findAnywhere(pool, secretOf("ORD-12"))).toEqual(
          expect.arrayContaining(["mirror.inbox", "mirror.orders"]),
        );
        const read = await pool.query<{ of: string; said: boolean }>(
          `select distinct reference as of, raw::text like '%personal-' || reference || '-data%' as said
           from mirror.snapshots where raw is not null order by reference`,
        );
        expect(read.rows.every(({ of, said }) => said === (of === "ORD-12"))).toBe(true);
        expect(read.rows.some(({ said }) => said)).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it("keeps reference, status and times, and its key only grows", async () => {
    await applyEvents(await tell(makeEventBody({ id: "e", order: sketch("ORD-1", 1) })));
    await erase();
    await applyEvents(await tell(makeEventBody({ id: "e", order: sketch("ORD-1", 2, "picked_up") })));
    await applyEvents(await tell(makeEventBody({ id: "e", order: sketch("ORD-1", 1) })));
    const { rows } = await pool.query<{ status: string; revision: number; raw: Record<string, unknown> }>(
      "select status, revision, raw, external_order_id, pickup_time from mirror.orders",
    );
    expect(rows).toMatchObject([
      {
        status: "picked_up",
        revision: 2,
        external_order_id: null,
        pickup_time: "2026-03-01 09:20:00+00",
        raw: {
          reference: "ORD-1",
          externalOrderId: null,
          status: "picked_up",
          updatedAt: at(2),
          fleet: { name: "Northside Couriers" },
          erased: true,
        },
      },
    ]);
    const { rows: changes } = await pool.query(
      "select status, revision from mirror.changes order by position",
    );
    expect(changes).toEqual([
      { status: "created", revision: 1 },
      { status: "picked_up", revision: 2 },
    ]);
  });

  it("is not restored by a repeated event, and a repeated read writes nothing", async () => {
    const body = makeEventBody({ id: "e", order: sketch("ORD-1", 1) });
    await applyEvents(await putIntoInbox(pool, [{ eventId: "evt_same", body }]));
    await erase();
    expect(await putIntoInbox(pool, [{ eventId: "evt_same", body }])).toEqual([]);
    const read: Placed = { ...FIRST, do: "read", via: "poll" };
    await take(read);
    const dump = async () =>
      (
        await pool.query(
          "select (select json_agg(o) from mirror.orders o)::text as o, (select count(*) from mirror.history) as h",
        )
      ).rows;
    const settled = await dump();
    await take(read);
    expect(await dump()).toEqual(settled);
  });

  it("stays erased when a batch is in progress", async () => {
    const snapshots = [makeSnapshot(sketch("ORD-1", 1))];
    const time = readAt(parseInstant(at(1)), 5);
    await beside(
      (client) =>
        makeLiveApply(asPool(client)).applyReads({ sourceId: "live", via: "poll", snapshots, time }),
      () => erase(),
    );
    expect(await findAnywhere(pool, secretOf("ORD-1"))).toEqual([]);
  });

  it("is redacted by a batch that waited for the erasure", async () => {
    await beside(
      (client) =>
        client.query(`lock table mirror.orders in share row exclusive mode;
          insert into mirror.erasures (source_id, reference) values ('live', 'ORD-1')`),
      () => take(FIRST),
    );
    expect(await findAnywhere(pool, secretOf("ORD-1"))).toEqual([]);
  });

  it("leaves nothing when retention removes its events at the same time", async () => {
    for (let round = 0; round < 20; round += 1) {
      const reference = `ORD-R${round}`;
      for (const version of [1, 2, 3])
        await applyEvents(await tell(makeEventBody({ id: "e", order: sketch(reference, version) })));
      await Promise.all([erase(reference), removeOlder(pool, [removeEvents], { keptDays: -1, limit: 2 })]);
      expect(await findAnywhere(pool, secretOf(reference))).toEqual([]);
    }
    const { rows } = await pool.query(
      "select raw ->> 'erased' as erased, count(*)::int as observations from mirror.snapshots group by 1",
    );
    expect(rows).toEqual([{ erased: "true", observations: 60 }]);
  });

  it("is erased from an event whose decision is no longer in the history", async () => {
    for (const reference of ["ORD-1", "ORD-12"])
      for (const version of [1, 2])
        await take({ do: "tell", apply: true, reference, version, status: `status ${version}` });
    expect(await removeOlder(pool, [removeHistory], { keptDays: -1 })).toMatchObject({ removed: 2 });
    expect(await erase()).toMatchObject({ events: 2 });
    expect(await findAnywhere(pool, secretOf("ORD-1"))).toEqual([]);
    expect(await pool.query("select seq from mirror.inbox where body <> '{\"erased\":true}'")).toMatchObject({
      rowCount: 2,
    });
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

  it("erases only with --yes, and previews by the merchant's order id", async () => {
    await take(FIRST);
    const asked = await run("ORD-1");
    expect(asked).toMatchObject({ code: 2, stderr: expect.stringContaining("--yes") as unknown });
    const look = await run(secretOf("ORD-1"), "--dry-run", "--json");
    expect(JSON.parse(look.stdout)).toMatchObject({
      sourceId: "live",
      reference: "ORD-1",
      found: { observations: 1, events: 1, quarantined: 0 },
      erased: null,
    });
    expect(await findAnywhere(pool, secretOf("ORD-1"))).not.toEqual([]);
    const done = await run("ORD-1", "--yes", "--json");
    expect(done.code).toBe(0);
    expect(JSON.parse(done.stdout)).toMatchObject({
      erased: { observations: 1, events: 1, quarantined: 0 },
    });
    expect(await findAnywhere(pool, secretOf("ORD-1"))).toEqual([]);
  });

  it("removes the requests that CAPTURE_REFUSED stored, which may be about the person", async () => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "order-mirror-erase-"));
    onTestFinished(() => rm(dataDir, { recursive: true }));
    const folder = path.join(dataDir, "refused-requests");
    await mkdir(folder);
    for (const name of ["1-a.json", "2-b"]) await writeFile(path.join(folder, name), secretOf("ORD-1"));
    await take(FIRST);
    const erase = (...args: string[]) =>
      runCommand(["erase", "ORD-1", ...args], { databaseUrl: database.url, env: { DATA_DIR: dataDir } });
    await erase("--dry-run");
    expect(await readdir(folder)).toHaveLength(2);
    expect(await erase("--yes")).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("2 refused requests") as unknown,
    });
    expect(await readdir(folder)).toEqual([]);
  });

  it("names another source that has input about the order", async () => {
    await addSource(pool, "test");
    await take(FIRST);
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
    expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("--source") as unknown });
    const kept = await run("ORD-9", "--source", "live", "--yes");
    expect(kept.code).toBe(0);
    await take({ do: "tell", apply: true, reference: "ORD-9", version: 1, status: "created" });
    expect(await findAnywhere(pool, secretOf("ORD-9"))).toEqual([]);
  });
});
