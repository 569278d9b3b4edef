import { Router, type Request } from "express";
import {
  QUARANTINE_STATES,
  readQuarantined,
  countQuarantined,
  describeFilter,
  replayAll,
  dismissQuarantined,
  type QuarantinedInput,
  type QuarantineFilter,
} from "../../apply/quarantine.sql.ts";
import type { QUARANTINE_REASONS } from "../../apply/subject.ts";
import { runAudited, leadBack } from "../auditLog.ts";
import type { Pool } from "../../database/database.ts";
import { html, type Html } from "../../html/html.ts";
import {
  renderAction,
  renderFacts,
  renderFields,
  renderHidden,
  renderInstant,
  type Sent,
} from "../../html/parts.ts";
import { redactDocument } from "../orders/snapshotDiff.ts";
import {
  mayAct,
  parseForm,
  pressedOn,
  readFormField,
  sendRefusal,
  sendPage,
  viewerOf,
  type Page,
  type Viewer,
} from "../page.ts";
import { countOf, describeCount, linkEvent, linkOrder } from "../phrases.ts";
import { ORDER, SOURCE, sentence, serveList, text, time, type List, type ListPage } from "./list.ts";

const NUMBER = /^\d{1,18}$/;
const BECAUSE_LENGTH_MAX = 500;
const RETRY = "/ops/quarantine/retry";

export interface QuarantineDeps {
  readonly pool: Pool;
  /** Wakes the workers for these positions; without it the overdue check finds them within seconds. */
  readonly notify: (seqs: readonly number[]) => void;
}

/** The quarantine: the list, the single entry, and an operator's actions on one or all of a kind. */
export function makeQuarantineRoutes({ pool, notify }: QuarantineDeps): Router {
  const router = Router();
  router.get("/", serveList(pool, "/ops/quarantine", QUARANTINE_LIST));
  router.get("/:id", async ({ params }, response, next) => {
    const id = readNumber(params.id);
    if (id === null) return next();
    const input = await readQuarantined(pool, id);
    if (input === undefined) return sendRefusal(response, 404, GONE);
    sendPage(response, renderQuarantined(input, viewerOf(response)));
  });
  router.post("/retry", parseForm, async (request, response) => {
    const choice = readChoice(request);
    if (choice === null) return sendRefusal(response, 400, INCOMPLETE);
    const { filter, throughId, target } = choice;
    const replay = async () => {
      const { events, reads } = await replayAll(pool, { filter, throughId }, notify);
      return events + reads;
    };
    // The page of an entry ends with it.
    const page = pressedOn(response)?.replace(/^\/ops\/quarantine\/.*/, "/ops/quarantine");
    await runAudited(pool, response, { action: "retry", sourceId: filter.sourceId, target }, replay, {
      page,
    });
  });
  router.post("/dismiss", parseForm, async (request, response) => {
    const choice = readChoice(request);
    const because = readFormField(request, "because").trim().slice(0, BECAUSE_LENGTH_MAX);
    if (choice === null || because === "") return sendRefusal(response, 400, INCOMPLETE);
    const affected = await dismissQuarantined(pool, { ...choice, actor: viewerOf(response), because });
    leadBack(response, { action: "dismiss", target: choice.target, affected });
  });
  return router;
}

const GONE =
  "There is no entry with that number; it may have been processed again, or removed with its event.";
const INCOMPLETE = "The form was incomplete; a dismissal needs a reason.";

/** The rows that a form refers to: one row, or all that match up to a number. Null if it names neither. */
function readChoice(
  request: Request,
): { filter: QuarantineFilter; throughId: string; target: string } | null {
  const throughId = readNumber(readFormField(request, "through"));
  if (throughId === null) return null;
  const filter = {
    quarantineId: readNumber(readFormField(request, "id")),
    sourceId: readFormField(request, "source") || null,
    reason: readFormField(request, "reason") || null,
  };
  return { filter, throughId, target: describeFilter(filter, throughId) };
}

const readNumber = (text: string) => (NUMBER.test(text) ? text : null);

interface Meaning {
  readonly name: string;
  readonly why: string;
  readonly mend: string;
}

/** Each quarantine reason, with its meaning and remedy. */
const REASONS: Readonly<Record<(typeof QUARANTINE_REASONS)[number], Meaning>> = {
  wrong_mode: {
    name: "Test/live mix-up",
    why: "A live order arrived for a test source, or the other way round; the two must never mix.",
    mend: "Correct the address at the provider, or the key of the source. Processing the same input again fails.",
  },
  not_json: {
    name: "Not JSON",
    why: "The signature is right, but the body is not JSON in UTF-8.",
    mend: "Ask the provider what it sent. Processing it again fails; dismiss it with a note of the answer.",
  },
  not_an_envelope: {
    name: "Not an order event",
    why: "The body is JSON, but not an event with an order.",
    mend: "Ask the provider what it sent. Process it again after an update of this program that knows the format.",
  },
  unreadable_order: {
    name: "Unreadable order",
    why: "A field that is needed to compare orders is missing or invalid.",
    mend: "Process it again after an update of this program, or read the order again on its page.",
  },
  unreadable_created: {
    name: "Unreadable creation time",
    why: "The event does not say when it was created, or not as a time, so it cannot be compared with reads.",
    mend: "Ask the provider what it sent. Process it again after an update of this program that can read it.",
  },
  unreadable_singly: {
    name: "Cannot be read again",
    why: "The single read of this order keeps failing; the provider's answer is shown here.",
    mend: "Ask the provider about this order. It is retried every six hours, and leaves the quarantine once it can be read.",
  },
  dated_ahead: {
    name: "Dated in the future",
    why: "The change is dated more than a minute ahead of the database's clock.",
    mend: "Compare the clocks. The order is read when that time comes; then process the event again, or dismiss it.",
  },
  refused_by_database: {
    name: "Refused by the database",
    why: "Postgres refused the content; its error code is shown here.",
    mend: "Look up the code, fix the cause, and process it again.",
  },
};

