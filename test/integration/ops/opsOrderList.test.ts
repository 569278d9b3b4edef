import { describe, expect, it } from "vitest";
import { openOpsPages } from "../../support/pages/opsServer.ts";
import { fillMirror } from "../../support/pages/opsMirror.ts";

const { database, read: readAs, renew } = await openOpsPages({ max: 3 });

await fillMirror(database.pool);
await database.pool.query(
  "insert into mirror.sources (source_id, mode, base_url) values ('test', 'test', '')",
);
await database.pool.query(`
    insert into mirror.branches (source_id, branch_id, reference, name, raw)
    values ('test', 'b1', 'centre', 'Centre', '{}')`);
await database.pool.query(`
    insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, external_order_id,
      status, fleet_name, branch_id, branch_reference, pickup_time, delivery_time, real_delivery_time, updated_at, raw,
      history_id, first_seen_via)
    select 'test', 'T-' || lpad(n::text, 3, '0'), mirror.nanos_of(t), n % 5 <> 0, mirror.nanos_of(t), 5,
      sha256(n::text::bytea), case when n = 7 then '=1+1' else 'Shop/' || n end,
      'delivered', 'Fleet ' || n % 2, case when n % 3 = 0 then 'b1' end, case when n % 3 = 0 then 'centre' end,
      t - interval '30 min', t, t + n % 2 * interval '1 h', t, '{}', n, 'poll'
    from (select n, clock_timestamp() - n * interval '10 min' - interval '1 h' as t from generate_series(1, 121) n) s;
    -- The provider no longer has it: it is in no list and no count.
    update mirror.orders set gone_at = now(), horizon = version where reference = 'T-121'`);
await database.pool.query(`
    insert into mirror.history (source_id, reference, via, verdict, status)
    values ('test', 'T-004', 'refetch', 'corrected', 'delivered')`);
const read = async (address: string) => {
  const { status, headers, page } = await readAs(address, "viewer");
  const references = [
    ...page.matchAll(/<a class="name ref" href="\/ops\/orders\/[^"]+" data-copy="([^"]+)"/g),
  ].map(([, name]) => name);
  const count = /id="count" class="dim">([^<]*)</.exec(page)?.[1];
  const next = /href="([^"]+)" rel="next"/.exec(page)?.[1]?.replaceAll("&amp;", "&");
  return { status, headers, page, references, count, next };
};

