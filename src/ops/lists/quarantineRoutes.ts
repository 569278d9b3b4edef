import { Router } from "express";
import type { Request } from "express";
import type { Pool } from "../../database/database.ts";
import { carryOut } from "./carryOut.ts";
import { dismissQuarantined } from "./opsActions.sql.ts";
import { readQuarantined } from "../../quarantine/quarantine.sql.ts";
import { countQuarantined } from "../../quarantine/replay.sql.ts";
import type { QuarantineFilter } from "../../quarantine/replay.sql.ts";
import { describeFilter, replayAll } from "../../quarantine/replayAll.ts";
import { actorOf, viewerOf } from "../auth/viewer.ts";
import { QUARANTINE_LIST } from "./quarantineList.sql.ts";
import { BECAUSE_LENGTH_MAX, renderConfirmation, renderQuarantined } from "./quarantinePage.ts";
import type { QuarantineView } from "./quarantinePage.ts";
import { parseForm, readField, readForm, refuse, sendPage } from "../html/requests.ts";
import { serveList } from "./serveList.ts";

const NUMBER = /^\d{1,18}$/;

export interface QuarantineDeps {
  readonly pool: Pool;
  /** Wakes the workers for these positions; without it the overdue check finds them within seconds. */
  readonly notify: (seqs: readonly number[]) => void;
}

/** The quarantine: the list, the single entry, and an operator's actions on one or many. */
export function makeQuarantineRoutes({ pool, notify }: QuarantineDeps): Router {
  const router = Router();
  router.get("/", serveList(pool, "/ops/quarantine", QUARANTINE_LIST));
  router.get("/all", async (request, response) => {
    const view = readView(request);
    const count = await countQuarantined(pool, { quarantineId: null, ...view });
    sendPage(response, renderConfirmation({ count, view, viewer: viewerOf(response) }));
  });
  router.get("/:id", async ({ params }, response, next) => {
    const id = readNumber(params.id);
    if (id === null) return next();
    const input = await readQuarantined(pool, id);
    if (input === undefined) return refuse(response, 404, GONE);
    sendPage(response, renderQuarantined(input, viewerOf(response)));
  });
  router.post("/retry", parseForm, async (request, response) => {
    const choice = readChoice(request);
    if (choice === null) return refuse(response, 400, INCOMPLETE);
    const { filter, throughId, target } = choice;
    await carryOut(pool, response, { action: "retry", sourceId: filter.sourceId, target }, async () => {
      const { events, reads } = await replayAll(pool, { filter, throughId }, notify);
      return events + reads;
    });
  });
  router.post("/dismiss", parseForm, async (request, response) => {
    const choice = readChoice(request);
    const because = readField(readForm(request)["because"]).trim().slice(0, BECAUSE_LENGTH_MAX);
    if (choice === null || because === "") return refuse(response, 400, INCOMPLETE);
    await dismissQuarantined(pool, { ...choice, actor: actorOf(response), because });
    response.redirect(303, "/ops/actions");
  });
  return router;
}

const GONE = "There is no entry with that number; it may have been processed again.";
const INCOMPLETE = "The form was incomplete; a dismissal needs a reason.";

/** The open part that an address names. */
function readView({ query }: Request): QuarantineView {
  const [sourceId, reason] = [readField(query["source"]) || null, readField(query["reason"]) || null];
  return { state: "open", sourceId, reason };
}

/** The rows that a form refers to: one row, or all that match up to a number. Null if it names neither. */
function readChoice(
  request: Request,
): { filter: QuarantineFilter; throughId: string; target: string } | null {
  const form = readForm(request);
  const throughId = readNumber(form["through"]);
  if (throughId === null) return null;
  const filter = {
    quarantineId: readNumber(form["id"]),
    sourceId: readField(form["source"]) || null,
    reason: readField(form["reason"]) || null,
  };
  return { filter, throughId, target: describeFilter(filter, throughId) };
}

function readNumber(value: unknown): string | null {
  return typeof value === "string" && NUMBER.test(value) ? value : null;
}
