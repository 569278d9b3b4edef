import type { Response } from "express";
import type { Pool } from "../../database/database.ts";
import { CHOSEN, filterValues } from "../../quarantine/replay.sql.ts";
import type { QuarantineFilter } from "../../quarantine/replay.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { viewerOf } from "../page.ts";
import type { Role } from "../page.ts";
import { describeCount, linkOrder } from "../phrases.ts";
import { SOURCE, sentence, text, time } from "./list.sql.ts";
import type { List } from "./list.sql.ts";

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

/** Carries out an action, which returns how much it affected, and leads to `address`. */
export async function carryOut(
  pool: Pool,
  response: Response,
  action: Omit<OpsAction, "role" | "person">,
  run: () => Promise<number>,
  address = "/ops/actions",
): Promise<void> {
  const actionId = await beginAction(pool, { ...viewerOf(response), ...action });
  await endAction(pool, { actionId, affected: await run() });
  response.redirect(303, address);
}

/** What the actions are called in the log, and what people read. */
const ACTIONS: Readonly<Record<string, string>> = {
  log_in: "Logged in",
  log_out: "Logged out",
  refetch: "Read an order again",
  retry: "Processed again",
  dismiss: "Dismissed",
  pause: "Paused polling",
  resume: "Resumed polling",
  read_gaps: "Read gaps",
  reread: "Read orders again",
  backfill: "Backfill",
  verify: "Verification",
  export: "Exported",
  erase: "Erased",
  adopt: "Adopted a source",
  outgoing: "Outgoing webhooks",
  queue: "Queue",
};
const ROLES = ["operator", "viewer", "command"];
/** They affect nothing but themselves. */
const LOGINS = ["log_in", "log_out"];

const describeAction = (action: string): string => ACTIONS[action] ?? action.replaceAll("_", " ");

/** The actions on the ops pages and of commands. */
export const ACTION_LIST: List = {
  title: "Audit log",
  note: "All actions on these pages and by commands. Each is recorded before it is carried out.",
  empty: "Nobody has done anything yet.",
  section: "actions",
  filters: {
    action: { label: "Action", words: Object.keys(ACTIONS), describe: describeAction },
    role: { label: "Role", words: ROLES },
    person: {
      label: "Person",
      words: null,
      where: (part) => `strpos(lower(person), lower(${part})) > 0`,
    },
  },
  columns: [
    time("When", "at"),
    {
      title: "Person",
      select: ["person"],
      show: (person: string | null) =>
        person === null
          ? "–"
          : html`<a href="/ops/actions?person=${encodeURIComponent(person)}">${person}</a>`,
    },
    text("Role", "role"),
    { title: "Action", select: ["action"], show: describeAction },
    SOURCE,
    { title: "What", select: ["action", "source_id", "target"], show: renderTarget },
    { title: "How many", kind: "number", select: ["action", "affected::float8"], show: describeExtent },
    sentence("Note", "note"),
  ],
  keys: { action_id: "bigint" },
  from: (rows) => `mirror.ops_actions where ${rows}`,
};

function describeExtent(action: string, affected: number | null): string {
  if (affected !== null) return describeCount(affected);
  return LOGINS.includes(action) ? "–" : "end not recorded";
}

const ONE_QUARANTINED = /^quarantine (\d+)$/;

function renderTarget(action: string, sourceId: string | null, target: string | null): string | Html {
  if (target === null) return "–";
  if (action === "refetch" && sourceId !== null) {
    return linkOrder({ sourceId, reference: target });
  }
  const id = action === "dismiss" ? ONE_QUARANTINED.exec(target)?.[1] : undefined;
  return id === undefined ? target : html`<a href="/ops/quarantine/${id}">${target}</a>`;
}
