import type { Pool, Queryable } from "../../../src/database/database.ts";

/** A pool with this one connection, which its users share: they can work in a transaction that the test ends. */
export function asPool(connection: { query: (text: string) => unknown } | Queryable): Pool {
  const query = connection.query.bind(connection) as Queryable["query"];
  const client = { query, release: () => undefined };
  return { query, connect: () => Promise.resolve(client) } as unknown as Pool;
}
