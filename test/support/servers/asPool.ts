import type { Pool, Queryable } from "../../../src/database/database.ts";

/**
 * A pool with this one connection, which its users share: they can work in a transaction that the test ends. It may also be
 * one that answers as a test wants, when the failure or the count of statements is what matters.
 */
export function asPool(connection: { readonly query: (...given: never[]) => unknown }): Pool {
  const query = connection.query.bind(connection) as Queryable["query"];
  const nothing = () => undefined;
  const client = { query, on: nothing, off: nothing, release: nothing };
  return { query, connect: () => Promise.resolve(client) } as unknown as Pool;
}
