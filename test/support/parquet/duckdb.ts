import { DuckDBInstance } from "@duckdb/node-api";
import type { DuckDBValue } from "@duckdb/node-api";

/** The rows of a query that DuckDB answers, each as an object of its columns. DuckDB needs no network and no extension for it. */
export async function queryDuckdb(query: string): Promise<Record<string, DuckDBValue>[]> {
  const instance = await DuckDBInstance.create(":memory:", { autoinstall_known_extensions: "false" });
  const connection = await instance.connect();
  try {
    return (await connection.runAndReadAll(query)).getRowObjects();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
