import { Router } from "express";
import type { Request } from "express";
import type { Pool } from "../../database/database.ts";
import { QUARANTINE_STATES, readQuarantined } from "../../quarantine/quarantine.sql.ts";
import { countQuarantined } from "../../quarantine/replay.sql.ts";
import type { QuarantineFilter } from "../../quarantine/replay.sql.ts";
import { describeFilter, replayAll } from "../../quarantine/replayAll.ts";
import { html } from "../../runtime/http/html.ts";
import { actorOf, mayAct, viewerOf } from "../auth/viewer.ts";
import { parseForm, readField, readForm, refuse, sendPage } from "../html/requests.ts";
import { carryOut, dismissQuarantined } from "./audit.sql.ts";
import {
  BECAUSE_LENGTH_MAX,
  REASONS,
  describeReason,
  renderConfirmation,
  renderQuarantined,
  writeView,
} from "./quarantinePage.ts";
import type { QuarantineView } from "./quarantinePage.ts";
import { ORDER, SOURCE, sentence, serveList, text, time } from "./list.sql.ts";
import type { List } from "./list.sql.ts";

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

/** The quarantine, open entries unless others are asked for. */
const QUARANTINE_LIST: List = {
  title: "Quarantine",
  section: "quarantine",
  note: "Authenticated input that could not be applied, kept in full, and orders that could not be read one by one.",
  empty: "Nothing is in quarantine.",
  filters: {
    state: { label: "State", words: QUARANTINE_STATES, standard: "open" },
    reason: {
      label: "Reason",
      words: Object.keys(REASONS),
      describe: (reason) => describeReason(reason).name,
    },
  },
  columns: [
    {
      title: "Number",
      select: ["quarantine_id::text"],
      show: (id: string) => html`<a href="/ops/quarantine/${id}">${id}</a>`,
    },
    time("When", "quarantined_at"),
    SOURCE,
    ORDER,
    text("Via", "via"),
    { title: "Why", select: ["reason"], show: (reason: string) => describeReason(reason).name },
    sentence("Detail", "detail"),
  ],
  keys: { quarantine_id: "bigint" },
  from: ({ condition, order }) =>
    `from mirror.quarantine where ($1::text is null or source_id = $1) and ${condition}
       and state = $4 and ($5::text is null or reason = $5)
     ${order} limit $2`,
  above: ({ sourceId, chosen, rows, viewer }) => {
    const { state, reason = null } = chosen;
    if (rows.length === 0 || state !== "open" || !mayAct(viewer)) return false;
    return html`<p>
      <a class="button" href="/ops/quarantine/all${writeView({ state, sourceId, reason })}"
        >Process all of these again, or dismiss them…</a
      >
    </p>`;
  },
};
