import { Router } from "express";
import type { Pool } from "../../database/database.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { endSession, readSessions, SESSION_SORTS } from "../auth/opsSessions.sql.ts";
import type { OpenSession } from "../auth/opsSessions.sql.ts";
import { OPS_ROLES } from "../auth/passwords.ts";
import { IDLE_SECONDS } from "../auth/sessions.ts";
import { actorOf, mayAct, mayActOn } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { refuseOtherSource } from "../auth/writeGuard.ts";
import { parseForm, readField, readForm, refuse } from "../html/requests.ts";
import { renderInstant, renderMinute } from "../../html/marks.ts";
import type { List } from "./list.ts";

/** Who is logged in. People whom a proxy names and programs with a password have no session. */
export const SESSION_LIST: List<OpenSession> = {
  title: "Sessions, now",
  note: "Browsers that are logged in. People whom a sign-on proxy names and programs that send a password have no session.",
  empty: "Nobody is logged in with a session.",
  section: "actions",
  ofSources: false,
  filters: { role: { label: "Role", words: OPS_ROLES } },
  sorts: Object.keys(SESSION_SORTS),
  columns: [
    { title: "Person", show: ({ person }) => person ?? "anybody with the password" },
    { title: "Role", show: ({ role }) => role },
    { title: "May act on", show: describeReach },
    { title: "Logged in", show: ({ createdAt }) => renderInstant(createdAt) },
    { title: "Last use", show: ({ lastSeenAt }) => renderMinute(lastSeenAt) },
    { title: "Ends at the latest", show: ({ expiresAt }) => renderMinute(expiresAt) },
    { title: "Action", show: renderEnding },
  ],
  read: (pool, query) => readSessions(pool, { ...query, idleSeconds: IDLE_SECONDS }),
};

function describeReach({ role, sources }: OpenSession): string {
  if (role === "viewer") return "nothing";
  return sources === null ? "every source" : sources.join(", ");
}

function renderEnding({ sessionId }: OpenSession, viewer: Viewer): string | Html {
  if (sessionId === viewer.session) return "this is you";
  if (!mayAct(viewer, null)) return "–";
  return html`<form method="post" action="/ops/sessions/end">
    <input type="hidden" name="session" value="${sessionId}" /><button>End it</button>
  </form>`;
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
