import type { Pool } from "./database.ts";

export type OpsRole = "operator" | "viewer";

/** Something done on the ops pages. */
export interface OpsAction {
  readonly role: OpsRole;
  readonly action: "refetch" | "retry" | "dismiss" | "queue" | "log_in" | "log_out";
  /** Null: of every source. */
  readonly sourceId: string | null;
  readonly target: string | null;
  readonly note: string | null;
  /** Null: it begins, and endAction tells how it ended. */
  readonly affected: number | null;
}

export interface RecordedAction extends OpsAction {
  readonly actionId: string;
  /** The database's clock, ISO 8601 in UTC. */
  readonly at: string;
}

/** Writes into the audit log; returns the row's number. */
export async function recordAction(pool: Pool, action: OpsAction): Promise<string> {
  const { rows } = await pool.query<{ action_id: string }>(
    `insert into mirror.ops_actions (role, action, source_id, target, note, affected)
     values ($1, $2, $3, $4, $5, $6) returning action_id`,
    [action.role, action.action, action.sourceId, action.target, action.note, action.affected],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("an insert returns its row");
  return row.action_id;
}

/** Notes how many things an action that was begun has concerned in the end. */
export async function endAction(
  pool: Pool,
  { actionId, affected }: { actionId: string; affected: number },
): Promise<void> {
  await pool.query("update mirror.ops_actions set affected = $2 where action_id = $1", [actionId, affected]);
}

/** The newest actions with a number under `before` (null: all), at most `limit`, newest first. */
export async function readActions(
  pool: Pool,
  { before, limit }: { before: string | null; limit: number },
): Promise<RecordedAction[]> {
  const { rows } = await pool.query<Omit<RecordedAction, "affected"> & { affected: string | null }>(
    `select action_id as "actionId", role, action, source_id as "sourceId", target, note, affected,
       to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as at
     from mirror.ops_actions where $1::bigint is null or action_id < $1
     order by action_id desc limit $2`,
    [before, limit],
  );
  return rows.map((row) => ({ ...row, affected: row.affected === null ? null : Number(row.affected) }));
}

/** Wishes for an order to be read again, and writes that into the audit log: both or neither. */
export async function wishRefetch(
  pool: Pool,
  { role, sourceId, reference }: { role: OpsRole; sourceId: string; reference: string },
): Promise<void> {
  await pool.query(
    `with noted as (
       insert into mirror.ops_actions (role, action, source_id, target, affected) values ($1, 'refetch', $2, $3, 1)
     )
     insert into mirror.refetches (source_id, reference, reason) values ($2, $3, 'asked for by a person')
     on conflict (source_id, reference) do update set
       reason = excluded.reason, requested_at = clock_timestamp(), attempts = 0`,
    [role, sourceId, reference],
  );
}
