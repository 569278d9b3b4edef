import pg from "pg";
import type { Instant } from "../domain/order/instant.ts";
import { makeTypes } from "./database.ts";
import type { Queryable } from "./database.ts";

const BIGINTS = makeTypes();
BIGINTS.setTypeParser(pg.types.builtins.INT8, BigInt);

/** Rows with 64-bit integers as bigint, which are instants. For lists; hot paths forward positions as text. */
export async function queryInstants<Row extends pg.QueryResultRow>(
  db: Queryable,
  statement: string | { readonly name: string; readonly text: string },
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const named = typeof statement === "string" ? { text: statement } : statement;
  const { rows } = await db.query<Row>({ ...named, values: [...values], types: BIGINTS });
  return rows;
}

/** Converts a bigint column of nanoseconds, which arrives as decimal text, to an instant. */
export function toInstant(text: string | null): Instant | null {
  return text === null ? null : BigInt(text);
}
