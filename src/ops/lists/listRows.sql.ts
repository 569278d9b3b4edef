import { queryInstants, type Pool } from "../../database/database.ts";

/** Selection of a list. */
export interface Selection {
  /** Types of the expressions that rows are sorted by, which together are unique and never null. */
  readonly keys: Readonly<Record<string, string>>;
  /** Default: the greatest first. */
  readonly ascending?: true;
  /** Writes what is selected from: `rows` are the conditions of a page, and its order. */
  readonly from: (rows: string) => string;
}

interface Choice {
  /** For each column the expressions of its cell. */
  readonly selected: readonly (readonly string[])[];
  /** Null: every source. */
  readonly sourceId: string | null;
  /** A null word is no condition. */
  readonly conditions: readonly { readonly word: string | null; readonly where: (word: string) => string }[];
  /** The position before the first row; null: the first page. */
  readonly after: readonly string[] | null;
  readonly limit: number;
}

export interface ListRow {
  /** The sort keys, as the server writes them as text. */
  readonly position: readonly string[];
  /** The values of each column's expressions. */
  readonly values: readonly (readonly unknown[])[];
}

/** Reads a page of a list. A position that is not of the keys' types makes Postgres refuse the statement. */
export async function readListRows(
  pool: Pool,
  { keys, ascending, from }: Selection,
  { selected, sourceId, conditions, after, limit }: Choice,
): Promise<ListRow[]> {
  const nameOf = (column: number, value: number) => `value_${column}_${value}`;
  const expressions = Object.keys(keys);
  const places = Object.values(keys).map((type, index) => `(($3::text[])[${index + 1}])::${type}`);
  const isBehind = `(${expressions.join(", ")}) ${ascending ? ">" : "<"} (${places.join(", ")})`;
  const filters = conditions.map(({ where }, index) => {
    const word = `$${index + 4}::text`;
    return `(${word} is null or ${where(word)})`;
  });
  const order = expressions.map((each) => each + (ascending ? "" : " desc")).join(", ");
  const page = `($3::text[] is null or ${isBehind}) order by ${order} limit $2`;
  const rows = await queryInstants<Pick<ListRow, "position"> & Readonly<Record<string, unknown>>>(
    pool,
    `select array[${expressions.map((each) => `(${each})::text`).join(", ")}] as position,
       ${selected.flatMap((cell, column) => cell.map((each, value) => `${each} as ${nameOf(column, value)}`)).join(", ")}
     from ${from(["($1::text is null or source_id = $1)", ...filters, page].join(" and "))}`,
    [sourceId, limit, after, ...conditions.map(({ word }) => word)],
  );
  return rows.map((row) => ({
    position: row.position,
    values: selected.map((cell, column) => cell.map((_, value) => row[nameOf(column, value)])),
  }));
}