describe("the list of orders", () => {
  it("is the first page for a viewer, and the overview for an operator", async () => {
    expect((await readAs("/ops/start", "viewer")).to).toBe("/ops/orders");
    expect((await readAs("/ops/start")).to).toBe("/ops");
  });

  it.each([
    ["", 141],
    ["?source=test", 120],
    ["?source=test&fleet=Fleet+1", 60],
    ["?branch=b1", 40],
    ["?status=created", 20],
    ["?is=late", 21],
    ["?is=late&source=test", 0],
    ["?is=unverified&source=test", 24],
    ["?is=corrected", 1],
    ["?is=open&source=test", 0],
    ["?within=24h&source=test", 120],
    ["?from=2020-01-01T00%3A00&until=2020-01-02T00%3A00", 0],
    ["?within=24h&until=2020-01-01T00%3A00&source=test", 120],
    ["?of=delivery&within=1h&source=test", 0],
    ["?of=delivery&within=24h&source=test", 120],
    ["?q=t-00", 9],
    ["?q=SHOP%2F11", 11],
    ["?q=%3D1%2B", 1],
    ["?status[]=x&sort=worst&dir=sideways&after=~&within=never", 141],
  ])("counts what %s selects: %i", async (address, expected) => {
    const { status, count } = await read(`/ops/orders${address}`);
    expect({ status, count }).toEqual({ status: 200, count: expect.stringMatching(`^${expected} order`) });
  });

  it.each(["", "sort=updated&dir=up", "sort=delivery", "sort=delivery&dir=up"])(
    "has each order once on the pages sorted by %s",
    async (sorting) => {
      const all: string[] = [];
      let address: string | undefined = `/ops/orders?source=test&${sorting}`;
      let pages = 0;
      for (; address !== undefined; pages += 1) {
        const page = await read(address);
        all.push(...(page.references as string[]));
        address = page.next;
      }
      expect(pages).toBe(3);
      expect(new Set(all).size).toBe(120);
      const sorted = sorting.includes("dir=up") ? all : all.toReversed();
      expect(sorted).toEqual(all.toSorted().toReversed());
    },
  );

  it("calls late what was late when its source was last read, the most overdue first, and counts each view", async () => {
    const minutes = (count: number) => `clock_timestamp() - interval '${count} minutes'`;
    await database.pool.query(`
      insert into mirror.poll_state (source_id, polled_through) values ('test', mirror.nanos_of(${minutes(60)}))
        on conflict (source_id) do update set polled_through = excluded.polled_through;
      update mirror.orders set real_delivery_time = null, status = 'on_hold', delivery_time = ${minutes(70)} where reference = 'T-001';
      update mirror.orders set real_delivery_time = null, status = 'picked_up', delivery_time = ${minutes(90)} where reference = 'T-002';
      -- Was due after the last read: it may have come.
      update mirror.orders set real_delivery_time = null, status = 'picked_up', delivery_time = ${minutes(58)} where reference = 'T-003'`);
    renew();
    const { references, page } = await read("/ops/orders?is=late&source=test&sort=delivery&dir=up");
    expect(references).toEqual(["T-002", "T-001"]);
    const views = /id="views"[^]*?<\/nav>/.exec(page)?.[0] ?? "";
    expect(views.match(/many alert">\d+/g)).toEqual(['many alert">2']);
    expect(views.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ")).toContain(
      "All 120 Late now 2 Open 3 Not verified 24",
    );
  });

  it("exports all columns, with formulas disabled", async () => {
    const { headers, page } = await read("/ops/orders.csv?q=%3D1%2B1&after=1&after=test&after=T");
    expect(headers.get("content-type")).toContain("text/csv");
    expect(headers.get("content-disposition")).toMatch(/^attachment; filename=orders-\d{4}-\d\d-\d\d\.csv$/);
    expect(page).toMatch(/^source_id,reference,external_order_id,.*\r\ntest,T-007,'=1\+1,delivered,.*\r\n$/);
  });

  it("says how many there are only where that was counted", async () => {
    const run = (statement: string) => database.pool.query(statement);
    await run(`insert into mirror.history (source_id, reference, via, verdict, status)
      select 'test', 'T-' || lpad(n::text, 3, '0'), 'refetch', 'corrected', 'delivered' from generate_series(10, 70) n`);
    const first = await read("/ops/orders?is=corrected");
    expect([first.count, (await read(first.next ?? "")).count]).toEqual([
      "50 shown; there are more",
      "12 shown; there are more",
    ]);
    await run(`insert into mirror.orders select (jsonb_populate_record(o, jsonb_build_object('reference', 'X-' || n))).*
      from mirror.orders o, generate_series(1, 10001) n where o.reference = 'T-009'`);
    expect((await read("/ops/orders?source=test&q=X-")).page).toContain(
      "10,000+ orders; 50 shown; a file has 10,000, <code>order-mirror export</code> all",
    );
    // Counting takes too long.
    await run(`create or replace function mirror.is_open(status text, real_delivery_time timestamptz) returns boolean
      language plpgsql as $$ begin perform pg_sleep(9); return true; end $$`);
    expect((await read("/ops/orders?source=test&q=t-00")).count).toBe("9 orders; 9 shown");
    expect((await read("/ops/orders?source=test")).count).toBe("50 shown; there are more");
  });

  it("finds an event by its id", async () => {
    expect((await read("/ops/orders?q=evt_bad")).page).toContain('href="/ops/events/live/evt_bad"');
  });
});
