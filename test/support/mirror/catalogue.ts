import type { Pool } from "../../../src/database/database.ts";

export interface CatalogueColumn {
  readonly name: string;
  /** Postgres' name of the type. */
  readonly type: string;
  readonly comment: string | null;
}

/** A view of the schema `reporting`, or a function of it that returns rows. */
export interface CatalogueEntry {
  /** The name; for a function with its parameters. */
  readonly name: string;
  readonly kind: "view" | "function";
  readonly comment: string | null;
  readonly columns: readonly CatalogueColumn[];
}

interface CatalogueRow {
  readonly name: string;
  readonly comment: string | null;
  readonly columns: CatalogueColumn[];
}

const VIEWS = `
  select c.relname as name, obj_description(c.oid, 'pg_class') as comment,
    json_agg(json_build_object(
      'name', a.attname, 'type', format_type(a.atttypid, a.atttypmod), 'comment', col_description(c.oid, a.attnum)
    ) order by a.attnum) as columns
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where c.relnamespace = 'reporting'::regnamespace and c.relkind = 'v'
  group by c.oid order by c.oid`;

const FUNCTIONS = `
  select format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) as name,
    obj_description(p.oid, 'pg_proc') as comment,
    (select coalesce(json_agg(json_build_object('name', a.name, 'type', format_type(a.type, null), 'comment', null) order by a.place), '[]')
     from unnest(p.proargnames, p.proallargtypes, p.proargmodes) with ordinality as a (name, type, mode, place)
     where a.mode = 't') as columns
  from pg_proc p where p.pronamespace = 'reporting'::regnamespace order by p.oid`;

/** What the schema `reporting` offers, in the order of creation: views, then functions. */
export async function readCatalogue(pool: Pool): Promise<CatalogueEntry[]> {
  const views = await pool.query<CatalogueRow>(VIEWS);
  const functions = await pool.query<CatalogueRow>(FUNCTIONS);
  return [
    ...views.rows.map((row) => ({ ...row, kind: "view" as const })),
    ...functions.rows.map((row) => ({ ...row, kind: "function" as const })),
  ];
}
