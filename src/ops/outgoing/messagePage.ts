import type { Delivery } from "../../outgoing/outgoingReads.sql.ts";
import { html } from "../../runtime/http/html.ts";
import { mayAct } from "../auth/viewer.ts";
import type { Viewer } from "../auth/viewer.ts";
import { renderAction, renderForbidden } from "../../html/action.ts";
import { renderFacts } from "../../html/fieldList.ts";
import { renderPage } from "../html/page.ts";
import { describeDelay, endpointAddress, linkOrder } from "../overview/phrases.ts";
import { renderGood, renderWarning } from "../../html/marks.ts";
import { renderSeconds, STATE_WORDS } from "./outgoingLists.ts";

/** A message, and how its last attempt ended. */
export function renderMessage({ delivery, viewer }: { delivery: Delivery; viewer: Viewer }): string {
  const { deliveryId, endpointId, sourceId, type, state, outcome, durationMs, answer } = delivery;
  const title = `Message ${deliveryId} to ${endpointId}`;
  const label = state === "pending" ? "Send now" : "Send again";
  const act = mayAct(viewer)
    ? renderAction(`${endpointAddress(endpointId)}/${deliveryId}/retry`, label, { look: "row" })
    : renderForbidden(label, "Only operators may do this.");
  const ending = outcome ?? "Nothing was sent yet.";
  const body = html`<h1>${title} <span class="badge">${STATE_WORDS[state]}</span></h1>
    ${renderFacts({
      Order: linkOrder(delivery),
      Source: sourceId,
      Kind: type,
      Created: renderSeconds(delivery.createdAt),
      Attempts: String(delivery.attempts),
      "Last attempt": renderSeconds(delivery.lastAttemptAt),
      "Last outcome": state === "delivered" ? renderGood(ending) : renderWarning(ending),
      Duration: durationMs === null ? "–" : describeDelay(durationMs / 1_000),
      Answer: answer === null ? "–" : html`<span class="mono">${answer}</span>`,
    })}
    ${act}
    <p><a href="${endpointAddress(endpointId)}">All messages to ${endpointId}</a></p>`;
  return renderPage({ title, body, viewer, section: "outgoing" });
}
