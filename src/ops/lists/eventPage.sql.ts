import { Router } from "express";
import { queryInstants } from "../../database/database.ts";
import type { Pool } from "../../database/database.ts";
import type { Instant } from "../../domain/order/instant.ts";
import { renderFacts, renderFields, renderInstant, renderName, renderTable } from "../../html/parts.ts";
import { html } from "../../runtime/http/html.ts";
import type { Html } from "../../runtime/http/html.ts";
import { redactDocument } from "../orders/snapshotDiff.ts";
import { readField, refuse, sendPage } from "../page.ts";
import { describeCount, describeDelay, linkOrder, secondsSince, sourceAddress } from "../phrases.ts";

/** An event as received; a second one under the same id has another body. */
interface ReceivedEvent {
  readonly sourceId: string;
  readonly seq: string;
  readonly receivedAt: Instant;
  /** From 0: which of the source's webhook secrets verified it. */
  readonly secretIndex: number;
  readonly body: Buffer;
  /** It waits for its decision. */
  readonly isPending: boolean;
  readonly decisions: readonly Decision[];
}

interface Decision {
  readonly verdict: string;
  readonly reason: string | null;
  readonly reference: string | null;
  readonly seenAt: Instant;
  readonly quarantineId: string | null;
}

/** More under one id come from a sender that is wrong. */
const EVENTS_MAX = 20;
const NO_EVENT = "There is no event of that id; events are kept for EVENTS_KEPT_FOR.";

/** What is known of one event: when it came, what verified it, what it says, and what was decided about it. */
export function makeEventRoutes(pool: Pool): Router {
  const router = Router();
  router.get("/:source/:event", async ({ params }, response) => {
    const [sourceId, eventId] = [readField(params.source), readField(params.event)];
    const events = await readEvents(pool, sourceId, eventId);
    if (events.length === 0) return refuse(response, 404, NO_EVENT);
    const body = html`<h1>Event ${renderName(eventId)}</h1>
      ${events.map(renderEvent)}
      <p class="dim">
        Headers are not kept: what they prove is which secret verified the event. Fields that may hold
        personal data are hidden.
      </p>`;
    sendPage(response, { title: `Event ${eventId}`, body });
  });
  return router;
}

async function readEvents(pool: Pool, sourceId: string, eventId: string): Promise<ReceivedEvent[]> {
  const events = await queryInstants<Omit<ReceivedEvent, "decisions">>(
    pool,
    `select i.source_id as "sourceId", i.seq::text as seq, mirror.nanos_of(i.received_at) as "receivedAt",
       i.secret_index::int as "secretIndex", i.body,
       exists (select from mirror.pending p where p.seq = i.seq) as "isPending"
     from mirror.inbox i where i.source_id = $1 and i.event_id = $2 order by i.seq limit ${EVENTS_MAX}`,
    [sourceId, eventId],
  );
  const decisions = await queryInstants<Decision & { seq: string }>(
    pool,
    `select h.inbox_seq::text as seq, h.verdict, h.reason, h.reference, mirror.nanos_of(h.seen_at) as "seenAt",
       (select q.quarantine_id::text from mirror.quarantine q where q.inbox_seq = h.inbox_seq
        order by q.quarantine_id desc limit 1) as "quarantineId"
     from mirror.history h where h.source_id = $1 and h.inbox_seq = any($2::bigint[]) order by h.history_id`,
    [sourceId, events.map(({ seq }) => seq)],
  );
  return events.map((event) => ({ ...event, decisions: decisions.filter(({ seq }) => seq === event.seq) }));
}

function renderEvent(event: ReceivedEvent): Html {
  const { sourceId, seq, receivedAt, secretIndex, body, isPending, decisions } = event;
  const fields = redactDocument(body.toString(), "event");
  return html`${renderFacts({
      Source: html`<a href="${sourceAddress(sourceId)}">${sourceId}</a>`,
      Received: renderInstant(receivedAt),
      "Verified by": `secret ${secretIndex + 1} of the source`,
      "Inbox position": seq,
      Size: `${describeCount(body.length)} bytes`,
      State: isPending ? "waiting for a worker" : "decided",
      Job: html`<a class="button" href="/ops/queue-health/event/${seq}">Find its job in the queue</a>`,
    })}
    <h2>Decisions</h2>
    ${decisions.length === 0 ? html`<p class="empty">None yet.</p>` : renderDecisions(event)}
    <h2>Body</h2>
    ${fields === null ? html`<p>It is not a JSON object; none of it can be shown.</p>` : renderFields(fields)}`;
}

function renderDecisions({ sourceId, receivedAt, decisions }: ReceivedEvent): Html {
  return renderTable({
    title: "Decisions",
    cards: true,
    columns: ["When", "After receipt", "Decision", { title: "Why", kind: "sentence" }, "Order", "Quarantine"],
    rows: decisions.map(({ verdict, reason, reference, seenAt, quarantineId }) => [
      renderInstant(seenAt),
      describeDelay(secondsSince(seenAt, receivedAt) ?? 0),
      verdict,
      reason ?? "–",
      linkOrder({ sourceId, reference }),
      quarantineId === null ? "–" : html`<a href="/ops/quarantine/${quarantineId}">${quarantineId}</a>`,
    ]),
  });
}
