import { Router, type Response } from "express";
import type { Pool } from "../database/database.ts";
import type { Button } from "../health/conditions/condition.ts";
import type { Holding } from "../health/judge.ts";
import { readStandings } from "../health/conditions/standing.ts";
import { renderAction } from "../html/parts.ts";
import { reviveDead, setEndpointPaused } from "../outgoing/outgoingPlan.sql.ts";
import { readGaps } from "../poll/coverage.sql.ts";
import { requestPeriod } from "../poll/periodRequests.sql.ts";
import { CHOSEN, filterValues, type QuarantineFilter } from "../apply/quarantine.sql.ts";
import { html, type Html } from "../html/html.ts";
import { setPaused } from "../sources/sources.sql.ts";
import { SOURCE, sentence, text, time, type List } from "./lists/list.sql.ts";
import { mayAct, parseForm, readFormField, viewerOf, type Role, type Viewer } from "./page.ts";
import { describeCount, describeWord, linkOrder } from "./phrases.ts";

// What people do: the audit log, and the actions that need one press. Each action is recorded before it is carried out,
// see `carryOut`; `order-mirror`'s commands record theirs in the same way.

/** An action on the ops pages or by a command. */
export interface OpsAction {
  /** `command`: on the command line. */
  readonly role: Role | "command";
  /** Null: anybody who knows the role's password. */
  readonly person: string | null;
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
  dismissal: {
    actor: Pick<OpsAction, "role" | "person">;
    filter: QuarantineFilter;
    throughId: string;
    target: string;
    because: string;
  },
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

/** What people look for in the log. */
const ACTIONS =
  `log_in log_out refetch retry dismiss pause resume read_gaps reread backfill verify export erase adopt
  outgoing queue pause_endpoint resume_endpoint retry_endpoint`.split(/\s+/);
const ROLES = ["operator", "viewer", "command"];
/** They affect nothing but themselves. */
const LOGINS = ["log_in", "log_out"];

/** The actions on the ops pages and of commands. */
export const ACTION_LIST: List = {
  title: "Audit log",
  note: "All actions on these pages and by commands. Each is recorded before it is carried out.",
  empty: "Nobody has done anything yet.",
  section: "actions",
  filters: {
    action: { label: "Action", words: ACTIONS, describe: describeWord },
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
    { title: "Action", select: ["action"], show: describeWord },
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

/** What an operator can do from these pages with one press: each can be undone, or only reads again. */
interface Remedy {
  /** What it is applied to. */
  readonly of: "source" | "endpoint";
  readonly button: string;
  /** As the audit log names it. */
  readonly action: string;
  /** Resolves with the number of things affected. */
  readonly apply: (pool: Pool, name: string) => Promise<number>;
}

/** More gaps than anybody reads; the next press reads the rest. */
const GAPS_MAX = 50;

const REMEDIES = {
  pause: {
    of: "source",
    button: "Pause polling",
    action: "pause",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: true })),
  },
  resume: {
    of: "source",
    button: "Resume polling",
    action: "resume",
    apply: async (pool, sourceId) => Number(await setPaused(pool, { sourceId, paused: false })),
  },
  gap: { of: "source", button: "Read the gaps now", action: "read_gaps", apply: requestGaps },
  reread: { of: "source", button: "Read these orders again now", action: "reread", apply: hastenExcepted },
  "outgoing-pause": {
    of: "endpoint",
    button: "Pause this endpoint",
    action: "pause_endpoint",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: true })),
  },
  "outgoing-resume": {
    of: "endpoint",
    button: "Resume this endpoint",
    action: "resume_endpoint",
    apply: async (pool, endpointId) => Number(await setEndpointPaused(pool, { endpointId, paused: false })),
  },
  "outgoing-retry": {
    of: "endpoint",
    button: "Send these messages again",
    action: "retry_endpoint",
    apply: reviveDead,
  },
} as const satisfies Readonly<Record<Button, Remedy> & Record<string, Remedy>>;
type RemedyName = keyof typeof REMEDIES;

/** The actions, which lead to their entry in the audit log. */
export function makeRemedyRoutes(pool: Pool): Router {
  const router = Router();
  for (const [name, { of, action, apply }] of Object.entries<Remedy>(REMEDIES))
    router.post(`/${name}`, parseForm, async (request, response) => {
      const subject = readFormField(request, of);
      const target = `${of} ${subject}`;
      const sourceId = of === "source" ? subject : null;
      await carryOut(pool, response, { action, sourceId, target }, () => apply(pool, subject));
    });
  return router;
}

/** Unproved periods that proved time follows become backfills, oldest first; none for an unknown source. */
async function requestGaps(pool: Pool, sourceId: string): Promise<number> {
  const [standing] = await readStandings(pool, sourceId);
  const { oldestGap = null, provedUntil = null } = standing ?? {};
  if (oldestGap === null || provedUntil === null) return 0;
  const within = { since: oldestGap.since, until: provedUntil };
  const gaps = await readGaps(pool, { sourceId, within, limit: GAPS_MAX });
  for (const gap of gaps) await requestPeriod(pool, { kind: "backfill", sourceId, ...gap });
  return gaps.length;
}

/** Makes due now the single reads of the orders that a proof excludes. What they are read for stays recorded. */
async function hastenExcepted(pool: Pool, sourceId: string): Promise<number> {
  const { rowCount } = await pool.query(
    `update mirror.refetches r set next_attempt_at = clock_timestamp()
     from mirror.exceptions e
     where r.source_id = $1 and e.source_id = r.source_id and e.reference = r.reference`,
    [sourceId],
  );
  return rowCount ?? 0;
}

/** The button of a remedy, for those who may press it. */
export function renderRemedyButton(name: RemedyName, subject: string, viewer: Viewer): Html {
  const { of, button } = REMEDIES[name];
  return html`${mayAct(viewer) && renderAction(`/ops/${name}`, button, { sent: { [of]: subject } })}`;
}

/** What can be done about a condition with one press; nothing if a person has to look first, here or elsewhere. */
export function renderRemedy({ condition, subject }: Holding, viewer: Viewer): Html {
  const { button } = condition;
  return button === undefined ? html`` : renderRemedyButton(button, subject, viewer);
}
