import type { Pool } from "../../src/database/database.ts";

/** Has Postgres refuse the events with this id, as no sender can bring it to; returns what undoes it. */
export async function refuseEvents(pool: Pool, eventId: string): Promise<() => Promise<void>> {
  // A name of ours and a literal that only tests write.
  await pool.query(`alter table mirror.inbox add constraint refused check (event_id <> '${eventId}')`);
  return async () => {
    await pool.query("alter table mirror.inbox drop constraint refused");
  };
}
