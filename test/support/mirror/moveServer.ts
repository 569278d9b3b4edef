import type { Pool } from "../../../src/database/database.ts";

/**
 * Simulates starting the data directory, or a dump of it, as the server with the identity `server`: no session of the pool
 * continues on it. `lost` is SQL that removes what the new server lacks, in the same transaction.
 */
export async function moveServer(pool: Pool, server: string, lost = ""): Promise<void> {
  const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()));
  await clients[0]?.query(`${lost}; update mirror.feed set server = '${server}', server_started = 'epoch'`);
  for (const client of clients) client.release(true);
}
