import type { Pool } from "../../../src/database/database.ts";

/** Makes Postgres refuse the events with this id, which no sender can cause; returns a function that undoes it. */
export async function refuseEvents(pool: Pool, eventId: string): Promise<() => Promise<void>> {
  // Our own name, and a literal that only tests write.
  await pool.query(`alter table mirror.inbox add constraint refused check (event_id <> '${eventId}')`);
  return async () => {
    await pool.query("alter table mirror.inbox drop constraint refused");
  };
}
