import { type Response } from "express";
import { beginAction, endAction, type OpsAction } from "../database/auditLog.sql.ts";
import type { Pool } from "../database/database.ts";
import { html, type Html } from "../html/html.ts";
import { SOURCE, sentence, text, time, type List } from "./lists/list.ts";
import { pressedOn, redirect, viewerOf } from "./page.ts";
import { describeCount, describeWord, linkOrder } from "./phrases.ts";

// The audit log: each action on a page is recorded before it is carried out, see `runAudited`; commands record theirs
// in the same way.

/** Where an action leads: to `page`, by default where it was pressed, which says what was done; else to `otherwise`. */
interface Way {
  readonly page?: string | null | undefined;
  readonly otherwise?: string;
}

/** Carries out an action, which returns how much it affected, and leads on. */
export async function runAudited(
  pool: Pool,
  response: Response,
  action: Omit<OpsAction, "role" | "person">,
  run: () => Promise<number>,
  way: Way = {},
): Promise<void> {
  const actionId = await beginAction(pool, { ...viewerOf(response), ...action });
  const affected = await run();
  await endAction(pool, { actionId, affected });
  leadBack(response, { action: action.action, target: action.target, affected }, way);
}

/** Leads on from an action, with what it has done. */
export function leadBack(
  response: Response,
  { action, target, affected }: { action: string; target: string; affected: number },
  { page = pressedOn(response), otherwise = "/ops/actions" }: Way = {},
): void {
  const done = new URLSearchParams({ did: action, on: target, many: String(affected) }).toString();
  redirect(response, page === null ? otherwise : `${page}${page.includes("?") ? "&" : "?"}${done}`);
}

/** Actions that people look for in the log. */
const ACTIONS =
  `log_in log_out refetch retry dismiss pause resume read_gaps reread backfill verify export erase adopt
  outgoing queue pause_endpoint resume_endpoint retry_endpoint hasten_endpoint test_endpoint
  remove_endpoint`.split(/\s+/);
const ROLES = ["operator", "viewer", "command"];
/** Actions that affect nothing but themselves. */
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
