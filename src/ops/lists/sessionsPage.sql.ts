import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import type { Html } from "../../runtime/http/html.ts";
import { bothWays } from "../../database/keyset.sql.ts";
import { endSession, IS_OPEN } from "../auth/opsSessions.sql.ts";
import { OPS_ROLES } from "../auth/passwords.ts";
import { actorOf, mayAct, mayActOn } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { refuseOtherSource } from "../auth/writeGuard.ts";
import { parseForm, readField, readForm, refuse } from "../html/requests.ts";
import { renderAction } from "../../html/action.ts";
import { renderMinute } from "../../html/marks.ts";
import { selectList, text, time } from "./selectList.sql.ts";

/** Who is logged in. People whom a proxy names and programs with a password have no session. */
export const SESSION_LIST = selectList({
  title: "Sessions, now",
  note: "Browsers that are logged in. People whom a sign-on proxy names and programs that send a password have no session.",
  empty: "Nobody is logged in with a session.",
  section: "actions",
  ofSources: false,
  filters: { role: { label: "Role", words: OPS_ROLES } },
  columns: [
    text("Person", "coalesce(person, 'anybody with the password')"),
    text("Role", "role"),
    { title: "May act on", select: ["role", "sources"], show: describeReach },
    time("Logged in", "created_at"),
    time("Last use", "last_seen_at", renderMinute),
    time("Ends at the latest", "expires_at", renderMinute),
    { title: "Action", select: ["session_id"], show: renderEnding },
  ],
  sorts: bothWays({ created_at: "timestamptz", session_id: "text" }),
  from: ({ condition, order }) =>
    `from (select *, encode(token_hash, 'hex') as session_id from mirror.ops_sessions) s
     where $1::text is null and ${IS_OPEN}
       and ($4::text is null or role = $4) and ${condition}
     ${order} limit $2`,
});

function describeReach(role: Viewer["role"], sources: Viewer["sources"]): string {
  if (role === "viewer") return "nothing";
  return sources === null ? "every source" : sources.join(", ");
}

function renderEnding(sessionId: string, viewer: Viewer): string | Html {
  if (sessionId === viewer.session) return "this is you";
  if (!mayAct(viewer, null)) return "–";
  return renderAction("/ops/sessions/end", "End it", { sent: { session: sessionId } });
}

const SESSION_ID = /^[0-9a-f]{64}$/;

/** Ends a session for an operator of all sources. */
export function makeSessionRoutes(pool: Pool): Router {
  const router = Router();
  router.post("/sessions/end", parseForm, async (request, response) => {
    if (!mayActOn(response, null)) return refuseOtherSource(response);
    const sessionId = readField(readForm(request)["session"]);
    const actor = actorOf(response);
    const actionId = SESSION_ID.test(sessionId) ? await endSession(pool, { sessionId, actor }) : undefined;
    if (actionId === undefined) return refuse(response, 404, "This session has already ended.");
    response.redirect(303, `/ops/actions?did=${actionId}`);
  });
  return router;
}
