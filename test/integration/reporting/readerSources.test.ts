import { afterAll, describe, expect, it } from "vitest";
import { addSource, at } from "../../support/mirror/orders.ts";
import { makeReader, readAs } from "../../support/mirror/reporting.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

const { database } = await openTestDatabase();

/** A row of everything that a view shows, in each of two sources. */
await addSource(database.pool, "live");
await addSource(database.pool, "test", "test");
await database.pool.query(
  `insert into mirror.branches (source_id, branch_id, name, raw) select source_id, 'b', 'of ' || source_id, '{}' from mirror.sources;
     insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, branch_id,
       pickup_time, real_pickup_time, updated_at, raw, history_id, first_seen_via)
     select source_id, 'of ' || source_id, mirror.nanos_of('${at(0)}'), true, 0, 1, '', 'created', 'b', '${at(0)}', '${at(0)}',
       '${at(0)}', '{}', 1, 'poll' from mirror.sources;
     insert into mirror.orders (source_id, reference, version, settled, observed_at, rank, hash, status, updated_at, raw, history_id,
       first_seen_via, gone_at)
     select source_id, source_id, 1, true, 0, 1, '', 'created', '${at(0)}', '{}', 1, 'poll', now() from mirror.sources;
     insert into mirror.history (source_id, reference, via, verdict, version, settled, observed_at, rank, hash, status, raw)
     select source_id, reference, 'poll', 'applied', version, true, 0, 1, '', status, '{}' from mirror.orders;
     insert into mirror.poll_state (source_id, history_since, safe_through) select source_id, 0, 1000 from mirror.sources;
     insert into mirror.coverage (source_id, since, until, sweep, proved, fence, requests, orders)
     select source_id, 5000, 6000, 'kept', true, 1, 1, 1 from mirror.sources;
     insert into mirror.coverage_breaches (source_id, since, until, kind, reference, version, found_by, detail)
     select source_id, 1, 2, 'missed_change', 'of ' || source_id, 1, 'poll', '' from mirror.sources;
     insert into mirror.outgoing_endpoints (endpoint_id, source_ids) select 'of ' || source_id, array[source_id] from mirror.sources`,
);
const one = await makeReader(database.pool, "live");
const all = await makeReader(database.pool);
const none = await makeReader(database.pool, "live");
await database.pool.query("delete from mirror.reader_sources where login = $1", [none.role]);
afterAll(async () => {
  for (const reader of [one, all, none]) await reader.drop();
});

const ask = (role: string, text: string) => readAs(database.pool, { role }, text);
const list = async (text: string) =>
  (await database.pool.query<{ name: string }>(text)).rows.map(({ name }) => name);

describe("every view and function", () => {
  it("shows a reader only the sources that it was admitted to", async () => {
    const views = await list(
      "select relname as name from pg_class where relnamespace = 'reporting'::regnamespace",
    );
    expect(views.length).toBeGreaterThan(12);
    for (const view of [...views.filter((name) => name !== "order_statuses"), "orders_as_of(now())"]) {
      const read = async (role: string) =>
        JSON.stringify(await ask(role, `select * from reporting.${view}`)).match(
          /"(?:of )?(?:live|test)"/g,
        ) ?? [];
      const [ofOne, ofAll, ofNone] = [await read(one.role), await read(all.role), await read(none.role)];
      expect({ view, live: ofOne.length > 0, test: ofOne.some((name) => name.includes("test")) }).toEqual({
        view,
        live: true,
        test: false,
      });
      expect({ view, all: ofAll.some((name) => name.includes("test")) }).toEqual({ view, all: true });
      expect({ view, ofNone }).toEqual({ view, ofNone: [] });
    }
  });

  it("is a security barrier, as a view", async () => {
    expect(
      await list(
        `select relname as name from pg_class where relnamespace = 'reporting'::regnamespace and relname <> 'order_statuses'
         and not coalesce('security_barrier=true' = any (reloptions), false)`,
      ),
    ).toEqual([]);
    const revealing = "select * from reporting.orders where reference::integer = 1";
    await expect(ask(one.role, revealing)).rejects.toThrow('"of live"');
    await expect(ask(none.role, revealing)).resolves.toEqual([]);
  });

  it("answers about another source as about one that does not exist", async () => {
    const require = (role: string, source: string) =>
      ask(role, `select reporting.require('${source}', '2026-01-01')`);
    await expect(require(one.role, "live")).rejects.toThrow("is complete up to");
    await expect(require(one.role, "test")).rejects.toThrow("There is no source test.");
    await expect(require(one.role, "other")).rejects.toThrow("There is no source other.");
    // Waiting would not help.
    await expect(require(one.role, "other")).rejects.toMatchObject({
      hint: "Name a source that reporting.sync_status shows to this login.",
    });
    await expect(require(all.role, "test")).rejects.toThrow("is complete up to");
  });
});

describe("admission", () => {
  const sources = async (role: string) =>
    (await ask(role, "select source_id from reporting.branches order by 1")).map(
      ({ source_id }) => source_id,
    );

  it("adds up, covers members of the admitted role, and ends", async () => {
    const reader = await makeReader(database.pool, "live");
    const member = await makeReader(database.pool, "test");
    await database.pool.query(`grant ${reader.role} to ${member.role}`);
    expect(await sources(reader.role)).toEqual(["live"]);
    expect(await sources(member.role)).toEqual(["live", "test"]);
    await database.pool.query("call mirror.admit_reader($1, 'test')", [reader.role]);
    expect(await sources(reader.role)).toEqual(["live", "test"]);
    await database.pool.query("call mirror.dismiss_reader($1)", [reader.role]);
    await expect(sources(reader.role)).rejects.toMatchObject({ code: "42501" });
    await member.drop();
    await reader.drop();
  });

  it("of a role that was dropped does not count for a new one of the same name", async () => {
    const reader = await makeReader(database.pool, "test");
    await database.pool.query(`drop role ${reader.role}; create role ${reader.role}`);
    await database.pool.query("call mirror.admit_reader($1, 'live')", [reader.role]);
    expect(await sources(reader.role)).toEqual(["live"]);
    await reader.drop();
  });

  it("to an unknown source is refused, and only the owner can admit", async () => {
    await expect(makeReader(database.pool, "other")).rejects.toThrow("there is no source other");
    await expect(database.pool.query("call mirror.admit_reader('x', null)")).rejects.toThrow(
      "there is no source",
    );
    for (const role of [one.role, "order_mirror_web", "order_mirror_worker", "order_mirror_poller"]) {
      if ((await list(`select rolname as name from pg_roles where rolname = '${role}'`)).length === 0)
        continue;
      for (const call of [
        `call mirror.admit_reader('${one.role}')`,
        `call mirror.admit_reader('${one.role}', 'test')`,
        `insert into mirror.reader_sources values ('${one.role}', 'test')`,
      ])
        await expect(ask(role, call)).rejects.toMatchObject({ code: "42501" });
    }
  });
});
