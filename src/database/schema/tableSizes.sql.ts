import type pg from "pg";

export interface TableSize {
  readonly bytes: number;
  /** As of Postgres' last count. */
  readonly rows: number;
}

/** The sizes of these tables, including indexes; missing tables are left out. */
export async function readTableSizes(
  client: pg.ClientBase,
  tables: readonly string[],
): Promise<ReadonlyMap<string, TableSize>> {
  const { rows } = await client.query<TableSize & { name: string }>(
    `select name, pg_total_relation_size(c.oid)::float8 as bytes, greatest(c.reltuples, 0)::float8 as rows
     from unnest($1::text[]) as t (name) join pg_catalog.pg_class c on c.oid = to_regclass(name)`,
    [tables],
  );
  return new Map(rows.map(({ name, ...size }) => [name, size]));
}
