import type { Attempt, Delivery } from "../../outgoing/outgoingReads.sql.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderAction, renderForbidden } from "../../html/action.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderPage } from "../html/page.ts";
import { numberColumn, renderTable } from "../../html/table.ts";
import { describeDelay, endpointAddress, linkOrder } from "../overview/phrases.ts";
import { renderGood, renderWarning } from "../../html/marks.ts";
import { renderSeconds, STATE_WORDS } from "./outgoingLists.ts";

/** A message, and the attempts to send it, the newest first. */
export function renderMessage(page: {
  delivery: Delivery;
  attempts: readonly Attempt[];
  viewer: Viewer;
}): string {
  const { delivery, attempts, viewer } = page;
  const { deliveryId, endpointId, sourceId, type, state } = delivery;
  const title = `Message ${deliveryId} to ${endpointId}`;
  const label = state === "pending" ? "Send now" : "Send again";
  const columns = [
    "When",
    numberColumn("Round"),
    numberColumn("Attempt"),
    "Outcome",
    numberColumn("Duration"),
    "Answer",
  ];
  const act = mayAct(viewer)
    ? renderAction(`${endpointAddress(endpointId)}/${deliveryId}/retry`, label, { look: "row" })
    : renderForbidden(label, "Only operators may do this.");
  const body = html`<h1>${title} <span class="badge">${STATE_WORDS[state]}</span></h1>
    ${renderFacts({
      Order: linkOrder(delivery),
      Source: sourceId,
      Kind: type,
      Created: renderSeconds(delivery.createdAt),
      "Next attempt": state === "pending" ? renderSeconds(delivery.nextAttemptAt) : "none",
      "Last outcome": delivery.outcome ?? "–",
    })}
    ${act}
    <h2>Attempts <span class="dim">newest first, of the last week</span></h2>
    ${
      attempts.length === 0
        ? html`<p class="empty">Nothing was sent yet.</p>`
        : renderTable({ title: "Attempts", columns, rows: attempts.map(listAttempt), cards: true })
    }
    <p><a href="${endpointAddress(endpointId)}">All messages to ${endpointId}</a></p>`;
  return renderPage({ title, body, viewer, section: "outgoing" });
}

function listAttempt(each: Attempt): (string | Html)[] {
  const { startedAt, round, attempt, accepted, outcome, durationMs, answer } = each;
  const ending = outcome ?? "not recorded";
  return [
    renderSeconds(startedAt),
    String(round),
    String(attempt),
    accepted ? renderGood(ending) : renderWarning(ending),
    durationMs === null ? "–" : describeDelay(durationMs / 1_000),
    answer === null ? "–" : html`<span class="mono">${answer}</span>`,
  ];
}
