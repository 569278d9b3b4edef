import { EventEmitter } from "node:events";
import { expect, it, onTestFinished } from "vitest";
import { inTransaction } from "../../../src/database/transaction.ts";
import { openTestDatabase } from "../../support/servers/database.ts";

it("a transaction fails when its connection ends between two statements, and the process keeps running", async () => {
  const { database, pool } = await openTestDatabase({ purpose: "poll", max: 1, ends: onTestFinished });
  const broken = inTransaction(pool, async (client) => {
    const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    if (!(client instanceof EventEmitter)) throw new TypeError("a client of pg emits events");
    // `once` of node:events would reject at the connection's error, which comes first.
    const ended = new Promise<void>((resolve) => {
      client.once("end", () => resolve());
    });
    await database.pool.query("select pg_terminate_backend($1)", [rows[0]?.pid]);
    await ended;
    expect(client.listenerCount("error")).toBeGreaterThan(0);
    return client.query("select 1");
  });
  await expect(broken).rejects.toThrow(/terminat|not queryable|Connection/);
  expect((await pool.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
});
