import type { Pool } from "../../../src/database/database.ts";

/** Everything in the database that holds `text`, as table names; bytes are searched as well, also as UTF-16. */
export async function findAnywhere(pool: Pool, text: string): Promise<string[]> {
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
