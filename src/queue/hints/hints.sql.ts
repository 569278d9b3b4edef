import type { Pool, Queryable } from "../../database/database.ts";

/** Distinguishes a listener from other connections in pg_stat_activity. */
export const HINT_LISTENER = "order-mirror hints";

/** Notifies all listeners on this database; a hint has fewer than 8,000 bytes, and nothing is stored. */
export async function notifyHint(pool: Pool, hint: string): Promise<void> {
  await pool.query("select pg_notify('order_mirror_hints', $1)", [hint]);
}

/** Makes the client receive notifyHint's notifications, as long as its connection lasts. */
export async function listenForHints(client: Queryable): Promise<void> {
  await client.query("listen order_mirror_hints");
}

/** The number of connections of this login that listen on this database, and this one's index among them, from 0. */
export interface ListenerPlace {
  readonly place: number;
  readonly listeners: number;
}

export async function readListenerPlace(client: Queryable): Promise<ListenerPlace> {
  const { rows } = await client.query<ListenerPlace>(
    `select count(*)::int as listeners, (count(*) filter (where pid < pg_backend_pid()))::int as place
     from pg_stat_activity where datname = current_database() and application_name = $1 and usename = current_user`,
    [HINT_LISTENER],
  );
  return rows[0] ?? { place: 0, listeners: 1 };
}
