import { expect, it } from "vitest";
import { openTestDatabase } from "../../support/servers/database.ts";

const { database } = await openTestDatabase();

it("the schemas mirror and reporting have a comment on every table, view and column", async () => {
  const { rows } = await database.pool.query<{ name: string }>(
    `select n.nspname || '.' || c.relname || coalesce('.' || a.attname, '') as name
       from pg_class c join pg_namespace n on n.oid = c.relnamespace
         cross join lateral (
           select null::name as attname, 0 as attnum
           union all
           select attname, attnum from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped) a
       where n.nspname in ('mirror', 'reporting') and c.relkind in ('r', 'p', 'v', 'm')
         and coalesce(trim(case when a.attnum = 0 then obj_description(c.oid, 'pg_class')
           else col_description(c.oid, a.attnum) end), '') = ''
       order by 1`,
  );
  expect(rows.map(({ name }) => name)).toEqual([]);
});
