import type { Queryable } from "./database.ts";

/** Begins a read-only transaction that sees one state of everything. */
export async function beginSnapshot(client: Queryable): Promise<void> {
  await client.query("begin isolation level repeatable read, read only");
}

/** The rows of a query, at most `batchRows` at a time, within a transaction: one such reading at a time per connection. */
export async function* readInBatches<Row>(
  client: Queryable,
  query: { readonly text: string; readonly values?: readonly unknown[]; readonly rowMode?: "array" },
  batchRows: number,
): AsyncGenerator<Row[]> {
  const { text, values = [], rowMode } = query;
  await client.query(`declare batches no scroll cursor for ${text}`, [...values]);
  const fetch = { text: `fetch ${batchRows} from batches`, ...(rowMode === undefined ? {} : { rowMode }) };
  for (;;) {
    const rows = (await client.query(fetch)).rows as Row[];
    if (rows.length > 0) yield rows;
    if (rows.length < batchRows) break;
  }
  await client.query("close batches");
}
