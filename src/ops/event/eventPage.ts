import { Router } from "express";
import { type Pool } from "../../database/database.ts";
import { describeDelay, secondsSince } from "../../domain/duration.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { sourceAddress } from "../../health/pageAddresses.ts";
import { html, type Html } from "../../html/html.ts";
import {
  renderAlert,
  renderFacts,
  renderFields,
  renderInstant,
  renderName,
  renderTable,
} from "../../html/parts.ts";
import { redactDocument } from "../orders/snapshotDiff.ts";
import { readField, sendRefusal, sendPage } from "../page.ts";
import { countOf, linkOrder, renderSentence } from "../phrases.ts";
import { HARMLESS_HEADERS } from "../../receive/admission.ts";
import { readRefusedRequests, type RefusedRequest } from "../../receive/refusedRequests.ts";
import { readEvents, type ReceivedEvent } from "./receivedEvents.sql.ts";

// What is known of one webhook: of an event, when it came, what verified it, what it says and what was decided; of a
// call that was refused, as far as web keeps such calls, what was wrong with it. Start at `makeEventRoutes`.

const NO_EVENT = "There is no event of that id; events are kept for EVENTS_KEPT_FOR.";

/** The page of an event, and the calls that web refused and keeps in `refusedFolder`. */
export function makeEventRoutes(pool: Pool, refusedFolder: string): Router {
  const router = Router();
  router.get("/refused", async ({ query }, response) => {
    const sourceId = readField(query["source"]);
    const kept = await readRefusedRequests(refusedFolder);
    const shown = sourceId === "" ? kept : kept.filter((request) => request.sourceId === sourceId);
    sendPage(response, { title: "Refused webhooks", body: renderRefused(shown), section: "overview" });
  });
  router.get("/:source/:event", async ({ params }, response) => {
    const [sourceId, eventId] = [readField(params.source), readField(params.event)];
    const events = await readEvents(pool, sourceId, eventId);
    if (events.length === 0) return sendRefusal(response, 404, NO_EVENT);
    const body = html`<h1>Event ${renderName(eventId)}</h1>
      ${events.map(renderEvent)}
      <p class="dim">
        The signature is not kept, nor is any header that does not describe the event. Fields that may hold
        personal data are hidden.
      </p>`;
    sendPage(response, { title: `Event ${eventId}`, body });
  });
  return router;
}

function renderEvent(event: ReceivedEvent): Html {
  const { sourceId, seq, receivedAt, secretIndex, headers, body, isPending, decisions } = event;
  return html`${renderFacts({
      Source: html`<a href="${sourceAddress(sourceId)}">${sourceId}</a>`,
      Received: renderInstant(receivedAt),
      "Verified by": `secret ${secretIndex + 1} of the source`,
      "Inbox position": seq,
      Size: countOf(body.length, "byte"),
      State: isPending ? "waiting for a worker" : "decided",
    })}
    <h2>Decisions</h2>
    ${decisions.length === 0 ? html`<p class="empty">None yet.</p>` : renderDecisions(event)}
    <h2>Headers</h2>
    ${headers === null ? html`<p>They were erased with the order.</p>` : renderFields(listFields(headers))}
    <h2>Body</h2>
    ${renderFields(redactDocument(body.toString(), "event"))}`;
}

function renderDecisions({ sourceId, receivedAt, decisions }: ReceivedEvent): Html {
  return renderTable({
    title: "Decisions",
    cards: true,
    columns: ["When", "After receipt", "Decision", { title: "Why", kind: "sentence" }, "Order", "Quarantine"],
    rows: decisions.map(({ verdict, reason, reference, seenAt, quarantineId }) => [
      renderInstant(seenAt),
      describeDelay(secondsSince(seenAt, receivedAt)),
      verdict,
      reason ?? "–",
      linkOrder({ sourceId, reference }),
      quarantineId === null ? "–" : html`<a href="/ops/quarantine/${quarantineId}">${quarantineId}</a>`,
    ]),
  });
}

const listFields = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers).map(([path, value]) => ({ path, value }));

const REFUSED_NOTE =
  "The last webhooks whose signature did not verify, as far as this web process keeps them. Run `order-mirror identify-signature` where web runs: it finds the scheme and the secret that verify them.";
const NONE_KEPT =
  "None is kept. Set CAPTURE_REFUSED=10 for web, restart it, and wait for the next refused event. What is refused meanwhile is only counted.";

/** Explains why all kept requests were refused, if the reason is the same. */
const MEANINGS: Readonly<Record<string, string>> = {
  signature_mismatch: "all well-formed and signed within the tolerance: the secret is wrong",
  signature_missing: "all without the header that the scheme signs with: the provider uses another scheme",
  secret_unreadable:
    "and the secret is not written as the scheme needs it: another scheme, or a wrong secret",
  timestamp_outside_tolerance: "all signed too long ago or ahead: a clock is wrong, or they are old requests",
};

/** Says in one sentence what the refused requests have in common. */
function describeRefused(reasons: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const [[only = ""] = [], ...others] = counts;
  const each = [...counts].map(([reason, count]) => `${count} ${describeReason(reason)}`).join(", ");
  const common = others.length === 0 ? MEANINGS[only] : undefined;
  return `${reasons.length} kept${common === undefined ? `: ${each}` : `, ${common}`}.`;
}

function renderRefused(requests: readonly (RefusedRequest & { readonly refusedAt: Instant })[]): Html {
  return html`<h1>Refused webhooks</h1>
    <p>${renderSentence(REFUSED_NOTE)} <a href="/ops/calls?kind=webhook">All calls by minute</a></p>
    ${requests.length > 0 && html`<p>${describeRefused(requests.map(({ reason }) => reason))}</p>`}
    ${requests.length === 0 && html`<p class="empty">${renderSentence(NONE_KEPT)}</p>`}
    ${requests.map(
      ({ sourceId, reason, refusedAt, headers, target, body }) =>
        html`<details>
          <summary>${renderInstant(refusedAt)} ${renderAlert(describeReason(reason))}</summary>
          ${renderFacts({
            Source: html`<a href="${sourceAddress(sourceId)}">${sourceId}</a>`,
            Address: renderName(target.split("?", 1)[0] ?? ""),
            Size: countOf(body.length, "byte"),
          })}
          ${renderFields([...hideValues(headers), ...(redactDocument(body.toString(), "event") ?? [])])}
        </details>`,
    )}`;
}

/** "signature_mismatch": "signature mismatch". */
const describeReason = (reason: string): string => reason.replaceAll("_", " ");

/**
 * Shows of a stranger's headers only the names, and how long their values are: any of them may be the signature, or
 * name a person.
 */
function hideValues(headers: NodeJS.Dict<string[]>) {
  return Object.entries(headers).map(([path, values = []]) => ({
    path,
    value: HARMLESS_HEADERS.includes(path)
      ? values.join(", ")
      : `hidden, ${countOf(values.join(", ").length, "character")}`,
  }));
}