/** A reason for people; one that this program version does not know as it is stored. */
function describeReason(reason: string): Meaning {
  return (
    (REASONS as Readonly<Record<string, Meaning>>)[reason] ?? {
      name: reason,
      why: "This program version does not know this reason.",
      mend: "Process it again.",
    }
  );
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
  from: (rows) => `mirror.quarantine where ${rows}`,
  above: renderDeedsOnAll,
};

/** Renders what an operator can do about everything that the list shows: exactly so many, and none that comes later. */
async function renderDeedsOnAll({ chosen, rows, viewer }: ListPage, pool: Pool): Promise<Html> {
  const { state, source = "", reason = "" } = chosen;
  if (rows.length === 0 || state !== "open" || !mayAct(viewer)) return html``;
  const count = await countQuarantined(pool, {
    quarantineId: null,
    sourceId: source || null,
    reason: reason || null,
  });
  const { events, reads, unnamed, throughId } = count;
  const sent = { source, reason, through: throughId ?? "0" };
  const named = count.reasons.map(
    (each) => `${describeReason(each.reason).name} ${describeCount(each.count)}`,
  );
  return html`<details>
    <summary>Process all ${describeCount(events + reads + unnamed)} of these again, or dismiss them</summary>
    <p>${named.join(" · ")}</p>
    <p>
      Events that would be processed again: ${describeCount(events)}; reads whose orders would be read again:
      ${describeCount(reads)}; reads that name no order, and stay here: ${describeCount(unnamed)}. Input that
      still fails returns under a new number.
    </p>
    ${renderAction(RETRY, `Process ${describeCount(events + reads)} again`, sent)}
    ${renderDismissal(`Dismiss ${describeCount(events + reads + unnamed)}`, sent)}
  </details>`;
}

/** Renders one entry: what it is, why it is here, its content, and the possible actions. */
function renderQuarantined(input: QuarantinedInput, viewer: Viewer): Page {
  const { quarantineId, sourceId, reference, reason, detail, eventId, via, quarantinedAt } = input;
  const { name, why, mend } = describeReason(reason);
  const order = reference === null ? "none named" : linkOrder(input);
  const body = html`<h1>Quarantine, number ${quarantineId} <span class="badge">${input.state}</span></h1>
    ${renderFacts({
      Source: sourceId,
      Order: order,
      Via: via,
      Event: eventId === null ? "none: it came from a read" : linkEvent(sourceId, eventId),
      Since: renderInstant(quarantinedAt),
    })}
    <h2>Why</h2>
    <p>
      <strong>${name}</strong>: ${why} ${detail === null ? "" : html`<span class="mono">${detail}</span>`}
    </p>
    <p>${mend}</p>
    ${renderEnd(input)} ${mayAct(viewer) && renderDeeds(input)}
    <h2>Content <span class="dim">values that may be personal data are hidden</span></h2>
    <p class="dim">${countOf(input.body.length, "byte")}</p>
    ${renderFields(redactDocument(input.body.toString(), eventId === null ? "order" : "event"))}
    <p><a href="/ops/quarantine?reason=${encodeURIComponent(reason)}">All of this kind</a></p>`;
  return { title: `Quarantine ${quarantineId}`, body, section: "quarantine" };
}

function renderEnd({ state, dismissedAt, dismissedBecause }: QuarantinedInput): Html {
  if (state === "open") return html``;
  return html`<p>Dismissed ${renderInstant(dismissedAt)}. Reason: ${dismissedBecause ?? "–"}</p>`;
}

function renderDeeds({ quarantineId, reference, eventId, state }: QuarantinedInput): Html {
  const retryable = eventId !== null || reference !== null;
  const sent = { id: quarantineId, through: quarantineId };
  const retry = eventId === null ? "Read the order again" : "Process again";
  return html`<h2>Actions</h2>
    ${
      retryable
        ? renderAction(RETRY, retry, sent)
        : html`<p>
            It names no order, so it cannot be read again alone; the next walk over it does so automatically.
          </p>`
    }
    ${state === "open" && renderDismissal("Dismiss", sent)}`;
}

function renderDismissal(button: string, sent: Sent): Html {
  return html`<form method="post" action="/ops/quarantine/dismiss" class="row">
    ${renderHidden(sent)}
    <label
      >Reason
      <input name="because" required maxlength="${BECAUSE_LENGTH_MAX}" size="40" autocomplete="off" />
    </label>
    <button>${button}</button>
    <span class="dim"
      >It stays visible, raises no more alerts, and can be processed again. An order that could not be read
      stays excepted from "complete up to".</span
    >
  </form>`;
}
