import type { Pool } from "./database.ts";

/** Rights of a person on the ops pages: a viewer sees everything and changes nothing. */
export type Role = "operator" | "viewer";

/** An action on the ops pages or by a command. */
export interface OpsAction {
  /** `command`: on the command line. */
  readonly role: Role | "command";
  /** Null: anybody who knows the role's password. */
  readonly person: string | null;
  readonly action: string;
  /** Null: every source. */
  readonly sourceId: string | null;
  /** Names what it affects, without personal data. */
  readonly target: string;
}

/** Records an action in the audit log before it is carried out; returns the row's number, for endAction. */
export async function beginAction(pool: Pool, action: OpsAction): Promise<string> {
  const { rows } = await pool.query<{ actionId: string }>(
    `insert into mirror.ops_actions (role, person, action, source_id, target) values ($1, $2, $3, $4, $5)
     returning action_id as "actionId"`,
    [action.role, action.person, action.action, action.sourceId, action.target],
  );
  const [row] = rows;
  if (row === undefined) throw new TypeError("an insert returns its row");
  return row.actionId;
}

/** Records how many entries an action has affected. */
export async function endAction(
  pool: Pool,
  { actionId, affected }: { actionId: string; affected: number },
): Promise<void> {
  await pool.query("update mirror.ops_actions set affected = $2 where action_id = $1", [actionId, affected]);
}
