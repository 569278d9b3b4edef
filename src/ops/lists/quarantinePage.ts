import type { QuarantinedInput, QuarantineState } from "../../quarantine/quarantine.sql.ts";
import type { QuarantineCount } from "../../quarantine/replay.sql.ts";
import { renderAction, renderHidden } from "../../html/parts.ts";
import type { Sent } from "../../html/parts.ts";
import { renderFacts, renderFields } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderPage } from "../html/page.ts";
import { describeCount, linkOrder } from "../overview/phrases.ts";
import { renderInstant } from "../../html/parts.ts";
import { redactDocument } from "../orders/snapshotDiff.ts";

export const BECAUSE_LENGTH_MAX = 500;
const RETRY = "/ops/quarantine/retry";

/** The part of the quarantine that a page shows; null means no restriction. */
export interface QuarantineView {
  readonly state: QuarantineState;
  readonly sourceId: string | null;
  readonly reason: string | null;
}

/** One quarantine entry: what it is, why it is here, its content, and the possible actions. */
export function renderQuarantined(input: QuarantinedInput, viewer: Viewer): string {
  const { quarantineId, sourceId, reference, reason, detail, eventId, via, quarantinedAt } = input;
  const { name, why, mend } = describeReason(reason);
  const order = reference === null ? "none named" : linkOrder(input);
  const body = html`<h1>Quarantine, number ${quarantineId} <span class="badge">${input.state}</span></h1>
    ${renderFacts({
      Source: sourceId,
      Order: order,
      Via: via,
      Event: eventId ?? "none: it came from a read",
      Since: renderInstant(quarantinedAt),
    })}
    <h2>Why</h2>
    <p>
      <strong>${name}</strong>: ${why} ${detail === null ? "" : html`<span class="mono">${detail}</span>`}
    </p>
    <p>${mend}</p>
    ${renderEnd(input)} ${mayAct(viewer) && input.state === "open" && renderDeeds(input)}
    <h2>Content <span class="dim">values that may be personal data are hidden</span></h2>
    ${renderBody(input)}
    <p>
      <a href="/ops/quarantine${writeView({ state: input.state, sourceId, reason })}">All of this kind</a>
    </p>`;
  return renderPage({ title: `Quarantine ${quarantineId}`, body, viewer, section: "quarantine" });
}

function renderEnd({ state, dismissedAt, dismissedBecause }: QuarantinedInput): Html {
  if (state === "open") return html``;
  return html`<p>Dismissed ${renderInstant(dismissedAt)}. Reason: ${dismissedBecause ?? "–"}</p>`;
}

function renderDeeds({ quarantineId, reference, eventId }: QuarantinedInput): Html {
  const retryable = eventId !== null || reference !== null;
  const sent = { id: quarantineId, through: quarantineId };
  const retry = eventId === null ? "Read the order again" : "Process again";
  return html`<h2>Actions</h2>
    ${
      retryable
        ? renderAction(RETRY, retry, { sent, look: "row" })
        : html`<p>
            It names no order, so it cannot be read again alone; the next walk over it does so automatically.
          </p>`
    }
    ${renderDismissal("Dismiss", sent)}`;
}

function renderDismissal(button: string, sent: Sent): Html {
  return html`<form method="post" action="/ops/quarantine/dismiss" class="row">
    ${renderHidden(sent)}
    <label
      >Reason
      <input name="because" required maxlength="${BECAUSE_LENGTH_MAX}" size="40" autocomplete="off" />
    </label>
    <button>${button}</button>
    <span class="dim">It stays visible, but no longer raises alerts.</span>
  </form>`;
}

function renderBody({ body, eventId }: QuarantinedInput): Html {
  const fields = redactDocument(body.toString(), eventId === null ? "order" : "event");
  const size = `${describeCount(body.length)} bytes`;
  if (fields === null) return html`<p>${size} that are not a JSON object; none of it can be shown.</p>`;
  return html`<p class="dim">${size}</p>
    ${renderFields(fields)}`;
}

/** Confirmation before an action on many entries: the exact number, and the effect. */
export function renderConfirmation(page: {
  count: QuarantineCount;
  view: QuarantineView;
  viewer: Viewer;
}): string {
  const { count, view, viewer } = page;
  const { events, reads, unnamed, throughId, reasons } = count;
  const total = events + reads + unnamed;
  const scope = [
    view.sourceId ?? "all sources",
    view.reason === null ? "all reasons" : describeReason(view.reason).name,
  ].join(", ");
  const back = html`<p><a href="/ops/quarantine${writeView(view)}">Cancel</a></p>`;
  const sent = { source: view.sourceId ?? "", reason: view.reason ?? "", through: throughId ?? "0" };
  const deeds = html`<ul>
      <li>${describeCount(events)} events would be processed again.</li>
      <li>${describeCount(reads)} came from reads: their orders would be read again.</li>
      <li>${describeCount(unnamed)} came from reads and name no order: they stay here.</li>
    </ul>
    <p class="dim">
      Entries added from now on are not affected. Input that still fails returns under a new number.
    </p>`;
  const forms = html`${renderAction(RETRY, `Process ${describeCount(events + reads)} again`, { sent, look: "row" })}
  ${renderDismissal(`Dismiss ${describeCount(total)}`, sent)}`;
  const body = html`<h1>
      ${describeCount(total)} in quarantine <span class="dim">${scope}, open, now</span>
    </h1>
    <p>
      ${reasons.map(({ reason, count: each }) => `${describeReason(reason).name} ${describeCount(each)}`).join(" · ")}
    </p>
    ${total === 0 ? html`<p>Nothing here.</p>` : deeds} ${total > 0 && mayAct(viewer) && forms}${back}`;
  return renderPage({ title: "Quarantine, all of these", body, viewer, section: "quarantine" });
}

/** The query string for a part of the quarantine. */
export function writeView({ state, sourceId, reason }: QuarantineView): string {
  const query = new URLSearchParams({ state });
  if (sourceId !== null) query.set("source", sourceId);
  if (reason !== null) query.set("reason", reason);
  return `?${query.toString()}`;
}

/** Each quarantine reason, with its meaning and remedy. */
export const REASONS: Readonly<
  Record<string, { readonly name: string; readonly why: string; readonly mend: string }>
> = {
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
export function describeReason(reason: string): { name: string; why: string; mend: string } {
  return (
    REASONS[reason] ?? {
      name: reason,
      why: "This program version does not know this reason.",
      mend: "Process it again.",
    }
  );
}
