import type { Pool } from "../../database/database.ts";
import type { Role } from "../auth/viewer.ts";
import { CHOSEN, filterValues } from "../../quarantine/replay.sql.ts";
import type { QuarantineFilter } from "../../quarantine/replay.sql.ts";

/** Who acts. */
interface Actor {
  /** `command`: on the command line. */
  readonly role: Role | "command";
  /** Null: anybody who knows the role's password. */
  readonly person: string | null;
}

/** An action on the ops pages or by a command. */
export interface OpsAction extends Actor {
  readonly action: string;
  /** Null: every source. */
  readonly sourceId: string | null;
  /** What it affects, without personal data. */
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

/**
 * Dismisses quarantined input up to the number `throughId`, for a reason given by a person, and records that in the
 * audit log: both or neither. Returns the number of entries. They are kept and remain visible, but no longer count.
 */
export async function dismissQuarantined(
  pool: Pool,
  dismissal: { actor: Actor; filter: QuarantineFilter; throughId: string; target: string; because: string },
): Promise<number> {
  const { actor, filter, throughId, target, because } = dismissal;
  const { rows } = await pool.query<{ dismissed: number }>(
    `with dismissed as (
       update mirror.quarantine
       set state = 'dismissed', dismissed_at = clock_timestamp(), dismissed_because = $5
       where ${CHOSEN} and quarantine_id <= $4::bigint returning 1
     ), noted as (
       insert into mirror.ops_actions (role, person, action, source_id, target, note, affected)
       select $6, $8, 'dismiss', $2, $7, $5, count(*) from dismissed
     )
     select count(*)::int as dismissed from dismissed`,
    [...filterValues(filter), throughId, because, actor.role, target, actor.person],
  );
  return rows[0]?.dismissed ?? 0;
}
