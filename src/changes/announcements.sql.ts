import type { Pool, Queryable } from "../database/database.ts";

/** Sends the announcement to every process that listens on this database; nothing of it is stored. */
export async function notifyChanges(pool: Pool): Promise<void> {
  await pool.query("notify order_mirror_changes");
}

/** Receives what notifyChanges sends, for as long as the connection lasts. */
export async function listenForChanges(client: Queryable): Promise<void> {
  await client.query("listen order_mirror_changes");
}
